"""Gaussian noise, enumerated: the exact delta of a few coordinates, and of many small moves."""

import math
from dataclasses import replace

import numpy as np
import pytest

from faintly.audit import checks
from faintly.errors import BoundDoesNotApply
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan


def small(distance, *, epsilon=1.0, delta=1e-3, keys=1, failure=1e-9):
    plan = make_plan(
        protect=f"l1:{distance}",
        epsilon=epsilon,
        delta=delta,
        sparsity=max(keys, math.ceil(distance / 2)),
        clients=1,
        universe=keys,
        failure=failure,
        mechanism="gaussian",
        decode="direct",
        salt=bytes(16),
    )
    return mechanism_of(plan)


CASES = [(0.5, 1.0, 1e-3), (1.0, 1.0, 1e-5), (2.0, 0.5, 1e-4), (2.0, 1.0, 1e-8), (2.0, 4.0, 1e-3)]


@pytest.mark.parametrize(("distance", "epsilon", "delta"), CASES)
def test_one_coordinate_keeps_delta_and_uses_it(distance, epsilon, delta):
    mechanism = small(distance, epsilon=epsilon, delta=delta)
    grid = [step / 8 for step in range(-8, 9)]
    verdict = checks.check_privacy(mechanism, grid, 1)
    claimed = mechanism.guarantee().budget.delta
    assert verdict.holds, verdict
    assert 0.9 * claimed <= verdict.measured <= claimed <= delta


def test_two_coordinates_keep_delta():
    mechanism = small(4, delta=0.01, keys=2)
    verdict = checks.check_privacy(mechanism, (-1.0, 0.0, 0.5, 1.0), 2)
    claimed = mechanism.guarantee().budget.delta
    assert verdict.holds, verdict
    assert 0.9 * claimed <= verdict.measured <= claimed


def composed_delta(one, other, count, epsilon):
    """The delta of `count` equal coordinates, their privacy losses rounded up and convolved."""
    seen = (one > 1e-300) & (other > 1e-300)
    grain = 1e-3 / count
    losses = np.ceil(np.log(one[seen] / other[seen]) / grain).astype(np.int64)
    low = losses.min()
    masses = np.zeros(losses.max() - low + 1)
    np.add.at(masses, losses - low, one[seen])
    size = count * (len(masses) - 1) + 1
    padded = 1 << (size - 1).bit_length()
    total = np.fft.irfft(np.fft.rfft(masses, padded) ** count, padded)[:size]
    loss = (np.arange(size) + count * low) * grain
    missed = count * float(one[~seen].sum())
    return float(np.maximum(total, 0) @ np.maximum(0, -np.expm1(epsilon - loss))) + missed


def worst_composed(mechanism, patterns):
    wide = replace(mechanism, range=math.ceil(14 * math.sqrt(mechanism.variance_steps)))
    deltas = []
    for count, move, start in patterns:
        laws = wide.law.coordinate_law(start), wide.law.coordinate_law(start + move)
        deltas += [composed_delta(*laws, count, 1.0), composed_delta(*laws[::-1], count, 1.0)]
    return deltas


# Sixteen in all: coordinates, how far each moves, from where.
PATTERNS = [(8, 2.0, -1.0), (9, 16 / 9, -1.0), (11, 16 / 11, -1.0), (16, 1.0, 0.0), (64, 0.25, 0.0)]


def test_many_coordinates_keep_delta_on_a_grid_of_whole_units():
    mechanism = small(16, delta=1e-5, keys=64)
    assert mechanism.steps == 1
    deltas = worst_composed(mechanism, PATTERNS)
    claimed = mechanism.guarantee().budget.delta
    assert max(deltas) <= claimed <= 1e-5
    assert deltas[0] >= 0.95 * claimed  # flips are the worst, and delta is nearly theirs


def test_mutants_exceed_delta():
    sound = small(16, delta=1e-5, keys=64)
    half = replace(sound, variance_steps=sound.variance_steps // 2)
    assert max(worst_composed(half, PATTERNS[:1])) > 5e-4
    assert half.guarantee().budget.delta > 5e-4
    one = small(2.0, delta=1e-5)
    leaky = replace(one, variance_steps=one.variance_steps * 9 // 10)
    assert not checks.check_privacy(leaky, (-1.0, 1.0), 1).holds
    # Mutant: a squared length of L, as if no coordinate moved by more than one.
    short = replace(small(1.0, delta=1e-5), plan=one.plan)
    assert not checks.check_privacy(short, (-1.0, 1.0), 1).holds


def test_a_grid_that_the_proof_does_not_cover_is_refused():
    coarse = replace(small(1.0), steps=1, variance_steps=16)
    with pytest.raises(BoundDoesNotApply, match="too coarse"):
        coarse.guarantee()


def test_bias_is_zero():
    mechanism = small(2.0, epsilon=4.0, delta=0.01)
    reports = np.arange(2 * mechanism.range + 1) - mechanism.range
    for value in (0.0, 0.3, -1.0):
        mean = float(mechanism.law.coordinate_law(value) @ reports) * mechanism.scale
        assert mean == pytest.approx(value, abs=1e-9)
