"""The extra privacy of a trusted shuffler; never part of a plan's promise.

If somebody who is trusted mixes the reports of n clients and passes on nothing but the
mixture, the mixture as a whole is (ε, δ)-differentially private with a smaller ε than one
report. The bound is Theorem 3.1 of V. Feldman, A. McMillan and K. Talwar, "Hiding among
the clones: a simple and nearly optimal analysis of privacy amplification by shuffling"
(FOCS 2021, arXiv:2012.12803):

    ε ≤ ln(1 + B·(8√(e^ε₀·ln(4/δ)/n) + 8e^ε₀/n)),   B ≤ (1-e^-ε₀)/(1+e^-(ε₀+ε'))

with ε' the logarithm without B. This B, and the condition ε₀ ≤ ln(n/(16·ln(4/δ))), are those
of the authors' own program: slightly more cautious than the printed theorem.
"""

import math

from faintly.core import Guarantee, UserLevel
from faintly.errors import BoundDoesNotApply

CAVEAT = (
    "it needs a shuffler that is trusted to mix all reports and forget where each came from; "
    "it is no part of the plan's promise, and does not hold where reports carry tokens or are "
    "posted one by one"
)


def shuffled_epsilon(epsilon: float, clients: int, delta: float) -> float:
    """Return ε of the shuffled reports of `clients`, each of them ε₀ = `epsilon` by itself.

    Args:
        epsilon: pure local budget, against any change of a client's data.
        clients: reports that are shuffled together.
        delta: chance at which the central bound may fail.

    Raises:
        BoundDoesNotApply: outside the theorem's conditions.
    """
    if not 0 < delta < 1:
        raise BoundDoesNotApply(f"shuffling needs delta above 0 and below 1, got {delta:g}")
    least = 16 * math.exp(epsilon) * math.log(4 / delta)
    if clients < least:
        raise BoundDoesNotApply(
            f"shuffling at epsilon {epsilon:g} and delta {delta:g} needs at least "
            f"{math.ceil(least):,} reports, got {clients:,}"
        )
    grown = math.exp(epsilon)
    spread = 8 * math.sqrt(grown * math.log(4 / delta) / clients) + 8 * grown / clients
    share = -math.expm1(-epsilon) / (1 + math.exp(-epsilon) / (1 + spread))
    # Below the condition's edge the formula can exceed ε₀, which shuffling never does.
    return min(epsilon, math.log1p(share * spread))


def amplified(guarantee: Guarantee, clients: int, delta: float) -> float:
    """Return ε of a plan's shuffled reports, or refuse where the theorem says nothing.

    The theorem lets every other client's report hide this one, so any two inputs must look
    alike up to e^ε₀. Event and l1 promises compare neighbours only, and do not imply that.
    """
    if not isinstance(guarantee.unit, UserLevel):
        raise BoundDoesNotApply(
            f"shuffling is only proven for user level, got {guarantee.unit}; protect user"
        )
    if guarantee.budget.delta:
        raise BoundDoesNotApply(
            f"the bound is for pure reports, got delta {guarantee.budget.delta:g}; "
            "choose a pure mechanism"
        )
    return shuffled_epsilon(guarantee.budget.epsilon, clients, delta)
