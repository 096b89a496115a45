"""Predictions for orthogonal cells, from free bits, holders and ghosts."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from faintly.core import ReadingLaw
from faintly.core.arrays import FloatArray
from faintly.core.vector import VectorBatch
from faintly.mechanisms import ghosts, simulation
from faintly.mechanisms.bit_cells import CellForecast
from faintly.mechanisms.orthogonal import sizes

if TYPE_CHECKING:
    from faintly.mechanisms.orthogonal import Orthogonal


PAIR_COST = 1 / 64  # of a hash, for each word of a key's rows: 0.03 ns where a hash takes 2 ns

VALUE_STEPS = 16  # of a client's mean value, for the loss of long vectors


class OrthogonalForecast(CellForecast):
    """Variance, bias and ghosts of orthogonal cells."""

    mechanism: "Orthogonal"

    def reading_law(self) -> ReadingLaw:
        """Return the law of a uniform cell, by the client's own free bits."""
        return self.mechanism.channel.law

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        """Return V0, which does not depend on what clients hold."""
        return self.mechanism.channel.unheld

    @property
    def held_excess_moment(self) -> float:
        return self.mechanism.channel.held + 1 - self.mechanism.channel.unheld

    def worst_variance(self) -> float:
        excess = self.held_excess_moment
        most = max(0.0, excess - 1)
        if self.plan.values != "set":
            value = min(1.0, max(0.0, excess / 2))
            most = excess * value - value**2
        return self.mechanism.channel.unheld + most + self.ghost_variance()

    def ghost_variance(self) -> float:
        mechanism = self.mechanism
        plan, distinct = self.plan, mechanism.table and self.plan.universe.size is not None
        exponent = sizes.ghost_exponent(
            mechanism.channel, plan.sparsity, mechanism.blocks, distinct=distinct
        )
        return plan.clients / plan.hashing.maps * 2.0 ** min(1000.0, exponent - mechanism.bits)

    def largest_ghost(self) -> float:
        """Return the ghost at a key whose rows are sums of those of two keys that everybody holds.

        Hashed rows are so long that there is no such key.
        """
        mechanism = self.mechanism
        if not mechanism.table:
            return 0.0
        strength = sizes.ghost_strength(mechanism.channel, self.plan.universe.size)
        variance = mechanism.channel.unheld
        return ghosts.in_errors(strength, self.plan.hashing.maps, self.plan.clients, variance)

    def relative_bias(self) -> float:
        """Return the share of an item's weight that full cells lose among k items."""
        return self._bias_of(self.plan.sparsity)

    def _bias_of(self, items: int, value: float = 1.0) -> float:
        mechanism = self.mechanism
        loads = sizes.Loads(mechanism.channel, items, mechanism.blocks, mechanism.bits, value)
        return loads.lost(mechanism.bits)

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return what full cells lose; nothing is cut, so long vectors may lose everything."""
        lengths = vectors.lengths
        shares = simulation.sums_of(vectors, np.abs) / np.maximum(1, lengths)
        steps = np.ceil(shares * VALUE_STEPS)
        lost = np.zeros(len(vectors))
        for step in np.unique(steps).tolist():
            mine = steps == step
            bias = partial(self._bias_of, value=step / VALUE_STEPS)
            lost[mine] = simulation.by_length(bias, lengths[mine])
        return lost

    def influence(self) -> float:
        return max(map(abs, self.mechanism.channel.readings)) * self.mechanism.scale

    def pair_cost(self) -> float:
        """Return the cost of a few bits: planes of 512 reports are read together."""
        return PAIR_COST * self.mechanism.channel.most * self.mechanism.words
