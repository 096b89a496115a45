"""Signed binning: k items share b bins under random signs, then integer noise.

Client  y[j] = clip(Σ s(x)·q(v[x]) over h(x) = j) + DiscreteLaplace, kept within ±U
Server  mean[x] = Σᵢ sᵢ(x)·yᵢ[hᵢ(x)] / (n·steps)
Rounding q onto a grid of 1/steps comes first, so everything after it is integer and the
guarantee does not depend on floats. Zhou et al. 2021 (arXiv:2112.03449), Algorithm 1, with
the four rows of its parameter table; signed_binning.proof.md has the arguments.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import Budget, Cells, Guarantee, Plan, Sketch, VectorBatch, WithinL1
from faintly.core.arrays import FloatArray, IdArray, IntArray, NarrowArray, WordArray
from faintly.core.report import Layout, ReportBatch, fields_below
from faintly.mechanisms import parameters as require
from faintly.mechanisms import simulation
from faintly.mechanisms.base import Planned
from faintly.mechanisms.law import SmallCase, joint, kept_law, rounded_sum_law
from faintly.mechanisms.registry import register
from faintly.mechanisms.rounding import round_values
from faintly.mechanisms.signed_binning import rows
from faintly.mechanisms.tables import Tables
from faintly.primitives import hashing, noise
from faintly.primitives.entropy import Rng

MOST_FLIPS = 128  # in a small case of the squeeze row, whose law takes quadratic time


class BinTables(Tables):
    """Tables of bins, each spread over b cells."""

    mechanism: "SignedBinning"

    def cells(self, batch: ReportBatch) -> Cells:
        """Return b cells per report: index r ⊕ Aᵀm with weight WHT(y)[m], for m below b."""
        limit = self.mechanism.range
        return Cells(*kernels.linear_cells(batch.hash_seeds, batch.fields, limit, self.maps))

    def squares(self, batch: ReportBatch) -> int:
        """Return Σ y², which covers collisions, noise and rounding."""
        return kernels.sum_squares(batch.fields, self.mechanism.range)


@register("signed-binning")
@dataclass(frozen=True, kw_only=True)
class SignedBinning(Planned):
    """Noisy sums of signed values, one for each bin."""

    planning = rows
    tables = cached_property(BinTables)
    plan: Plan
    row: str  # which row of the paper's table: event, l1, squeeze or user
    bins: int
    steps: int  # grid steps per unit
    clip: int | None  # bound of a raw bin in grid steps; None where the unit bounds the change
    range: int  # U: what a report can say, in grid steps
    noise: tuple[int, ...]  # coin thresholds out of 2^32

    @cached_property
    def layout(self) -> Layout:  # type: ignore[override]  # a value in every instance
        return fields_below(2 * self.range + 1, self.bins, self.plan.hashing.seed_bytes)

    @property
    def scale(self) -> float:  # type: ignore[override]
        # Table decoding spreads each bin over b cells, so it counts everything b times.
        return 1 / (self.steps * (self.bins if self.plan.hashing.family == "linear" else 1))

    @property
    def enforces_sparsity(self) -> bool:
        """Return whether more than k items are refused: in the squeeze row only."""
        return self.row == "squeeze"

    def guarantee(self) -> Guarantee:
        """Return the loss that the thresholds prove; see the proof note for each row."""
        sizes = (self.row, self.bins, self.steps, self.clip)
        loss = rows.loss(self.plan, *sizes, thresholds=self.noise)
        delta = noise.exact(self.plan.budget.delta) if self.row == "squeeze" else Fraction(0)
        conditions = rows.SQUEEZED if self.row == "squeeze" else ()
        budget = Budget.at_least(loss, delta)
        return Guarantee(self.plan.unit, budget, rows.THEOREMS[self.row], conditions)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the noisy bins of one report per vector.

        Privacy: the plan's unit within its budget, by the row's theorem. The caller draws
        `hash_seeds` without looking at the vectors, and from another source than `rng`.
        """
        self._check_items(vectors.lengths.max(initial=0))
        rounded = round_values(vectors.values, self.steps, rng)
        raw = self._bins(vectors, hash_seeds, rounded).ravel()
        if self.clip is not None:
            raw = raw.clip(-self.clip, self.clip)
        raw += noise.laplace(self.noise, len(raw), rng)
        kept = raw.clip(-self.range, self.range, out=raw)
        kept += self.range
        return kept.reshape(-1, self.bins).astype(np.uint32)

    def _bins(self, vectors: VectorBatch, seeds: IdArray, rounded: NarrowArray) -> IntArray:
        """Return the sums of signed values in every client's bins."""
        items = (seeds, vectors.offsets, vectors.indices, rounded)
        return kernels.bin_items(*items, bins=self.bins, hashed=self._hashed)

    @property
    def _hashed(self) -> str | hashing.LinearMaps:
        family = self.plan.hashing.family
        return self.tables.maps if family == "linear" else family

    def _values(self, batch: ReportBatch) -> IntArray:
        return batch.fields.astype(np.int64, order="C") - self.range

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σᵢ sᵢ(x)·yᵢ[hᵢ(x)] for each id, b times as much in the linear family."""
        family, seeds = self.plan.hashing.family, batch.hash_seeds
        if family == "linear":
            return self.tables.read(batch, ids)
        return kernels.read_hashed(seeds, self._values(batch), ids, family)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var: the mean square of a bin, less the key's own share of it.

        A key's own value adds no variance. mean² is at most the mean of its squares, so
        subtracting mean²/b leaves the interval, if anything, too wide.
        """
        total = sketch.squares / (max(1, sketch.count) * self.bins * self.steps**2)
        return np.maximum(total - means**2 / self.bins, self.noise_variance)

    @cached_property
    def noise_variance(self) -> float:
        """Return the variance of the noise of one bin, in units of the values."""
        return noise.laplace_variance(self.noise) / self.steps**2

    def pair_covariance(self) -> float:
        """Return 1/b: in one bin, with chance 1/b, s·s'·y² has the mean 2v·v' and not v·v'."""
        return 1 / self.bins

    def predicted_variance(self, mean_square: float) -> float:
        """Return noise plus collisions: `mean_square` spread over b bins."""
        return self.noise_variance + mean_square / self.bins

    def predicted_variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return noise, collisions with all other keys, and rounding."""
        rounding = simulation.rounding_variance(vectors, self.steps)
        own = simulation.means_at(vectors, rounding, ids)
        others = simulation.mean_square(vectors) + float(rounding.sum()) / max(1, len(vectors))
        mine = simulation.means_at(vectors, simulation.by_value(np.square, vectors), ids) + own
        return self.noise_variance + own + (others - mine) / self.bins

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return the chance that the items of a client fill a bin up to its bound.

        Further items no longer show there. The signed sum is taken as normal.
        """
        reach = (self.range if self.clip is None else self.clip) / self.steps
        out, over = np.zeros(len(vectors)), simulation.sums_of(vectors, np.abs) > reach
        spread = np.sqrt(simulation.sums_of(vectors, np.square)[over] / self.bins)
        out[over] = [math.erfc(reach / (math.sqrt(2) * one)) for one in spread.tolist()]
        return out

    def influence(self) -> float:
        return self.range / self.steps

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield a case of one or two coarse bins, with up to two items more than planned."""
        bins = min(self.bins, 2)
        if self.row == "squeeze":
            yield self._small_squeeze()
        elif self.row == "l1":
            near = WithinL1(min(1.5, require.l1_distance(self.plan.unit)))
            options = {"row": "l1", "bins": 1, "steps": 2}
            yield SmallCase(self.small(unit=near, sparsity=1, options=options))
        else:
            options = {"row": self.row, "bins": bins, "steps": 1}
            yield SmallCase(self.small(sparsity=1, options=options))

    def _small_squeeze(self) -> SmallCase:
        """Return flips of as many items as the distance allows, in one bin of whole steps.

        Equal items differ by their signs only, so outcomes are classes by the number of minus
        signs. The noise is that of the plan's own lemma, on a grid that can be enumerated.
        """
        flips = min(int(require.l1_distance(self.plan.unit) / 2), self.plan.sparsity, MOST_FLIPS)
        reach, delta = require.l1_distance(self.plan.unit), self.plan.budget.delta
        fine = rows.squeezed_steps(reach, self.plan.sparsity, 1, self.steps, delta)
        change = -(-fine // self.steps)
        bound = noise.exp_at_least(-noise.exact(self.plan.budget.epsilon) / change)
        thresholds = noise.laplace_thresholds(bound)
        span = flips + rows.tail_steps(thresholds) // 3
        small = replace(self, bins=1, steps=1, range=span, noise=tuple(thresholds))
        weighted = tuple(
            (math.comb(flips, minus) / 2**flips, ((0, -1),) * minus + ((0, 1),) * (flips - minus))
            for minus in range(flips + 1)
        )
        return SmallCase(small, pair=((1.0,) * flips, (-1.0,) * flips), weighted=weighted)

    def outcomes(self, items: int) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield every assignment of (bin, sign) to `items` items."""
        one = list(itertools.product(range(self.bins), (1, -1)))
        yield from itertools.product(one, repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[tuple[int, int], ...]:
        seeds = np.full(len(ids), seed, dtype=np.uint64)
        place = hashing.places(seeds, ids, self.bins, self._hashed)
        return tuple(zip(place.bins.tolist(), place.signs.tolist(), strict=True))

    def law(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report: bins are independent given the hash."""
        held: list[list[float]] = [[] for _ in range(self.bins)]
        for value, (where, sign) in zip(values, outcome, strict=True):
            held[where].append(sign * value)
        fixed = tuple(self.noise), self.steps, self.clip, self.range
        return joint(_bin_law(*fixed, tuple(sorted(each))) for each in held)


@lru_cache(maxsize=4096)  # enumeration asks for the same bins under outcome after outcome
def _bin_law(
    thresholds: tuple[int, ...], steps: int, clip: int | None, limit: int, held: tuple[float, ...]
) -> FloatArray:
    """Return the law of what a report says of a bin that holds these signed values."""
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
