"""Rows of entries become vectors of two coordinates a row."""

import numpy as np
import pytest

from faintly.core import Universe
from faintly.core.key_value import entry_vector
from faintly.data import entries_from, vectors_from
from faintly.errors import InvalidData
from faintly.planner import key_value_plan


def plan_of(universe):
    return key_value_plan(protect="entry", epsilon=1.0, entries=2, clients=3, universe=universe)


def same(left, right):
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("offsets", "indices", "values")
    )


PEOPLE = [{"a": 0.5, "b": -1.0}, {}, {"b": 0.0}]


@pytest.mark.parametrize("universe", [["a", "b"], Universe.open()])
def test_bulk_equals_one_client_at_a_time(universe):
    plan = plan_of(universe)
    single = vectors_from([entry_vector(person) for person in PEOPLE], plan)
    assert same(entries_from(PEOPLE, plan), single)
    assert single.lengths.tolist() == [4, 0, 1]  # a value of 0 is held, and adds nothing


def test_indices_double_in_numbers_and_in_text():
    plan = plan_of(4)
    rows = np.array([0, 0, 1]), np.array([1, 3, 0]), np.array([0.5, -1.0, 1.0])
    batch = entries_from(rows, plan)
    assert batch.indices.tolist() == [2, 3, 6, 7, 0, 1]
    assert batch.values.tolist() == [1.0, 0.5, 1.0, -1.0, 1.0, 1.0]
    assert same(entries_from((rows[0], ["1", "3", "0"], rows[2]), plan), batch)


@pytest.mark.parametrize(
    ("items", "values", "rule"),
    [
        ([1, 4], [0.5, 0.5], "row 2: item is not an index"),
        ([1, 1], [0.5, 0.5], "row 2: this client already holds"),
        ([1, 2], [0.5, 1.5], "row 2: value is outside"),
        ([1, 2], [0.5, np.nan], "row 2: value is not finite"),
    ],
)
def test_errors_name_the_row_of_the_data(items, values, rule):
    with pytest.raises(InvalidData, match=rule):
        entries_from((np.zeros(2, int), np.array(items), np.array(values)), plan_of(4))
