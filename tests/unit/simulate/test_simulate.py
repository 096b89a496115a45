"""A simulation makes reports, or draws their sum where they are as long as the universe."""

import numpy as np
import pytest

from evaluation.datasets import Synthetic
from faintly.core import VectorBatch
from faintly.data import true_means
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.simulate import simulate

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
    assert mechanism_of(plan).simulation.draws_sum is drawn
    if drawn:
        monkeypatch.setattr(type(mechanism_of(plan)), "randomize", None)  # no report is made
    vectors, ids = Synthetic(CLIENTS, KEYS, 4).vectors(0, None), np.arange(KEYS, dtype=np.uint64)
    result = simulate(plan, vectors, ids, true_means(vectors, ids), runs=4, seed=1)
    assert result.mean("n_mse") == pytest.approx(result.mean("predicted_n_var"), rel=0.2)
    assert result.mean("coverage95") == pytest.approx(0.95, abs=0.03)


def test_too_little_noise_shows(monkeypatch):
    """Mutant: half of the total's deviation."""
    plan = plan_of("naive", "event", noise="laplace")
    naive = type(mechanism_of(plan).simulation)
    honest = naive.totals
    monkeypatch.setattr(naive, "totals", lambda *given: honest(*given) // 2)
    vectors, ids = Synthetic(CLIENTS, KEYS, 4).vectors(0, None), np.arange(KEYS, dtype=np.uint64)
    result = simulate(plan, vectors, ids, true_means(vectors, ids), runs=4, seed=1)
    assert result.mean("n_mse") < 0.5 * result.mean("predicted_n_var")
    assert result.mean("coverage95") > 0.98


def long_and_short():
    """Return 2,000 clients who all hold key 0; every other one holds 15 more keys."""
    clients = np.arange(CLIENTS)
    owners = np.repeat(clients[::2], 15)
    rest = 1 + (13 * owners + np.tile(np.arange(15), CLIENTS // 2)) % (KEYS - 1)
    return VectorBatch.from_rows(
        np.concatenate([clients, owners]),
        np.concatenate([np.zeros(CLIENTS), rest]).astype(np.uint64),
        np.ones(CLIENTS + len(owners)),
        CLIENTS,
    )


@pytest.mark.parametrize(
    ("name", "protect", "options", "carried"),
    [
        ("projection-choice", "user", {}, 0.625),  # it cuts to 4 of 16
        ("retrieval-gf", "event", {"form": "polynomial"}, 0.625),  # it refuses, so they are cut
        ("signed-binning", "event", {}, 1.0),  # it takes everything
    ],
)
def test_runs_are_scored_by_all_that_clients_hold(name, protect, options, carried):
    """Key 0, truly 1: half of the clients hold 16 items where the plan says 4.

    A mean of 8 runs strays by 6 standard errors once in 10^9 times.
    """
    plan = make_plan(
        mechanism=name,
        protect=protect,
        epsilon=4.0,
        sparsity=4,
        clients=CLIENTS,
        universe=KEYS,
        salt=bytes(16),
        **options,
    )
    vectors, ids = long_and_short(), np.arange(KEYS, dtype=np.uint64)
    result = simulate(plan, vectors, ids, true_means(vectors, ids), runs=8, seed=1)
    first = result.top[0]
    assert first.truth == 1.0
    assert first.after_cut == pytest.approx(carried, abs=0.02)  # the cut is random
    assert abs(first.answered - first.after_cut) < 6 * first.stderr
    assert first.bias == first.answered - 1.0
    loses = carried < 1
    assert (first.bias < -6 * first.stderr) is loses
    assert (result.mean("bias_top20") < result.mean("bias_top20", "after_cut")) is loses
    assert (result.mean("linf") > result.mean("linf", "after_cut") + 0.1) is loses
    assert result.excess.over == CLIENTS // 2
    assert result.mean("significant") >= 1
    assert result.mean("false_significant") < 1
    assert result.document()["after_cut"]["linf"] == result.mean("linf", "after_cut")
