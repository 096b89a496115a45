"""The wheel mechanism for sets: items cover arcs of a ring, and a covered point is likelier.

Ω = k·p·e^ε + 1 - k·p for arcs of length p on a ring of length 1; the density of a covered point is
e^ε/Ω, and the rest is spread over what is not covered. S. Wang et al., "Set-valued data publication
with local privacy: tight error bounds and efficient mechanisms" (VLDB 2020). The ring has 2^16
points here, so that chances are integers; `coverage.py` has the steps. Values are 0 or 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from faintly.errors import InvalidPlan
from faintly.mechanisms import parameters as require
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Calibrated, Request
from faintly_baselines import coverage
from faintly_baselines.coverage import SETS, Coverage, CoverageLaw

RING = 2**16  # points: much finer than any useful arc, much coarser than 2^32


class WheelLaw(CoverageLaw):
    """The law of arcs of several points."""

    mechanism: "Wheel"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield a ring of few points, with up to two items more than planned."""
        yield SmallCase(self.small(sparsity=1, options={"slots": 7, "arc": 3}), SETS, 3)
        yield SmallCase(self.small(sparsity=2, options={"slots": 6, "arc": 2}), SETS, 4)


@register("wheel")
@dataclass(frozen=True, kw_only=True)
class Wheel(Coverage):
    """Arcs of a fine ring, all of the length with the least variance."""

    law = cached_property(WheelLaw)

    theorem = "wheel.proof.md, Theorem 1 (at most k arcs are covered)"

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose the arc with the least variance, and the chance of a covered point."""
        options = dict(request.options)
        k, epsilon = request.sparsity, request.budget.epsilon
        slots = require.integer(options.pop("slots", RING), "slots", 2, coverage.MAX_SLOTS)
        arc = options.pop("arc", None) or round(slots / coverage.best_ring(k, epsilon))
        require.none_left(options, "wheel", "slots and arc")
        if arc < 1:
            raise InvalidPlan(
                f"a ring of {slots} points is too coarse for sparsity {k}; use collision"
            )
        require.integer(arc, "arc", 1, slots - 1)
        return cls.sized(request, slots, arc)
