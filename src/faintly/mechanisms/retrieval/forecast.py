"""Predictions for one-bit answers: n·Var of 1/θ² at every key, and ghosts."""

from typing import TYPE_CHECKING

from faintly.core import ReadingLaw
from faintly.mechanisms import ghosts
from faintly.mechanisms.bit_cells import CellForecast
from faintly.mechanisms.retrieval import sizes

if TYPE_CHECKING:
    from faintly.mechanisms.retrieval import Retrieval


class RetrievalForecast(CellForecast):
    """Variance, bias and ghosts of cells of one-bit answers."""

    mechanism: "Retrieval"

    def reading_law(self) -> ReadingLaw:
        """Return the law of a fair sign, which the client's own free bits make."""
        return ReadingLaw.coin()

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        """Return c², which does not depend on what clients hold."""
        return self.mechanism.scale**2

    def ghost_variance(self) -> float:
        mechanism, plan = self.mechanism, self.plan
        if not self.plan.hashing.linear:
            return 0.0
        energy = sizes.ghost_energy(
            plan.sparsity, mechanism.blocks, mechanism.shrink, plan.universe.size
        )
        return plan.clients * energy / mechanism.shape.codes

    def largest_ghost(self) -> float:
        """Return the ghost of three held keys whose codes add up to that of another."""
        mechanism = self.mechanism
        if not self.plan.hashing.linear:
            return 0.0
        strength = sizes.ghost_strength(mechanism.shrink, self.plan.universe.size)
        return ghosts.in_errors(
            strength, mechanism.shape.maps, self.plan.clients, mechanism.scale**2
        )

    def relative_bias(self) -> float:
        """Return the share of an item's weight that is lost to dropping, for k items."""
        distinct = self.plan.universe.size is not None
        return sizes.relative_bias(self.plan.sparsity, self.mechanism.shape, distinct)

    def influence(self) -> float:
        """Return c: what one report reads at any key."""
        return self.mechanism.scale
