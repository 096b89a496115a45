"""Scores are what they say, and a task's record has every column."""

import numpy as np
import pytest

from evaluation.datasets import Sample, Synthetic
from evaluation.experiments import Point
from evaluation.measure import Keys, Task, compare, keys_of, largest, run, score
from evaluation.methods import METHODS
from evaluation.results import COLUMNS, Cell
from faintly.core import VectorBatch

TRUTH = np.array([0.5, -0.25, 0.0, 0.0])


def sample_of(truth: np.ndarray, clients: int = 100) -> Sample:
    empty = VectorBatch(np.zeros(clients + 1, np.int64), np.zeros(0, np.uint64), np.zeros(0))
    return Sample(empty, truth, truth**2)


def test_scores_by_hand():
    ids = np.arange(4, dtype=np.uint64)
    keys = Keys(ids, np.array([True, True, True, False]))
    found = score(np.array([0.4, -0.25, 0.3, 0.1]), sample_of(TRUTH), keys)
    assert found["linf"] == pytest.approx(0.3)
    assert found["mse"] == pytest.approx((0.01 + 0 + 0.09) / 3)
    assert found["n_mse"] == pytest.approx(100 * found["mse"])
    assert found["bias"] == pytest.approx(-0.1 * 0.5 / (0.25 + 0.0625))
    assert found["zero_linf"] == 0.5
    assert found["zero_mse"] == pytest.approx((0.25 + 0.0625) / 3)


@pytest.mark.parametrize("count", [1, 2, 5, 6, 9])
def test_the_largest_are_the_first_of_a_stable_order(count):
    values = np.array([0.5, -1.0, 2.0, 0.5, 2.0, 0.5])
    assert largest(values, count).tolist() == [2, 4, 0, 3, 5, 1][:count]
    values[4] = np.nan
    assert largest(values, count).tolist() == [2, 0, 3, 5, 1, 4][:count]


def test_the_comparison_by_hand():
    ids = np.arange(4, dtype=np.uint64)
    keys = Keys(ids, np.array([True, True, True, False]))
    means, expected = np.array([0.4, -0.25, 0.3, 0.1]), np.array([1.0, 2.0, 4.0, 1.0])
    found = compare(means, expected, sample_of(TRUTH), keys, 0.0)
    assert found["predicted"] == pytest.approx(7 / 3)
    assert found["agreement"] == pytest.approx((1.0 + 0 + 9 / 4 + 1.0) / 4)
    assert found["compared"] == 4
    variance = (0.25 * 0.01 + 0.0625 * 0.02) / (0.25 + 0.0625) ** 2
    assert found["bias_spread"] == pytest.approx(variance**0.5)
    # A stated bias of a tenth is half a standard error at the first key, which does not count.
    biased = compare(means, expected, sample_of(TRUTH), keys, 0.1)
    assert biased["compared"] == 2
    assert biased["agreement"] == pytest.approx((9 / 4 + 1.0) / 2)


def test_the_all_zero_answer_has_the_bias_of_minus_one():
    keys = keys_of(sample_of(TRUTH), "all")
    found = score(np.zeros(4), sample_of(TRUTH), keys)
    assert found["bias"] == -1
    assert (found["linf"], found["mse"]) == (found["zero_linf"], found["zero_mse"])


def test_keys_that_are_asked():
    truth = np.linspace(1, 0, 5000)
    everything, top, some = (keys_of(sample_of(truth), keys) for keys in ("all", "top", "some"))
    assert len(everything.ids) == 5000
    assert everything.scored.all()
    assert top.ids[top.scored].tolist() == list(range(100))
    assert len(top.ids) == 1100
    assert len(some.ids) == 1000
    assert some.scored.all()
    assert (some.ids[0], some.ids[-1]) == (0, 4999)


def test_recall_needs_all_keys():
    truth = np.linspace(1, 0, 5000)
    sample = sample_of(truth)
    assert score(truth, sample, keys_of(sample, "all"))["recall"] == 1.0
    assert score(-truth, sample, keys_of(sample, "all"))["recall"] == 0.0
    assert score(truth[:1100], sample, keys_of(sample, "top"))["recall"] is None


@pytest.mark.parametrize("method", ["ours", "paper"])
@pytest.mark.parametrize("unit", ["event", "user"])
def test_a_record_has_every_column_and_repeats_itself(method, unit):
    task = Task(Point(Synthetic(500, 64, 4), unit, 2.0, "all", (method,)), method, 1)
    first, again = (run(task, None) for _ in range(2))
    assert first["status"] == "done", first
    assert set(COLUMNS) - set(first) == {"experiment", "error"}
    assert "failure=0.05" in first["parameters"]
    assert "hash_family=" in first["parameters"]
    assert "[" not in first["parameters"]
    for record in (first, again):
        assert record.pop("seconds") > 0
        assert record.pop("cpu_seconds") > 0
    assert first == again


def test_another_run_has_other_data_and_noise():
    point = Point(Synthetic(500, 64, 4), "user", 2.0, "all", ("paper",))
    one, two = (run(Task(point, "paper", number), None) for number in (0, 1))
    assert one["linf"] != two["linf"]
    assert one["zero_linf"] != two["zero_linf"]


def test_a_refusal_is_an_answer_and_an_accident_is_not(monkeypatch):
    point = Point(Synthetic(50, 64, 4), "l1:4", 2.0, "all", ("retrieval",))
    assert run(Task(point, "retrieval", 0), None)["status"] == "refused"
    monkeypatch.setattr("evaluation.measure.measure", lambda *_: 1 / 0)
    record = run(Task(point, "retrieval", 0), None)
    assert record["status"] == "failed"
    assert "ZeroDivisionError" in record["error"]


@pytest.mark.parametrize(("factor", "surprising"), [(1.0, False), (1.3, True)])
def test_measured_and_predicted_variances_are_compared(factor, surprising, monkeypatch):
    """Mutant: noise of 1.3 times the variance that the method predicts.

    4 runs of 4,096 keys: a standard error is at least sqrt(2/16384), or 1.1 %.
    """
    from faintly.mechanisms import Simulation

    honest = Simulation.totals

    def totals(self, *arguments):
        return np.rint(honest(self, *arguments) * factor**0.5).astype(np.int64)

    monkeypatch.setattr(Simulation, "totals", totals)
    point = Point(Synthetic(2_000, 4096, 4), "event", 1.0, "all", ("paper",))
    records = tuple(run(Task(point, "paper", number), None) for number in range(4))
    cell = Cell(point, METHODS["paper"], records)
    assert cell.surprise is not None
    assert (abs(cell.surprise) > 5) is surprising, cell.surprise
