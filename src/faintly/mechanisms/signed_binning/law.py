"""The exact law of noisy bins, for enumeration: one or two bins of a coarse grid."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly.core import WithinL1
from faintly.core.arrays import FloatArray, IdArray
from faintly.mechanisms import parameters as require
from faintly.mechanisms.law import Law, SmallCase, joint, kept_law, rounded_sum_law
from faintly.mechanisms.signed_binning import rows
from faintly.primitives import hashing, noise

if TYPE_CHECKING:
    from faintly.mechanisms.signed_binning import SignedBinning


MOST_FLIPS = 128  # in a small case of the squeeze row, whose law takes quadratic time


class BinLaw(Law):
    """The law of noisy bins, which are independent given where the items fall."""

    mechanism: "SignedBinning"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield a case of one or two coarse bins, with up to two items more than planned."""
        mechanism = self.mechanism
        bins = min(mechanism.bins, 2)
        if mechanism.row == "squeeze":
            yield self._small_squeeze()
        elif mechanism.row == "l1":
            near = WithinL1(min(1.5, require.l1_distance(self.plan.unit)))
            options = {"row": "l1", "bins": 1, "steps": 2}
            yield SmallCase(self.small(unit=near, sparsity=1, options=options))
        else:
            options = {"row": mechanism.row, "bins": bins, "steps": 1}
            yield SmallCase(self.small(sparsity=1, options=options))

    def _small_squeeze(self) -> SmallCase:
        """Return flips of as many items as the distance allows, in one bin of whole steps.

        Equal items differ by their signs only, so outcomes are classes by the number of minus
        signs. The noise is that of the plan's own lemma, on a grid that can be enumerated.
        """
        mechanism = self.mechanism
        flips = min(int(require.l1_distance(self.plan.unit) / 2), self.plan.sparsity, MOST_FLIPS)
        reach, delta = require.l1_distance(self.plan.unit), self.plan.budget.delta
        fine = rows.squeezed_steps(reach, self.plan.sparsity, 1, mechanism.steps, delta)
        change = -(-fine // mechanism.steps)
        bound = noise.exp_at_least(-noise.exact(self.plan.budget.epsilon) / change)
        thresholds = noise.laplace_thresholds(bound)
        span = flips + rows.tail_steps(thresholds) // 3
        small = replace(mechanism, bins=1, steps=1, range=span, noise=tuple(thresholds))
        weighted = tuple(
            (math.comb(flips, minus) / 2**flips, ((0, -1),) * minus + ((0, 1),) * (flips - minus))
            for minus in range(flips + 1)
        )
        return SmallCase(small, pair=((1.0,) * flips, (-1.0,) * flips), weighted=weighted)

    def outcomes(self, items: int) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield every assignment of (bin, sign) to `items` items."""
        one = list(itertools.product(range(self.mechanism.bins), (1, -1)))
        yield from itertools.product(one, repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[tuple[int, int], ...]:
        seeds = np.full(len(ids), seed, dtype=np.uint64)
        place = hashing.places(seeds, ids, self.mechanism.bins, self.mechanism.hashed)
        return tuple(zip(place.bins.tolist(), place.signs.tolist(), strict=True))

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report: bins are independent given the hash."""
        mechanism = self.mechanism
        held: list[list[float]] = [[] for _ in range(mechanism.bins)]
        for value, (where, sign) in zip(values, outcome, strict=True):
            held[where].append(sign * value)
        fixed = tuple(mechanism.noise), mechanism.steps, mechanism.clip, mechanism.range
        return joint(_bin_law(*fixed, tuple(sorted(each))) for each in held)


@lru_cache(maxsize=4096)  # enumeration asks for the same bins under outcome after outcome
def _bin_law(
    thresholds: tuple[int, ...], steps: int, clip: int | None, limit: int, held: tuple[float, ...]
) -> FloatArray:
    """Return the law of a report's integer for a bin that holds these signed values."""
    raw, reach = rounded_sum_law(held, steps), len(held) * steps
    tail = 2 * (limit + reach) + rows.tail_steps(thresholds)
    shape = noise.laplace_law(thresholds, tail)
    middle = len(shape) // 2
    law = np.zeros(2 * limit + 1)
    for shift, share in zip(range(-reach, reach + 1), raw, strict=True):
        if share:
            moved = shift if clip is None else max(-clip, min(clip, shift))
            law += share * kept_law(shape, middle - moved, limit)
    return law
