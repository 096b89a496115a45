"""The error to expect of a plan, at worst and for typical clients; formulas only."""

import math
from dataclasses import dataclass

from faintly.core import Plan, Universe
from faintly.core.estimate import largest_score
from faintly.mechanisms import Mechanism, mechanism_of

OPEN_KEYS = 10**6  # keys assumed to be queried in an open universe
TYPICAL_SHARE = 0.25  # of k: what squared values add up to in k items of size one half


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """The predicted n·Var of a plan's estimates, and what follows from it."""

    worst: float  # every client holds k items of size 1, and at most `share` of them the key
    typical: float  # clients hold values whose squares add up to `mean_square`
    clients: int
    keys: int
    failure: float  # β
    unheld: float  # the same where nobody holds the key
    held: float  # the same where everybody may hold it
    share: float = 1.0

    @property
    def stderr(self) -> float:
        """Return the predicted worst-case standard error of one mean."""
        return math.sqrt(self.worst / self.clients)

    @property
    def typical_stderr(self) -> float:
        """Return the predicted standard error of one mean for typical clients."""
        return math.sqrt(self.typical / self.clients)

    @property
    def linf(self) -> float:
        """Return the predicted largest error over all keys, except with probability β."""
        return self.stderr * math.sqrt(2 * math.log(2 * self.keys / self.failure))


def predict(plan: Plan, mean_square: float | None = None, share: float = 1.0) -> ErrorModel:
    """Return the error to expect of a plan.

    Args:
        plan: the collection.
        mean_square: mean over clients of the sum of squared values; a quarter of k if unknown.
        share: largest share of the clients that hold a key of interest.
    """
    return error_of(mechanism_of(plan), mean_square, share)


def error_of(mechanism: Mechanism, mean_square: float | None, share: float) -> ErrorModel:
    """Return the error that `predict` gives the mechanism's plan."""
    plan = mechanism.plan
    typical = TYPICAL_SHARE * plan.sparsity if mean_square is None else mean_square
    return ErrorModel(
        worst=mechanism.forecast.shared_variance(share),
        typical=mechanism.forecast.variance(typical),
        clients=plan.clients,
        keys=keys_of(plan.universe),
        failure=plan.failure,
        unheld=mechanism.forecast.unheld_variance(),
        held=mechanism.forecast.worst_variance(),
        share=share,
    )


def keys_of(universe: Universe) -> int:
    """Return how many keys will be queried: all of them, or a guess for an open universe."""
    return universe.size or OPEN_KEYS


def smallest_visible(stderr: float, keys: int) -> float:
    """Return the smallest estimate that stands out over all keys.

    It is the limit that top lists use by default.
    """
    return largest_score(keys) * stderr
