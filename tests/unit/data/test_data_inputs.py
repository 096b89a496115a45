"""Whatever shape the data has, the vectors are the same."""

import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from faintly.core import Universe
from faintly.data import entries_from, read_records, to_vectors, vectors_from
from faintly.errors import InvalidData, InvalidVector

SMALL = Universe.indexed(100)
OPEN = Universe.open()
CLIENTS, ITEMS, VALUES = [0, 1, 0, 2], [3, 1, 2, 3], [0.5, -1.0, 1.0, 0.25]
COLUMNS = {"client": CLIENTS, "item": ITEMS, "value": VALUES}


def shapes():
    """Return the same three clients in every supported shape."""
    matrix = sparse.coo_array((VALUES, (CLIENTS, ITEMS)), shape=(3, 100))
    table = pa.table(COLUMNS)
    return {
        "dicts": [{3: 0.5, 2: 1}, {1: -1.0}, {3: 0.25}],
        "arrays": (np.array(CLIENTS), np.array(ITEMS, np.int16), np.array(VALUES, np.float32)),
        "lists": (CLIENTS, ITEMS, VALUES),
        "series": tuple(pd.Series(column) for column in COLUMNS.values()),
        "objects": tuple(np.array(c, dtype=object) for c in COLUMNS.values()),
        "csr": matrix.tocsr(),
        "csc": matrix.tocsc(),
        "coo": matrix,
        "csr_matrix": sparse.csr_matrix(matrix),
        "pandas": pd.DataFrame(COLUMNS),
        "pandas nullable": pd.DataFrame(COLUMNS).convert_dtypes(),
        "pandas shuffled index": pd.DataFrame(COLUMNS, index=[9, 9, 1, 0]),
        "pandas text": pd.DataFrame(COLUMNS).astype({"client": "category", "item": "string"}),
        "polars": pl.DataFrame(COLUMNS),
        "polars text": pl.DataFrame(COLUMNS).with_columns(pl.col("item").cast(pl.String)),
        "arrow": table,
        "arrow chunks": pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        "arrow batch": table.to_batches()[0],
        "arrow view": table.set_column(1, "key", table["item"].cast(pa.string_view())),
        "arrow decimal": table.set_column(2, "value", table["value"].cast(pa.decimal128(5, 2))),
    }


@pytest.mark.parametrize("shape", shapes())
def test_every_shape_gives_the_same_vectors(plan_of, shape):
    batch = vectors_from(shapes()[shape], plan_of(SMALL))
    assert batch.offsets.tolist() == [0, 2, 3, 4]
    assert batch.indices.tolist() == [2, 3, 1, 3]
    assert batch.values.tolist() == [1.0, 0.5, -1.0, 0.25]


@pytest.mark.parametrize(
    "data",
    [
        [{"a", "b"}, set(), frozenset("a")],
        [["a", "b"], (), {"a": 1.0}],
        ({"a": 1, "b": Decimal(1)}, {}, {"a": np.float32(1)}),
        [{"a", np.str_("b")}, {}, {"a": np.int8(1)}],
    ],
)
def test_sets_and_empty_clients(plan_of, data):
    batch = vectors_from(data, plan_of(OPEN))
    assert batch.lengths.tolist() == [2, 0, 1]
    assert batch.values.tolist() == [1.0, 1.0, 1.0]


def test_a_matrix_without_entries_is_clients_without_items(plan_of):
    assert vectors_from(sparse.csr_array((4, 9)), plan_of(SMALL)).lengths.tolist() == [0] * 4


def test_text_and_integer_keys_may_be_mixed_in_an_open_universe(plan_of):
    plan = plan_of(OPEN)
    batch = vectors_from(([1, 2, 3], ["a", 7, b"a"]), plan)
    assert batch.indices.tolist() == [*plan.ids(["a"]), 7, *plan.ids([b"a"])]


def test_a_batch_passes_through_if_it_fits_the_plan(plan_of):
    batch = vectors_from([{50: 1.0}], plan_of(SMALL))
    assert vectors_from(batch, plan_of(SMALL)) is batch
    with pytest.raises(InvalidVector):
        vectors_from(batch, plan_of(Universe.indexed(10)))


