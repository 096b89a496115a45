"""The squeeze row: the exact delta over all hash functions stays within the promised one.

Its grid of 2^16 steps is too fine to enumerate, so the same formula is taken at a coarser
grid; the thresholds come from the library's own functions either way.
"""

import itertools
import math
from dataclasses import replace

import pytest

from faintly.audit import checks
from faintly.core import SparseVector, VectorBatch
from faintly.errors import BoundDoesNotApply, InvalidPlan, TooManyItems
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.signed_binning import rows
from faintly.planner import make_plan
from faintly.primitives import noise
from faintly.primitives.entropy import seeded

TAIL = 12  # e-folds of noise that reports may show: cutting the rest hides no more than e^-12


def plan_of(*, distance, sparsity, epsilon, delta, bins=1, family="blake2s", **options):
    return make_plan(
        mechanism="signed-binning",
        protect=f"l1:{distance:g}",
        epsilon=epsilon,
        delta=delta,
        sparsity=sparsity,
        clients=10,
        universe=64,
        failure=0.5,
        decode="direct",
        family=family,
        salt=bytes(16),
        **{"row": "squeeze", "bins": bins, **options},
    )


def coarse(plan, steps, share=1.0):
    """The plan's mechanism on a coarser grid, with `share` of the noise it needs."""
    mechanism = mechanism_of(plan)
    change = rows.squeezed_steps(
        plan.unit.distance, plan.sparsity, mechanism.bins, steps, plan.budget.delta
    )
    change = max(1, round(change * share))
    thresholds = noise.laplace_thresholds(
        noise.exp_at_least(-noise.exact(plan.budget.epsilon) / change)
    )
    reach = plan.sparsity * steps + math.ceil(TAIL * change / plan.budget.epsilon)
    return replace(mechanism, steps=steps, range=reach, noise=tuple(thresholds))


def worst_delta(mechanism, pairs):
    return checks.exact_deltas(mechanism, pairs, mechanism.plan.budget.epsilon).max()


def patterns(sparsity, distance, bins):
    """Flips, appearances, halves and mixtures of `sparsity` items within the distance."""
    grid = (-1.0, 0.0, 0.5, 1.0) if bins == 1 else (0.0, 1.0)
    for left in itertools.combinations_with_replacement(grid, sparsity):
        for target in (-1.0, 0.0, 1.0):
            pair = (left, (target,) * sparsity)
            if 0 < sum(abs(a - b) for a, b in zip(*pair, strict=True)) <= distance:
                yield pair


