"""Predictions for answers in GF(q), from the channel, collisions and shared points."""

import math
from typing import TYPE_CHECKING

import numpy as np

from faintly.core import ReadingLaw, VectorBatch
from faintly.core.arrays import FloatArray
from faintly.mechanisms import ghosts
from faintly.mechanisms.symbols import SymbolForecast

if TYPE_CHECKING:
    from faintly.mechanisms.retrieval_gf import RetrievalGf


class RetrievalGfForecast(SymbolForecast):
    """Variance, bias and ghosts of symbols of GF(q)."""

    mechanism: "RetrievalGf"

    def reading_law(self) -> ReadingLaw:
        """Return the law of a uniform symbol, mixed with a held one's where rows collide."""
        channel = self.mechanism.channel
        share = min(1.0, self.plan.sparsity * self.mechanism.collision)
        held = (channel.factors(1) + channel.factors(-1)) / 2
        values, places = np.unique(channel.counted, return_inverse=True)
        chances = np.bincount(places, weights=(1 - share + share * held) / channel.order)
        return ReadingLaw(tuple(values.tolist()), tuple(chances.tolist()))

    def variance(self, mean_square: float) -> float:
        """Return the channel's n·Var, plus that of collisions with held items."""
        k = self.plan.sparsity
        # Σ|v| is what collides; given Σv² over at most k items it is at most √(k·Σv²).
        load = min(k, math.sqrt(k * mean_square))
        collisions = load * self.mechanism.collision * self.held_excess_moment
        return self.mechanism.channel.absent_moment + collisions

    def ghost_variance(self) -> float:
        """Return what shared points add where every client holds the same k items of size 1."""
        return self.mechanism.shared_seeds(self.plan.clients)

    def largest_ghost(self) -> float:
        """Return the ghost of a key that shares a point under one seed with a key that all hold."""
        mechanism = self.mechanism
        if not mechanism.pointed or not mechanism.seed_size:
            return 0.0
        variance = mechanism.channel.absent_moment
        return ghosts.in_errors(1.0, 256**mechanism.seed_size, self.plan.clients, variance)

    def relative_bias(self) -> float:
        """Return the share of a value that collisions and dependent rows lose, for k items.

        For a polynomial without a seed and without a spare coefficient it bounds instead what a
        client of k items adds to a key that it does not hold.
        """
        mechanism, k = self.mechanism, self.plan.sparsity
        if not mechanism.pointed:
            return float(mechanism.order) ** min(0, k - 1 - mechanism.symbols)
        if mechanism.seed_size:
            return (k - 1) / (2 * mechanism.order)
        if mechanism.symbols > k:
            return 0.0
        largest, norm = mechanism.channel.contrast
        return math.sqrt(mechanism.channel.absent_moment) * norm * largest ** (k - 1)

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return the share of the items that are refused beyond k, or dropped beyond t symbols."""
        if self.mechanism.enforces_sparsity:
            return self.cut(vectors.lengths)
        kept: FloatArray = np.minimum(1.0, self.mechanism.symbols / np.maximum(1, vectors.lengths))
        return 1 - kept * (1 - self.relative_bias())

    def influence(self) -> float:
        return self.mechanism.channel.largest
