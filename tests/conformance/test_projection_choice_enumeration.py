"""Projection choice, exactly: every pattern of every item, every pair, every slot.

Privacy and the absence of bias are enumerated for all forms and roundings, ghosts for all rows
of small linear hashes. Mutants stand beside each check and fail it.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from faintly.audit import checks
from faintly.core import WithinL1
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.projection_choice import constants
from faintly.mechanisms.projection_choice import law as laws
from faintly.planner import make_plan
from tests.conformance import suite

EXACT = 1e-12
TIGHT = 1e-8  # how far below epsilon a 32-bit threshold may leave the loss
SIGNED = (-1.0, 0.0, 0.5)
UNSIGNED = (0.0, 0.25, 1.0)


@pytest.fixture(autouse=True)
def _fresh_laws():
    """Laws are remembered by what they depend on; a mutant changes what that is."""
    caches = (laws.mixed_law, laws.padded_law)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def small(sparsity, epsilon=1.0, protect="user", **options):
    plan = make_plan(
        protect=protect,
        epsilon=epsilon,
        sparsity=sparsity,
        clients=1000,
        universe=8,
        mechanism="projection-choice",
        decode="direct",
        family="prf",
        salt=bytes(16),
        values="nonnegative" if options.get("form") == "unsigned" else "signed",
        **{"form": "dense", **options},
    )
    return mechanism_of(plan)


# Sparsity and options, grid, items: always up to k + 2 of them.
CASES = {
    "dense k1 G2": ((1, {"groups": 2}), checks.GRID, 3),
    "dense k2 G2": ((2, {"groups": 2}), SIGNED, 4),
    "dense k2 G2 N1": ((2, {"groups": 2, "top": 1, "epsilon": 3.0}), SIGNED, 4),
    "dense k3 G1": ((3, {"groups": 1, "epsilon": 0.5}), SIGNED, 5),
    "dense k1 G4": ((1, {"groups": 4, "top": 4}), (-1.0, 0.5), 2),
    "dense k2 G1, systematic": ((2, {"groups": 1, "rounding": "systematic"}), SIGNED, 4),
    "slots k1": ((1, {"form": "bins", "bins": 3, "epsilon": 3.0}), checks.GRID, 3),
    "bins k1 G2": ((1, {"form": "bins", "groups": 2, "bins": 2}), (-1.0, 0.5), 2),
    "bins k2 b2": ((2, {"form": "bins", "groups": 1, "bins": 2}), SIGNED, 4),
    "unsigned k2 b3": ((2, {"form": "unsigned", "groups": 1, "bins": 3}), UNSIGNED, 4),
    "unsigned k1 G2": ((1, {"form": "unsigned", "groups": 2, "bins": 2}), UNSIGNED, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_no_pair_of_vectors_loses_more_than_epsilon(name):
    (sparsity, options), grid, items = CASES[name]
    mechanism = small(sparsity, **options)
    verdict = checks.check_privacy(mechanism, grid, items)
    epsilon = mechanism.plan.budget.epsilon
    assert verdict.measured <= epsilon + EXACT, verdict
    assert verdict.measured >= epsilon - TIGHT, verdict


@pytest.mark.parametrize("protect", ["event", "l1:1"])
def test_smaller_units_are_hidden_as_well(protect):
    mechanism = small(2, protect=protect, groups=2)
    verdict = checks.check_privacy(mechanism, SIGNED, 4)
    assert verdict.holds, verdict
    near = replace(mechanism, plan=replace(mechanism.plan, unit=WithinL1(0.5)))
    assert checks.check_privacy(near, SIGNED, 3).measured < verdict.measured


def half_the_noise(mechanism):
    doubled = small(
        mechanism.tokens,
        2 * mechanism.plan.budget.epsilon,
        form=mechanism.form,
        groups=mechanism.groups,
        bins=mechanism.bins,
        top=mechanism.top,
    )
    return replace(mechanism, threshold=doubled.threshold)


def biased_coin(mechanism):
    return replace(mechanism, threshold=mechanism.threshold * 21 // 20)


@pytest.mark.parametrize("mutant", [half_the_noise, biased_coin])
@pytest.mark.parametrize("name", ["dense k2 G2", "bins k2 b2", "unsigned k2 b3"])
def test_thresholds_that_are_too_high_are_caught(mutant, name):
    (sparsity, options), grid, items = CASES[name]
    mechanism = mutant(small(sparsity, **options))
    assert checks.check_privacy(mechanism, grid, items).measured > 1.02
    assert not checks.check_statement(mechanism).holds


def test_ties_that_all_count_as_best_are_caught(monkeypatch):
    """Mutant: the best are no longer N, so their weights differ between vectors."""

    def all_ties(choice, scores):
        slots = np.stack([np.array(scores), -np.array(scores)], axis=1).ravel()
        best = slots >= np.sort(slots)[-choice.top]
        weights = np.where(best, np.e, 1.0)
        return weights / weights.sum()

    mechanism = small(2, groups=2, top=1)
    assert checks.check_privacy(mechanism, SIGNED, 3).holds
    laws.mixed_law.cache_clear()
    laws.padded_law.cache_clear()
    monkeypatch.setattr(laws, "choice_law", all_ties)
    assert checks.check_privacy(mechanism, SIGNED, 3).measured > 1.1


# What a client may hold: at most k items, or with systematic rounding a total of at most k.
HELD = {
    "dense k1 G2": [(), (1.0,), (-0.5,)],
    "dense k2 G2": [(), (0.5,), (-1.0, 0.25), (1.0, 1.0)],
    "dense k3 G1": [(), (1.0, -1.0, 1.0), (0.5, 0.125)],
    "dense k2 G1, systematic": [(), (0.5, -0.5, 1.0), (0.25, 0.25, -0.25, 0.5)],
    "slots k1": [(), (-1.0,), (0.5,)],
    "bins k2 b2": [(), (0.5,), (0.25, -1.0)],
    "unsigned k2 b3": [(), (1.0,), (0.25, 1.0), (0.5, 0.5)],
    "unsigned k1 G2": [(), (0.75,)],
}
READ = [(name, values) for name, cases in HELD.items() for values in cases]


@pytest.mark.parametrize(("name", "values"), READ, ids=str)
def test_what_the_server_reads_is_right_on_average(name, values):
    (sparsity, options), _, _ = CASES[name]
    mechanism = small(sparsity, **options)
    bias = suite.exact_bias(mechanism, values)
    assert len(bias) == len(values) + 1
    assert np.abs(bias).max() < EXACT, bias


def test_a_client_that_does_not_pad_is_caught(monkeypatch):
    """Mutant: no dummies. Still private, but one constant no longer fits all vectors."""
    mechanism = small(2, groups=2)
    plain = laws.padded_law
    monkeypatch.setattr(laws, "padded_law", lambda choice, scores, _: plain(choice, scores, 0))
    assert np.abs(suite.exact_bias(mechanism, (1.0,))).max() > 0.05
    assert checks.check_privacy(mechanism, SIGNED, 3).holds


def test_above_k_items_the_cut_is_a_bias_and_not_a_leak():
    """Three items where two fit: each survives with chance 2/3, and nothing else happens."""
    mechanism = small(2, groups=2)
    values = (1.0, -1.0, 1.0)
    bias = suite.exact_bias(mechanism, values)
    np.testing.assert_allclose(bias, [-1 / 3, 1 / 3, -1 / 3, 0], atol=EXACT)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dense k2 G2", (1.0, 1.0)),
        ("slots k1", (1.0,)),
        ("bins k2 b2", (1.0, -1.0)),
        ("unsigned k2 b3", (1.0, 1.0)),
        ("unsigned k1 G2", (1.0,)),
    ],
)
def test_variances_are_the_formulas(name, values):
    (sparsity, options), _, _ = CASES[name]
    mechanism = small(sparsity, **options)
    mean, variance = suite.exact_moments(mechanism, values)
    square = variance + mean**2
    odds = mechanism.odds
    assert square[-1] == pytest.approx(mechanism.forecast.variance(0), rel=EXACT)
    held = constants.held_variance(mechanism.shape, odds)
    if name == "bins k2 b2":
        assert square[0] - 1 <= held
        assert held <= 1.5 * square[0]
    else:
        assert square[0] - 1 == pytest.approx(held, rel=1e-10)


def ghosts(groups, bits, items, **options):
    """The mean of the estimate at every code, less the truth, over all rows of a linear hash."""
    mechanism = small(len(items), groups=groups, **options)
    codes = np.arange(2**bits)
    signs = 1 - 2 * (np.bitwise_count(codes[:, None] & codes[None, :]) & 1).astype(int)
    mean = np.zeros(2**bits)
    for rows in itertools.product(codes, repeat=groups):
        odd = (1 - signs[np.array(rows)][:, list(items)]) // 2  # (groups, items)
        law = mechanism.law.probabilities(
            [1.0] * len(items), tuple((2 ** np.arange(groups) @ odd).tolist())
        )
        for group, row in enumerate(rows):
            mean += (law[2 * group] - law[2 * group + 1]) * signs[row]
    mean /= mechanism.attenuation * len(codes) ** groups
    np.testing.assert_allclose(mean[list(items)], 1.0, atol=EXACT)
    mean[list(items)] -= 1.0
    return mechanism, mean


def test_ghosts_have_the_energy_that_widens_intervals():
    """One group, an odd number of independent codes: the bound is the truth."""
    for items in [(1, 2, 4), (3, 5, 8), (1, 2, 4, 8, 16)]:
        mechanism, mean = ghosts(1, 5, items)
        bound = constants.ghost_energy(mechanism.shape, mechanism.top)
        assert (mean**2).sum() == pytest.approx(bound, rel=1e-9)
        assert np.abs(mean[np.bitwise_xor.reduce(items[:3])]) > 0.1


@pytest.mark.parametrize(
    ("groups", "items", "top"), [(1, (1, 2), 1), (2, (1, 2, 4), 1), (2, (1, 2, 4), 2)]
)
def test_ghosts_stay_below_their_bound(groups, items, top):
    mechanism, mean = ghosts(groups, 3, items, top=top)
    energy = (mean**2).sum()
    assert energy <= constants.ghost_energy(mechanism.shape, mechanism.top) + EXACT
    assert energy > 0 or len(items) < 3


@pytest.mark.parametrize(
    "options",
    [
        {"decode": "table"},
        {"decode": "direct"},
        {"decode": "direct", "form": "bins"},
        {"decode": "direct", "form": "unsigned", "rounding": "systematic", "values": "set"},
        {"decode": "table", "form": "unsigned", "values": "nonnegative"},
        {"decode": "table", "form": "bins"},
    ],
    ids=str,
)
def test_small_cases_pass_the_suite(options):
    plan = make_plan(
        protect="user",
        epsilon=1.5,
        sparsity=20,
        clients=10**5,
        universe=1000,
        mechanism="projection-choice",
        **options,
    )
    cases = list(mechanism_of(plan).law.small_cases())
    assert len(cases) == 2
    for case in cases:
        assert case.mechanism.form == plan.parameters["form"]
        assert case.items == case.mechanism.tokens + 2
        for verdict in suite.conformance(case.mechanism, case.grid, case.items):
            assert verdict.holds, verdict
