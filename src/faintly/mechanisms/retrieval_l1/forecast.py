"""Predictions for answers linear in the value."""

from typing import TYPE_CHECKING

from faintly.core import ReadingLaw
from faintly.mechanisms.retrieval_l1 import forms
from faintly.mechanisms.symbols import SymbolForecast

if TYPE_CHECKING:
    from faintly.mechanisms.retrieval_l1 import RetrievalL1


class RetrievalL1Forecast(SymbolForecast):
    """Variance and bias of symbols of a linear channel."""

    mechanism: "RetrievalL1"

    def reading_law(self) -> ReadingLaw:
        """Return the law of a fair sign at marked symbols, and 0 at others."""
        return ReadingLaw.rare(2 * self.mechanism.channel.marked / self.mechanism.channel.order)

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        """Return the channel's n·Var, which does not depend on what clients hold."""
        return self.mechanism.channel.absent_moment

    def worst_variance(self) -> float:
        return self.mechanism.channel.worst_variance

    def relative_bias(self) -> float:
        """Return the chance that the last of k items is dropped for a dependent row."""
        mechanism = self.mechanism
        if mechanism.pointed:
            return 0.0
        return forms.drop_chance(mechanism.order, self.plan.sparsity, mechanism.symbols)

    def influence(self) -> float:
        return self.mechanism.scale
