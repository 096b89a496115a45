"""Records become vectors, and every refusal points at a row without showing it."""

from types import SimpleNamespace

import numpy as np
import pytest

from faintly.core import Universe, VectorBatch
from faintly.data import Records, cut, to_vectors, true_means, vectors_from
from faintly.data.columns import Source, number_labels
from faintly.errors import InvalidData

OPEN = Universe.open()
SMALL = Universe.indexed(10)
NAMED = Universe.named(["apple", "pear", "plum"])


def records(clients, keys, values=None):
    """Return records whose rows are counted from 1."""
    source = Source()
    numbers, _ = number_labels(clients, "client", source)
    codes, distinct = number_labels(keys, "item", source)
    weights = None if values is None else np.asarray(values, dtype=float)
    return Records.checked(numbers, codes, distinct, weights, source=source)


def rows_of(batch):
    """Return each client's items as a dictionary of id to value."""
    return [
        dict(zip(part.indices.tolist(), part.values.tolist(), strict=True))
        for part in (batch.slice(i, i + 1) for i in range(len(batch)))
    ]


def test_clients_are_numbered_by_first_appearance(plan_of):
    batch = to_vectors(records(["z", "a", "z"], [3, 1, 2], [0.5, -1, 1]), plan_of(SMALL))
    assert rows_of(batch) == [{2: 1.0, 3: 0.5}, {1: -1.0}]


@pytest.mark.parametrize(
    "column",
    [
        np.array([7, 7, 9, 9, 9, 12]),
        np.array([9, 7, 12, 9, 7], dtype=np.int32),
        np.array([5], dtype=np.uint8),
        np.array(["b", "a", "b"]),
        np.array(["b", 3, "b"], dtype=object),
        np.zeros(0, dtype=np.int64),
        [b"x", "x", b"x"],
        [2**63, 1, 2**63],
    ],
)
def test_numbering_agrees_with_a_plain_loop(column):
    seen: dict[object, int] = {}
    expected = [seen.setdefault(label, len(seen)) for label in list(column)]
    numbers, labels = number_labels(column, "client", Source())
    assert numbers.tolist() == expected
    assert list(labels) == list(seen)


def test_without_values_a_row_is_one(plan_of):
    assert rows_of(to_vectors(records([1, 1], [4, 2]), plan_of(SMALL))) == [{2: 1.0, 4: 1.0}]


def test_zeros_are_dropped_and_their_client_stays(plan_of):
    assert rows_of(to_vectors(records([1, 2], [4, 4], [0, 1]), plan_of(SMALL))) == [{}, {4: 1.0}]


def test_text_is_an_index_only_in_an_indexed_universe(plan_of):
    text = records([1], ["7"])
    assert rows_of(to_vectors(text, plan_of(SMALL))) == [{7: 1.0}]
    plan = plan_of(OPEN)
    assert to_vectors(text, plan).indices.tolist() == plan.ids(["7"]).tolist()
    assert to_vectors(records([1], [7]), plan).indices.tolist() == [7]


def test_names_become_positions(plan_of):
    assert rows_of(to_vectors(records([1, 1], ["plum", "apple"]), plan_of(NAMED))) == [
        {0: 1.0, 2: 1.0}
    ]


@pytest.mark.parametrize(
    ("universe", "keys", "row"),
    [
        (SMALL, [1, 2, 4321, 3], 3),
        (SMALL, [1, -4321], 2),
        (SMALL, ["1", "4321"], 2),
        (SMALL, ["1", "2", "007"], 3),
        (SMALL, ["1", "quince"], 2),
        (SMALL, ["1", "٣"], 2),
        (SMALL, [1, 2**63], 2),
        (SMALL, [-4321, 2**63], 1),
        (SMALL, [1, 2**90], 2),
        (NAMED, ["pear", "plum", "quince"], 3),
        (NAMED, [0, 1, 4321], 3),
        (OPEN, ["a", "b\ud800"], 2),
        (OPEN, [5, -4321], 2),
        (OPEN, ["a", 2**64], 2),
    ],
)
def test_a_key_outside_the_universe_is_named_by_row(plan_of, universe, keys, row):
    with pytest.raises(InvalidData, match=rf"^row {row}: item ") as caught:
        to_vectors(records(range(len(keys)), keys), plan_of(universe))
    assert str(keys[row - 1]) not in str(caught.value)