def frame(**columns):
    """Return the good columns with some replaced."""
    return COLUMNS | columns


@pytest.mark.parametrize(
    ("data", "start"),
    [
        ([{1: 1}, {777: 0.5}], "client 2: item is not an index"),
        ([{1: 1}, {7: 7.75}], "client 2: value is outside"),
        ([{1: 1}, {7: None}], "client 2: value is not a number"),
        ([{1: 1}, {7: "7.75"}], "client 2: value is not a number"),
        ([{1: 1}, {7: True}], "client 2: value is not a number"),
        ([{1: 1}, {7: float("nan")}], "client 2: value is not finite"),
        ([{1: 1}, [7, 7]], "client 2: this client already"),
        ([{1: 1}, {True}], "client 2: item is neither an integer nor text"),
        ([{1: 1}, {7.75: 1}], "client 2: item is neither an integer nor text"),
        ([{1: 1}, {None: 1}], "client 2: item is missing"),
        ([{1: 1}, "hospital"], "client 2 is neither a dict nor a set of items; pass {"),
        ([{1: 1}, 777], "client 2 is neither a dict nor a set"),
        ((CLIENTS, ITEMS, [1, 1, 7.75, 1]), "row 3: value is outside"),
        ((CLIENTS, ITEMS, [1, 1]), "the data has columns of different lengths"),
        ((CLIENTS, ITEMS[:3]), "the data has columns of different lengths"),
        ((CLIENTS, np.array([1, 2, 3, 777])), "row 4: item is not an index"),
        ((CLIENTS, np.array([1, 2, 3, 7.75])), "the data needs integers or text in column item"),
        ((["a", "b", 7.75, "c"], ITEMS), "row 3: client is neither"),
        ((np.zeros((2, 2)), ITEMS), "clients, items and values must be arrays of one dim"),
        (sparse.csr_array(([7.75], ([2], [1])), shape=(3, 9)), "row 3 of the matrix: value"),
        (sparse.csr_array(([1.0], ([2], [777])), shape=(3, 999)), "row 3 of the matrix: item"),
        (sparse.csr_array(([1j], ([2], [1])), shape=(3, 9)), "row 3 of the matrix: value"),
        (sparse.csr_array(([True], ([2], [1])), shape=(3, 9)), "row 3 of the matrix: value"),
        (pd.DataFrame(frame(value=[1, None, 1, 1])), "row 2: value is missing"),
        (pd.DataFrame(frame(value=[1, "7.75", 1, 1])), "row 2: value is not a number"),
        (pd.DataFrame(frame(item=[1, None, 1, 1])), "row 2: item is missing"),
        (pd.DataFrame(frame(client=["a", "b", None, "d"])), "row 3: client is missing"),
        (pd.DataFrame(frame(value=[1, 1, 1, 7.75])), "row 4: value is outside"),
        (
            pd.DataFrame({"client": [1], "hospital": [1]}),
            "the table has no column item (or key); it",
        ),
        (pl.DataFrame(frame(value=[1, None, 1, 1])), "row 2: value is missing"),
        (pl.DataFrame(frame(item=[1, None, 1, 1])), "row 2: item is missing"),
        (pl.DataFrame(frame(value=[1.0, 1, 1, 7.75])), "row 4: value is outside"),
        (pl.DataFrame(frame(value=["a", "b", "7.75", ""])), "row 1: value is not a number"),
        (pa.table(frame(value=[1, None, 1, 1])), "row 2: value is missing"),
        (pa.table(frame(item=[1, 2, 777, 1])), "row 3: item is not an index"),
        (pl.DataFrame(COLUMNS).lazy(), "cannot read a LazyFrame"),
        ("hospital", "cannot read a str"),
        (np.eye(3), "cannot read a ndarray"),
        (777, "cannot read a int"),
        ([], "the data holds no rows"),
        (([], []), "the data holds no rows"),
        (pd.DataFrame(COLUMNS).iloc[:0], "the data holds no rows"),
    ],
)
def test_bad_data_is_named_and_not_shown(plan_of, data, start):
    with pytest.raises(InvalidData) as caught:
        vectors_from(data, plan_of(SMALL))
    message = str(caught.value)
    assert message.startswith(start)
    assert re.search(r"; \w.{5}", message), "the rule is named, and no way to keep it"
    assert not [secret for secret in ("777", "7.75", "hospital", "None") if secret in message]


