"""Predicted variance, bias and loss, for the planner and the evaluation."""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from faintly.core import AnyArray, FloatArray, IdArray, ReadingLaw, VectorBatch
from faintly.core.plan import MAX_SPARSITY
from faintly.mechanisms.part import Part
from faintly.mechanisms.simulation import by_length, by_value, mean_square, means_at


class Forecast(Part, ABC):
    """Predictions made before any report has arrived."""

    @abstractmethod
    def variance(self, mean_square: float) -> float:
        """Return n·Var at a key nobody holds.

        Args:
            mean_square: mean over clients of the sum of their squared values.
        """

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return the n·Var to expect at each id from exactly these vectors, to check simulations.

        The vectors are one per client, empty ones included, of at most k items each.
        """
        excess = self.held_excess_moment
        more = by_value(lambda v: excess * np.abs(v) - v**2, vectors)
        unheld = self.variance(mean_square(vectors))
        return unheld + means_at(vectors, more, ids)

    @property
    def held_excess_moment(self) -> float:
        """Return what a value of 1 adds to the second moment of a report at its key."""
        return 0.0

    def worst_variance(self) -> float:
        """Return the largest n·Var over all inputs of at most k items."""
        return self.unheld_variance()

    def ghost_variance(self) -> float:
        """Return what ghosts add to n·Var at every key where everybody holds the same k items."""
        return 0.0

    def unheld_variance(self) -> float:
        """Return the largest n·Var at a key that nobody holds."""
        return self.variance(self.plan.sparsity) + self.ghost_variance()

    def shared_variance(self, share: float) -> float:
        """Return the largest n·Var at a key that at most this share of the clients hold.

        n·Var is a mean over clients, so it lies between those of nobody and of everybody.
        """
        unheld = self.unheld_variance()
        return unheld + share * max(0.0, self.worst_variance() - unheld)

    def largest_ghost(self) -> float:
        """Return the largest ghost, in standard errors, where everybody holds the same items."""
        return 0.0

    def reading_law(self) -> ReadingLaw | None:
        """Return the exact law of what one report reads at a key that nobody holds.

        None where it depends on what people hold: then the normal law is used.
        """
        return None

    def pair_covariance(self) -> float | None:
        """Return n·Cov of the estimates at two keys, divided by the mean of v·v' there.

        None where it is not known: then any correlation is possible.
        """
        return None

    def relative_bias(self) -> float:
        """Return a bound on the bias at a key, relative to its mean, for clients with k items."""
        return 0.0

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return the share of its values that each client's report leaves out, over all hashes.

        Unlike `relative_bias` it covers vectors of more than k items. By default items are cut
        to k where the mechanism would refuse more. Elsewhere the loss is `relative_bias` at the
        client's number of items, and at most what a cut to k would lose.
        """
        if self.mechanism.enforces_sparsity:
            return self.cut(vectors.lengths)
        dropped = by_length(self._bias_of, vectors.lengths)
        return np.minimum(dropped, self.cut(vectors.lengths))

    def cut(self, items: AnyArray) -> FloatArray:
        """Return the share that a client with this many items loses by a uniform cut to k."""
        kept: FloatArray = self.plan.sparsity / np.maximum(items, self.plan.sparsity)
        return 1 - kept * (1 - self.relative_bias())

    def _bias_of(self, items: int) -> float:
        """Return the relative bias of this mechanism for clients with this many items."""
        plan = replace(self.plan, sparsity=min(max(items, self.plan.sparsity), MAX_SPARSITY))
        resized = replace(self.mechanism, plan=plan)  # type: ignore[type-var]  # a dataclass
        return resized.forecast.relative_bias()

    def pair_cost(self) -> float:
        """Return what direct reading of one report at one key costs, in hashes of a pair."""
        return 1.0

    @abstractmethod
    def influence(self) -> float:
        """Return how far one lying client can move any estimate, times the number of reports."""
