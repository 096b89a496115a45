"""Predicted error, split by cause, and the paper's bounds; formulas only.

letter  word
d       universe size, or the number of keys asked about
k       sparsity
b       bins
n       clients
β       failure
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from faintly.core import Plan
from faintly.mechanisms import mechanism_of


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """Predicted n·Var at a key that nobody holds, and what follows from it."""

    worst: float  # every client holds k items of size 1
    typical: float  # clients hold values whose squares add up to `mean_square`
    clients: int
    keys: int
    failure: float

    @property
    def stderr(self) -> float:
        """Return the predicted worst-case standard error of one mean."""
        return math.sqrt(self.worst / self.clients)

    @property
    def linf(self) -> float:
        """Return the predicted largest error over all keys, except with probability β."""
        return self.stderr * math.sqrt(2 * math.log(2 * self.keys / self.failure))


def predict(plan: Plan, mean_square: float | None = None, keys: int | None = None) -> ErrorModel:
    """Return the error a plan should expect.

    Args:
        plan: the collection.
        mean_square: mean over clients of the sum of squared values; a quarter of k if unknown.
        keys: keys that will be asked about; the universe's size by default, 10^6 if it is open.
    """
    mechanism = mechanism_of(plan)
    typical = plan.sparsity / 4 if mean_square is None else mean_square
    return ErrorModel(
        worst=mechanism.worst_variance(),
        typical=mechanism.predicted_variance(typical),
        clients=plan.clients,
        keys=keys or plan.universe.size or 10**6,
        failure=plan.failure,
    )


def paper_upper_bound(*, d: int, k: int, n: int, b: int, noise: float, failure: float) -> float:
    """Return (√(k/b) + Δ/ε)·√(ln(d/β)/n): the paper's L∞ error up to its constant.

    `noise` is Δ/ε, the scale of the Laplace noise. Zhou et al., Theorem "Main theorem".
    """
    return (math.sqrt(k / b) + noise) * math.sqrt(math.log(d / failure) / n)


def paper_lower_bound_event(d: int, n: int, epsilon: float) -> float:
    """Return min(1, √(ln d/n)/ε): Bassily and Smith's lower bound up to its constant (k = 1)."""
    return min(1.0, math.sqrt(math.log(d) / n) / epsilon)


def paper_lower_bound_user(d: int, k: int, n: int, epsilon: float) -> float:
    """Return min(1, √(ln C(d,k)/n)/ε): the paper's user-level lower bound up to its constant."""
    subsets = math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)
    return min(1.0, math.sqrt(subsets / n) / epsilon)


def smallest_visible(stderr: float, keys: int, false_rate: float = 0.05) -> float:
    """Return the smallest estimate that stands out over all keys.

    The chance that any of `keys` keys nobody holds is estimated above it is `false_rate`:
    Šidák's one-sided limit, as top lists use it.
    """
    tail = -math.expm1(math.log1p(-false_rate) / keys)
    return -NormalDist().inv_cdf(tail) * stderr