# The bound is only ever used where L/b >= ln(2b/delta); small cases need a large delta.
CASES = [
    {"distance": 8, "sparsity": 4, "epsilon": 1.0, "delta": 0.3, "bins": 1},
    {"distance": 12, "sparsity": 6, "epsilon": 2.0, "delta": 0.05, "bins": 1},
    {"distance": 9, "sparsity": 6, "epsilon": 4.0, "delta": 0.1, "bins": 1},
    {"distance": 12, "sparsity": 6, "epsilon": 8.0, "delta": 0.8, "bins": 1},
    {"distance": 8, "sparsity": 4, "epsilon": 16.0, "delta": 0.3, "bins": 2},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_delta_stays_within_the_promise(case):
    plan = plan_of(**case)
    mechanism = coarse(plan, steps=2 // case["bins"])
    pairs = list(patterns(case["sparsity"], case["distance"], case["bins"]))
    assert len(pairs) > 10
    assert worst_delta(mechanism, pairs) <= plan.budget.delta


@pytest.mark.parametrize("case", [CASES[1], CASES[2], CASES[4]], ids=str)
def test_an_eighth_of_the_noise_fails_the_same_check(case):
    """The lemma is loose on few items, so here it takes a grosser mutant to exceed delta."""
    plan = plan_of(**case)
    mutant = coarse(plan, steps=2 // case["bins"], share=1 / 8)
    pairs = patterns(case["sparsity"], case["distance"], case["bins"])
    assert worst_delta(mutant, pairs) > plan.budget.delta


def grouped(items):
    """Outcomes over equal items in one bin, by the number of minus signs."""
    for minus in range(items + 1):
        signs = (-1,) * minus + (1,) * (items - minus)
        yield math.comb(items, minus) / 2**items, tuple((0, sign) for sign in signs)


def test_grouping_outcomes_of_equal_items_changes_nothing():
    """Eight flips under a silly delta: some hashes lose more than epsilon, few enough of them."""
    plan = plan_of(distance=16, sparsity=8, epsilon=8.0, delta=0.8)
    mechanism = coarse(plan, steps=4)
    pair = (1.0,) * 8, (-1.0,) * 8
    full = checks.exact_delta(mechanism, *pair, 8.0)
    assert 1e-3 < full <= 0.8
    assert checks.exact_delta(mechanism, *pair, 8.0, grouped(8)) == pytest.approx(full, rel=1e-9)


def test_half_the_noise_fails_where_flips_are_many():
    """Forty-eight flips, delta 1e-6: the sound one keeps it, half the noise breaks it."""
    plan = plan_of(distance=96, sparsity=48, epsilon=16.0, delta=1e-6)
    pair = (1.0,) * 48, (-1.0,) * 48
    sound, half = (
        checks.exact_delta(coarse(plan, 8, share), *pair, 16.0, grouped(48)) for share in (1, 0.5)
    )
    assert sound <= 1e-6
    assert half > 1.5e-6


def test_a_linear_hash_would_break_the_promise():
    """Signs (-1)^<r,x> over 64 codes all agree once in 64 draws, not once in 2^63.

    Flips of 64 items whose codes form a subspace move the bin by 128 or not at all, which is
    why the family is refused below.
    """
    plan = plan_of(distance=128, sparsity=64, epsilon=8.0, delta=1e-3)
    mechanism = coarse(plan, steps=2)
    pair = (1.0,) * 64, (-1.0,) * 64
    aligned, balanced = ((0, 1),) * 64, ((0, 1), (0, -1)) * 32
    linear = [(1 / 64, aligned), (63 / 64, balanced)]
    assert checks.exact_delta(mechanism, *pair, 8.0, linear) > 2e-3
    assert checks.exact_delta(mechanism, *pair, 8.0, grouped(64)) < 1e-6


SOUND = {"distance": 64, "sparsity": 32, "epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"family": "linear"}, "BLAKE2s"),
        ({"family": "prf"}, "BLAKE2s"),
        ({"delta": 0.0}, "delta above 0"),
        ({"distance": 8}, "distance/bins"),
        ({"bins": 8}, "distance/bins"),
        ({"delta": 5e-20}, "a probability over 64-bit seeds"),
        ({"steps": 2**15}, "at least 65536 steps"),
    ],
    ids=str,
)
def test_refused_outside_its_conditions(changes, words):
    plan_of(**SOUND)
    with pytest.raises(BoundDoesNotApply, match=words):
        plan_of(**{**SOUND, **changes})


def test_plans_that_skip_the_conditions_are_refused():
    plan = plan_of(**SOUND)
    for changes in (
        {"parameters": {**plan.parameters, "steps": 2**10}},
        {"hashing": replace(plan.hashing, family="prf")},
        {"budget": replace(plan.budget, delta=1e-30)},
        {"parameters": {**plan.parameters, "bins": 8}},
    ):
        with pytest.raises((InvalidPlan, BoundDoesNotApply)):
            mechanism_of(replace(plan, **changes))


def test_too_many_items_are_refused_before_any_noise_is_drawn():
    plan = plan_of(**SOUND)
    mechanism = mechanism_of(plan)
    seeds = checks.np.arange(1, dtype=checks.np.uint64)
    fits = VectorBatch.of([SparseVector(range(32))])
    assert mechanism.randomize(fits, seeds, seeded(1, "noise")).shape == (1, 1)
    with pytest.raises(TooManyItems, match="at most 32"):
        mechanism.randomize(VectorBatch.of([SparseVector(range(33))]), seeds, seeded(1, "noise"))


def test_the_auditors_case_fails_with_half_the_noise():
    """Sixty-four flips at delta 1e-5: the plan's own lemma keeps it, half of its noise does not."""
    plan = plan_of(distance=128, sparsity=64, epsilon=4.0, delta=1e-5)
    (case,) = mechanism_of(plan).law.small_cases()
    assert checks.check_case(case).holds
    change = round(
        -plan.budget.epsilon / math.log(noise.carry_ratios(list(case.mechanism.noise))[0])
    )
    less = noise.laplace_thresholds(
        noise.exp_at_least(-noise.exact(plan.budget.epsilon) * 2 / change)
    )
    mutant = replace(case, mechanism=replace(case.mechanism, noise=tuple(less)))
    assert not checks.check_case(mutant).holds
