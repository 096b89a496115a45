"""Predictions for a chosen slot, from the constants of its shape."""

from typing import TYPE_CHECKING

import numpy as np

from faintly.core import ReadingLaw
from faintly.core.arrays import FloatArray
from faintly.core.vector import VectorBatch
from faintly.mechanisms import ghosts, simulation
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.projection_choice import constants
from faintly.mechanisms.projection_choice import plan as planning

if TYPE_CHECKING:
    from faintly.mechanisms.projection_choice import ProjectionChoice


# Bias times the number of rows: measured 0.02 to 0.19, for epsilon 0.5 to 4 and 4 to 64 tokens.
DEPENDENCE = 0.25


class ChoiceForecast(Forecast):
    """Variance, bias and ghosts of a chosen slot."""

    mechanism: "ProjectionChoice"

    def reading_law(self) -> ReadingLaw:
        """Return the law of a fair sign in one bin of b or, unsigned, of whether it is the bin."""
        mechanism = self.mechanism
        if mechanism.shape.signed:
            return ReadingLaw.rare(1 / mechanism.bins)
        return ReadingLaw((-1, mechanism.bins - 1), (1 - 1 / mechanism.bins, 1 / mechanism.bins))

    def pair_covariance(self) -> float | None:
        """Return the chance that two tokens agree in the chosen group, scaled, less v·v'.

        Known in the dense form; the sign of a report cancels from the product of two readings.
        """
        mechanism = self.mechanism
        if mechanism.form != "dense" or mechanism.tokens < 2:
            return None
        agreement = constants.pair_agreement(mechanism.shape, mechanism.odds)
        return agreement / mechanism.attenuation**2 - 1

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        return constants.unheld_variance(self.mechanism.shape, self.mechanism.odds)

    @property
    def held_excess_moment(self) -> float:
        """Return how much more often a held item is hit, squared scale included; 0 without bins.

        With signed bins it is a bound.
        """
        mechanism = self.mechanism
        return constants.held_variance(mechanism.shape, mechanism.odds) + 1 - self.variance(0.0)

    def worst_variance(self) -> float:
        most = constants.worst_variance(self.mechanism.shape, self.mechanism.odds)
        return most + self.ghost_variance()

    def ghost_variance(self) -> float:
        """Return n·κ/(J·2^D), reached where everybody holds the same k items."""
        mechanism = self.mechanism
        if not self.plan.hashing.linear:
            return 0.0
        plan, sizes = self.plan, (mechanism.shape, mechanism.top, self.plan.universe.size)
        return planning.ghost_variance(*sizes, plan.clients, plan.hashing)

    def largest_ghost(self) -> float:
        """Return what the XOR of several tokens reads, if everybody holds them."""
        mechanism = self.mechanism
        if not self.plan.hashing.linear:
            return 0.0
        plan, variance = self.plan, self.variance(0.0)
        shared = plan.universe.size is None
        strength = constants.ghost_strength(mechanism.shape, mechanism.top, shared=shared)
        return ghosts.in_errors(strength, plan.hashing.maps, plan.clients, variance)

    def relative_bias(self) -> float:
        """Return what means lose because a row puts tokens into bins that are not independent.

        Two tokens alone lose nothing: they meet with chance 1/b over all rows.
        """
        mechanism = self.mechanism
        if not self.plan.hashing.linear or mechanism.form == "dense" or mechanism.tokens < 3:
            return 0.0
        return DEPENDENCE / mechanism.linear_bins.rows

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return what the cut to k tokens loses; an item becomes a token with chance |v|."""
        return self.cut(simulation.sums_of(vectors, np.abs))

    def influence(self) -> float:
        mechanism = self.mechanism
        most = 1.0 if mechanism.shape.signed else 1 - 1 / mechanism.bins
        return most / mechanism.attenuation
