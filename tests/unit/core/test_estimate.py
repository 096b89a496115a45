"""Answers carry their doubt, as rows, as columns and as tables of other libraries."""

import math

import numpy as np
import pytest

from faintly.core import Budget, Estimates, EventLevel, Guarantee
from faintly.core.estimate import normal_quantile
from faintly.errors import InvalidInput

GUARANTEE = Guarantee(EventLevel(), Budget(1.0), "a theorem")


def three():
    return Estimates(
        keys=["a", "b", "c"],
        mean=np.array([0.5, 0.0, -0.1]),
        stderr=np.array([0.1, 0.1, 0.2]),
        reports=100,
        guarantee=GUARANTEE,
        null_stderr=0.1,
        score=np.array([5.0, 0.0, -1.0]),
    )


def test_the_quantile_of_one_and_of_many():
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert normal_quantile(0.95, 10) == pytest.approx(2.799, abs=1e-3)
    assert normal_quantile(0.95, 0) == normal_quantile(0.95)
    assert math.isfinite(normal_quantile(0.95, 10**12))


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 2.0, float("nan")])
def test_impossible_levels(level):
    with pytest.raises(InvalidInput, match="confidence level"):
        normal_quantile(level)


def test_rows_agree_with_columns():
    answers = three()
    rows = list(answers)
    assert len(answers) == len(rows) == 3
    assert [row.key for row in rows] == ["a", "b", "c"]
    columns = answers.columns()
    assert next(iter(columns)) == "key"
    for name in ("mean", "stderr", "low", "high", "low_all", "high_all"):
        assert [getattr(row, name) for row in rows] == columns[name].tolist()
    assert rows == [answers[position] for position in range(3)]
    assert rows[0].reports == 100
    assert rows[0].guarantee is GUARANTEE


def test_simultaneous_intervals_are_wider_and_centered():
    answers = three()
    assert (answers.low_all < answers.low).all()
    assert (answers.high < answers.high_all).all()
    np.testing.assert_allclose((answers.low + answers.high) / 2, answers.mean)
    assert answers.noise_floor == pytest.approx(0.1959964, abs=1e-6)
    assert answers.noise_floor < answers.noise_floor_all


def test_taking_rows_keeps_the_statement_about_all_keys():
    """Rows are chosen for what they show, so their intervals must cover the choice too."""
    answers = three()
    one = answers.take(np.array([2]))
    assert list(one.keys) == ["c"]
    assert one.low_all.tolist() == [answers.low_all[2]]
    assert one.low_all[0] < one.low[0]
    assert one.noise_floor_all == answers.noise_floor_all


def test_tables_of_other_libraries():
    pytest.importorskip("pyarrow")
    table = three().to_arrow()
    assert table.column_names[:2] == ["key", "mean"]
    assert table.num_rows == 3


def test_data_frames():
    pytest.importorskip("pandas")
    frame = three().to_pandas()
    assert frame["key"].tolist() == ["a", "b", "c"]
