"""What a mechanism is: a frozen set of public integers with the verbs of these parts.

api          what a device and a server call; its part `tables` is for the engine
forecast     variance, bias and loss before there are reports, for the planner
law          the exact law of a report, for the auditor and the tests
simulation   many reports at once, for the evaluation

A new mechanism derives from `Mechanism`, and `registry` finds it by name.
"""

from typing import Any, Protocol, Self

from faintly.core import Plan
from faintly.mechanisms.api import Calibrated, Request
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Laws
from faintly.mechanisms.simulation import Simulated


class Mechanism(Simulated, Forecast, Laws):
    """All parts; derive a mechanism from this class."""


class Planning(Protocol):
    """A module that calibrates one mechanism, and checks the parameters of plans."""

    def calibrate(self, request: Request) -> Calibrated:
        """Return integers that protect the unit within the budget, or raise with the rule."""

    def checked(self, plan: Plan) -> dict[str, Any]:
        """Return the mechanism's fields, or refuse parameters that break a rule."""


class Planned(Mechanism):
    """A mechanism whose integers are found and checked in a module of their own."""

    planning: Planning

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        return cls.planning.calibrate(request)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        return cls(plan=plan, **cls.planning.checked(plan))  # type: ignore[call-arg]  # dataclasses