MESSY_COLUMNS = {
    "client": [0, 0, 0, 1, 1, 2, 3],
    "item": [3, 3, 400, 1, 2, 5, 6],
    "value": [0.75, 0.75, 1.0, -9.0, float("nan"), None, 0.5],
}
MESSY = {
    "dicts": [{3: 1.5, 400: 1}, {1: -9, 2: float("nan")}, {5: None}, {6: 0.5}],
    "text for a number": [{3: 2, -1: 1}, {1: -2, 2: "one"}, {}, {6: 0.5}],
    "lists": tuple(MESSY_COLUMNS.values()),
    "pandas": pd.DataFrame(MESSY_COLUMNS),
    "pandas objects": pd.DataFrame(MESSY_COLUMNS, dtype=object),
    "polars": pl.DataFrame(MESSY_COLUMNS, strict=False),
    "arrow": pa.table(MESSY_COLUMNS),
}


@pytest.mark.parametrize("shape", list(MESSY))
def test_without_strictness_data_is_projected_as_on_a_device(plan_of, shape):
    with pytest.raises(InvalidData):
        vectors_from(MESSY[shape], plan_of(SMALL))
    found = vectors_from(MESSY[shape], plan_of(SMALL), strict=False)
    assert found.offsets.tolist() == [0, 1, 2, 2, 3]
    assert found.indices.tolist() == [3, 1, 6]
    assert found.values.tolist() == [1.0, -1.0, 0.5]


def test_a_batch_of_another_universe_is_projected_too(plan_of):
    plan = plan_of(Universe.indexed(3))
    batch = vectors_from([{2: 1, 3: 0.5}, {3: 1}], plan_of(SMALL))
    with pytest.raises(InvalidVector):
        vectors_from(batch, plan)
    found = vectors_from(batch, plan, strict=False)
    assert (found.offsets.tolist(), found.indices.tolist()) == ([0, 1, 1], [2])


def test_what_was_read_without_strictness_stays_so(plan_of, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("client,item,value\na,3,7\na,3,\na,400,1\nb,2,x\n")
    with pytest.raises(InvalidData):
        read_records(file)
    records = read_records(file, strict=False)
    for found in (vectors_from(records, plan_of(SMALL)), to_vectors(records, plan_of(SMALL))):
        assert (found.offsets.tolist(), found.indices.tolist()) == ([0, 1, 1], [3])
        assert found.values.tolist() == [1.0]


def test_entries_without_a_value_are_no_entries(plan_of):
    rows = [{1: float("nan"), 2: 5.0, 99: 0.5}]
    with pytest.raises(InvalidData):
        entries_from(rows, plan_of(SMALL))
    found = entries_from(rows, plan_of(SMALL), strict=False)
    assert found.indices.tolist() == [4, 5]
    assert found.values.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ("nonnegative", "client 2: value is negative, and the plan takes values in [0, 1]"),
        ("set", "client 1: value is not 1, and the plan takes sets"),
    ],
)
def test_values_that_the_plan_does_not_take_are_refused_or_moved(plan_of, values, rule):
    plan = replace(plan_of(SMALL), values=values)
    held = [{3: 0.75, 2: 1}, {1: -1.0}, {3: 0.25}]
    whole = vectors_from(held, plan_of(SMALL))
    for data in (held, whole):
        with pytest.raises(InvalidData, match=re.escape(rule)) as refused:
            vectors_from(data, plan)
        assert "0.75" not in str(refused.value)
        moved = vectors_from(data, plan, strict=False)
        assert moved.lengths.tolist() == ([2, 0, 1] if values == "nonnegative" else [2, 0, 0])
    sets = vectors_from([{3, 2}, [1], []], plan)
    assert sets.values.tolist() == [1.0, 1.0, 1.0]