def test_the_first_row_is_named_even_if_its_key_sorts_last(plan_of):
    with pytest.raises(InvalidData, match=r"^row 2:"):
        to_vectors(records([0, 1, 2, 3], np.array([3, 500, 1, -2])), plan_of(SMALL))


@pytest.mark.parametrize(
    ("values", "row", "rule"),
    [
        ([0.5, float("nan"), 9.25], 2, "not finite"),
        ([0.5, 0.25, float("inf")], 3, "not finite"),
        ([float("-inf"), 0.25, 0], 1, "not finite"),
        ([0.5, 9.25, 0], 2, "outside"),
        ([0.5, 0.25, -1.0000001], 3, "outside"),
    ],
)
def test_a_bad_value_is_named_by_row(values, row, rule):
    with pytest.raises(InvalidData, match=rf"^row {row}: value is {rule}") as caught:
        records([1, 2, 3], [1, 1, 1], values)
    assert "9.25" not in str(caught.value)


@pytest.mark.parametrize("spelled", [["41", "1", 41], ["41", "1", "41"]])
def test_a_repeated_item_is_named_by_its_later_row(plan_of, spelled):
    with pytest.raises(InvalidData, match=r"^row 3: this client already") as caught:
        to_vectors(records(["x", "x", "x"], spelled), plan_of(Universe.indexed(50)))
    assert "41" not in str(caught.value)


def test_no_rows_at_all_is_refused():
    with pytest.raises(InvalidData, match="no rows"):
        records([], [])


def test_repr_shows_no_contents():
    assert repr(records(["alice"], ["pear"])) == "Records(<1 private rows of 1 clients>)"


def test_cut_keeps_short_clients_and_shortens_long_ones(plan_of):
    data = [{1: 0.5}, {}, dict.fromkeys(range(10), 1.0), dict.fromkeys(range(4), -1.0)]
    whole = vectors_from(data, plan_of(SMALL))
    short, dropped = cut(whole, 4, np.random.default_rng(5))
    assert short.lengths.tolist() == [1, 0, 4, 4]
    assert dropped == 6
    before, after = rows_of(whole), rows_of(short)
    assert [after[i] == before[i] for i in (0, 1, 3)] == [True] * 3
    assert after[2].items() <= before[2].items()
    assert (np.diff(short.slice(2, 3).indices.astype(np.int64)) > 0).all()


def test_cut_is_uniform():
    """Each of 10 items stays in 3 of 10 cuts: 5 standard errors, false alarm below 1e-5."""
    clients = 20_000
    rows = np.repeat(np.arange(clients), 10)
    whole = VectorBatch.from_rows(rows, np.tile(np.arange(10), clients), np.ones(len(rows)))

    def off(generator):
        short, _ = cut(whole, 3, generator)
        kept = np.bincount(short.indices.astype(np.int64), minlength=10)
        return np.abs(kept - 0.3 * clients).max() / np.sqrt(clients * 0.3 * 0.7)

    exact = np.random.default_rng(6)
    assert off(exact) < 5
    mutant = SimpleNamespace(random=lambda count: exact.random(count).round(1))
    assert off(mutant) > 5  # among equal draws the first item stays


def test_true_means_count_every_client(plan_of):
    batch = vectors_from([{1: 1.0, 3: -0.5}, {}, {1: 0.5}, {9: 1.0}], plan_of(SMALL))
    asked = np.array([3, 1, 7, 1, 9], dtype=np.uint64)
    assert true_means(batch, asked).tolist() == [-0.125, 0.375, 0.0, 0.375, 0.25]
    assert true_means(batch, np.zeros(0, np.uint64)).tolist() == []
    assert true_means(batch.padded(8), asked).tolist()[1] == 0.1875
