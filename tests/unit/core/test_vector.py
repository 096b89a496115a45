"""A client's vector is checked at the door, and no message shows what it held."""

import numpy as np
import pytest

from faintly.core import SparseVector, VectorBatch
from faintly.errors import InvalidVector


def test_a_vector_is_sorted_unique_and_without_zeros():
    vector = SparseVector([9, 2, 5], [1.0, 0.0, -0.25])
    assert vector.indices.tolist() == [5, 9]
    assert vector.values.tolist() == [-0.25, 1.0]
    assert vector.indices.dtype == np.uint64


def test_a_set_is_a_vector_of_ones():
    assert SparseVector([3, 1]).values.tolist() == [1.0, 1.0]


def test_an_empty_vector_is_valid():
    assert len(SparseVector([])) == 0
    assert len(SparseVector([], [])) == 0


def test_the_largest_id_is_kept():
    assert SparseVector(np.array([2**64 - 1], np.uint64)).indices.tolist() == [2**64 - 1]


@pytest.mark.parametrize(
    ("indices", "values", "rule"),
    [
        ([1, 2, 3], [0.5, float("nan"), 1.0], "value at position 1 is outside [-1, 1]"),
        ([1, 2, 3], [0.5, 1.0, float("inf")], "value at position 2 is outside [-1, 1]"),
        ([1], [float("-inf")], "value at position 0 is outside [-1, 1]"),
        ([1, 2], [1.0, 1.0000001], "value at position 1 is outside [-1, 1]"),
        ([1, 2], [-1.5, 0.0], "value at position 0 is outside [-1, 1]"),
        ([4711, 3, 4711], [1.0, 0.5, 0.25], "index at position 2 appears twice"),
        ([4711, 3, 4711], [0.0, 0.5, 0.0], "index at position 2 appears twice"),
        ([5, -4711], [1.0, 1.0], "index at position 1 is negative"),
        ([1, 2], [1.0], "indices and values must have the same length"),
        ([1.5], [1.0], "indices must be one row of non-negative integers"),
        (["4711"], [1.0], "indices must be one row of non-negative integers"),
        ([[1, 2]], [[1.0, 1.0]], "indices must be one row of non-negative integers"),
        ([2**64], [1.0], "indices must be one row of non-negative integers"),
        ([1], ["4711 secret"], "values must be real numbers in [-1, 1]"),
        ([1], [None], "values must be real numbers in [-1, 1]"),
    ],
)
def test_bad_vectors_are_refused_without_showing_them(indices, values, rule):
    with pytest.raises(InvalidVector) as caught:
        SparseVector(indices, values)
    assert str(caught.value) == rule
    assert caught.value.__cause__ is None
    for private in ("4711", "secret", "1.5", "1.0000001", "nan", "inf"):
        assert private not in str(caught.value)


@pytest.mark.parametrize("values", [[0.5, [1.0]], [1j, 0.5]], ids=["ragged", "complex"])
def test_values_that_are_no_row_of_numbers_are_refused(values):
    with pytest.raises(InvalidVector):
        SparseVector([1, 2], values)


def test_nothing_private_is_printed():
    vector = SparseVector([4711], [0.25])
    assert "4711" not in repr(vector)
    assert "0.25" not in f"{vector} {VectorBatch.of([vector])!r}"


def batch():
    return VectorBatch.of([SparseVector([1, 2], [0.5, -1.0]), SparseVector([]), SparseVector([7])])


def test_a_batch_keeps_vectors_apart():
    made = batch()
    assert len(made) == 3
    assert made.lengths.tolist() == [2, 0, 1]
    assert made.owners.tolist() == [0, 0, 2]
    assert made.indices.tolist() == [1, 2, 7]


def test_an_empty_batch():
    assert len(VectorBatch.of([])) == 0
    assert VectorBatch.of([]).owners.tolist() == []


@pytest.mark.parametrize("chosen", [[], [2, 0, 1], [1, 1], [0]])
def test_taking_is_the_batch_of_those_vectors_in_that_order(chosen):
    whole = batch()
    taken = whole.take(np.array(chosen, dtype=np.int64))
    assert len(taken) == len(chosen)
    for place, client in enumerate(chosen):
        one, same = taken.slice(place, place + 1), whole.slice(client, client + 1)
        assert one.indices.tolist() == same.indices.tolist()
        assert one.values.tolist() == same.values.tolist()


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (1, 2), (2, 9), (0, 0), (3, 3)])
def test_a_slice_is_the_batch_of_those_vectors(start, stop):
    part = batch().slice(start, stop)
    assert len(part) == max(0, min(3, stop) - start)
    assert part.lengths.tolist() == [2, 0, 1][start:stop]
    assert part.offsets[0] == 0


def test_padding_adds_empty_vectors_and_never_removes_one():
    assert batch().padded(5).lengths.tolist() == [2, 0, 1, 0, 0]
    assert batch().padded(1).lengths.tolist() == [2, 0, 1]


def rows(clients, indices, values, count=None):
    return VectorBatch.from_rows(
        np.array(clients, dtype=np.int64),
        np.array(indices, dtype=np.uint64),
        np.array(values, dtype=np.float64),
        count,
    )


def test_rows_in_any_order_become_vectors():
    made = rows([2, 0, 2, 0], [5, 9, 1, 3], [1.0, 0.5, -0.5, 0.0], count=4)
    assert made.offsets.tolist() == [0, 1, 1, 3, 3]
    assert made.indices.tolist() == [9, 1, 5]
    assert made.values.tolist() == [0.5, -0.5, 1.0]


def test_a_repeated_item_of_one_client_is_refused_by_its_row():
    with pytest.raises(InvalidVector, match=r"^row 2 repeats an item of its client$"):
        rows([0, 1, 0], [4711, 4711, 4711], [1.0, 1.0, 0.5])


def test_no_rows_are_no_clients_unless_counted():
    assert len(rows([], [], [])) == 0
    assert len(rows([], [], [], count=3)) == 3


def test_a_client_whose_values_are_all_zero_is_still_a_client():
    assert len(rows([0, 1], [1, 1], [1.0, 0.0])) == 2
