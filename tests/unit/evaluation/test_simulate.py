"""A simulation makes reports, or draws their sum where they are as long as the universe."""

import numpy as np
import pytest

from faintly.data import true_means
from faintly.evaluation import simulate
from faintly.evaluation.datasets import Synthetic
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan

CLIENTS, KEYS = 2_000, 512


def plan_of(name, protect, **options):
    return make_plan(
        mechanism=name,
        protect=protect,
        epsilon=1.0,
        sparsity=4,
        clients=CLIENTS,
        universe=KEYS,
        salt=bytes(16),
        **options,
    )


@pytest.mark.parametrize(
    ("name", "protect", "options", "drawn"),
    [
        ("naive", "event", {"noise": "laplace"}, True),
        ("pckv", "user", {"form": "ue"}, True),
        ("pckv", "user", {"form": "grr"}, False),
        ("k-fold", "event", {}, False),
    ],
)
def test_errors_and_coverage_are_as_predicted(name, protect, options, drawn, monkeypatch):
    """4 runs of 512 keys: n·MSE strays by 3 %, and coverage by 0.5 %, in standard errors."""
    plan = plan_of(name, protect, **options)
    assert mechanism_of(plan).draws_sum is drawn
    if drawn:
        monkeypatch.setattr(type(mechanism_of(plan)), "randomize", None)  # no report is made
    vectors, ids = Synthetic(CLIENTS, KEYS, 4).vectors(0, None), np.arange(KEYS, dtype=np.uint64)
    result = simulate(plan, vectors, ids, true_means(vectors, ids), runs=4, seed=1)
    assert result.mean("n_mse") == pytest.approx(result.mean("predicted_n_var"), rel=0.2)
    assert result.mean("coverage95") == pytest.approx(0.95, abs=0.03)


def test_too_little_noise_shows(monkeypatch):
    """Mutant: half of the total's deviation."""
    plan = plan_of("naive", "event", noise="laplace")
    naive = type(mechanism_of(plan))
    honest = naive.simulated_totals
    monkeypatch.setattr(naive, "simulated_totals", lambda *given: honest(*given) // 2)
    vectors, ids = Synthetic(CLIENTS, KEYS, 4).vectors(0, None), np.arange(KEYS, dtype=np.uint64)
    result = simulate(plan, vectors, ids, true_means(vectors, ids), runs=4, seed=1)
    assert result.mean("n_mse") < 0.5 * result.mean("predicted_n_var")
    assert result.mean("coverage95") > 0.98
