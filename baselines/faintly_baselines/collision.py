"""The collision mechanism for sets: items hash to t slots, and slots with items are likelier.

Ω = k·e^ε + t - k; a slot that an item hits has the chance e^ε/Ω, the others share the rest.
S. Wang et al. (IJCAI 2021, arXiv:2304.04410) take vectors with signs: see `collision_signed`.
This module is for sets, whose values are 0 or 1; `coverage.py` has the steps, for arcs of one slot.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from faintly.mechanisms import parameters as require
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Calibrated, Request
from faintly_baselines import coverage
from faintly_baselines.coverage import SETS, Coverage, CoverageLaw


class CollisionLaw(CoverageLaw):
    """The law of arcs of one slot."""

    mechanism: "Collision"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield few slots, with up to two items more than planned."""
        yield SmallCase(self.small(sparsity=1), SETS, 3)
        yield SmallCase(self.small(sparsity=2, options={"slots": 4}), SETS, 4)


@register("collision")
@dataclass(frozen=True, kw_only=True)
class Collision(Coverage):
    """Arcs of one slot: an item hits a single one."""

    law = cached_property(CollisionLaw)

    theorem = "collision.proof.md, Theorem 1 (at most k slots are hit)"

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose the number of slots with the least variance, and their chance."""
        options = dict(request.options)
        k, epsilon = request.sparsity, request.budget.epsilon
        slots = options.pop("slots", None) or _best_slots(k, epsilon)
        require.none_left(options, cls.name, "slots")
        require.integer(slots, "slots", k + 1, coverage.MAX_SLOTS)
        return cls.sized(request, slots, 1)


def _best_slots(sparsity: int, epsilon: float) -> int:
    low = max(sparsity + 1, int(coverage.best_ring(sparsity, epsilon)))
    return min((low, low + 1), key=lambda slots: _variance(sparsity, epsilon, slots))


def _variance(sparsity: int, epsilon: float, slots: int) -> float:
    """Return n·Var at an absent item, up to a factor that does not depend on the slots."""
    omega = coverage.covered_total(sparsity, epsilon, slots)
    return (slots - 1) * (omega / (slots - sparsity)) ** 2
