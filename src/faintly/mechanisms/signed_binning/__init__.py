"""Signed binning: k items share b bins under random signs, then integer noise.

Client  y[j] = clip(Σ s(x)·q(v[x]) over h(x) = j) + DiscreteLaplace, kept within ±U
Server  mean[x] = Σᵢ sᵢ(x)·yᵢ[hᵢ(x)] / (n·steps)
Rounding q onto a grid of 1/steps comes first, so everything after it is integer and the
guarantee does not depend on floats. Zhou et al. 2021 (arXiv:2112.03449), Algorithm 1, with
the four rows of its parameter table; signed_binning.proof.md has the arguments.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from faintly import kernels
from faintly.core import Budget, Cells, Guarantee, Plan, Sketch, VectorBatch
from faintly.core.arrays import FloatArray, IdArray, IntArray, NarrowArray, WordArray
from faintly.core.report import Layout, ReportBatch, fields_below
from faintly.mechanisms.base import Planned
from faintly.mechanisms.registry import register
from faintly.mechanisms.rounding import round_values
from faintly.mechanisms.signed_binning import rows
from faintly.mechanisms.signed_binning.forecast import BinForecast
from faintly.mechanisms.signed_binning.law import BinLaw
from faintly.mechanisms.tables import Tables
from faintly.primitives import hashing, noise
from faintly.primitives.entropy import Rng

# What a mechanism that differs from this one derives from.
__all__ = ["BinForecast", "BinLaw", "BinTables", "SignedBinning", "rows"]


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
    forecast = cached_property(BinForecast)
    law = cached_property(BinLaw)
    plan: Plan
    row: str  # which row of the paper's table: event, l1, squeeze or user
    bins: int
    steps: int  # grid steps per unit
    clip: int | None  # bound of a raw bin in grid steps; None where the unit bounds the change
    range: int  # U: largest integer of a report, in grid steps
    noise: tuple[int, ...]  # coin thresholds out of 2^32

    @cached_property
    def layout(self) -> Layout:
        return fields_below(2 * self.range + 1, self.bins, self.plan.hashing.seed_bytes)

    @property
    def scale(self) -> float:
        # Table decoding spreads each bin over b cells, so it counts everything b times.
        return 1 / (self.steps * (self.bins if self.plan.hashing.linear else 1))

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
        self.check_items(vectors.lengths.max(initial=0))
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
        return kernels.bin_items(*items, bins=self.bins, hashed=self.hashed)

    @property
    def hashed(self) -> str | hashing.LinearMaps:
        """Return what places items in bins: the public maps, or the family's name."""
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
