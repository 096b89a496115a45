"""Parts of a mechanism: each has what one caller needs and others do not."""

from typing import TYPE_CHECKING

from faintly.core import Plan

if TYPE_CHECKING:
    from faintly.mechanisms.base import Mechanism


class Part:
    """The base of all parts: it knows its mechanism."""

    def __init__(self, mechanism: "Mechanism") -> None:
        self.mechanism = mechanism

    @property
    def plan(self) -> Plan:
        """Return the mechanism's plan."""
        return self.mechanism.plan
