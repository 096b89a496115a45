"""What a mechanism is asked to calibrate for, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faintly.core import Hashing
from faintly.core.plan import Terms, check_budget, check_sizes, check_values
from faintly.errors import InvalidPlan

SHARE = 0.05  # of the clients; few keys of real data are held by more
TABLE_MEMORY = 2**28  # bytes: 256 MiB of tables fit a small server


@dataclass(frozen=True, kw_only=True)
class CommonRequest(Terms):
    """What a request to the planner and one to a mechanism share."""

    family: str | None = None  # None: the mechanism's own choice for this decode
    maps: int | None = None
    bits: int | None = None
    memory: int = TABLE_MEMORY  # bytes that the tables may take


@dataclass(frozen=True, kw_only=True)
class Request(CommonRequest):
    """What a deployer asks a mechanism to calibrate for."""

    decode: str = "table"
    share: float = SHARE  # largest share of the clients that hold a key of interest
    options: Mapping[str, Any] = field(default_factory=dict)  # the mechanism's own knobs

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_sizes(self.unit, self.sparsity, self.clients, self.failure, self.decode)
        check_values(self.values)
        check_share(self.share)


def check_share(share: float) -> None:
    """Refuse a number that is not a share of the clients."""
    if not 0 < share <= 1:
        raise InvalidPlan(f"share must be above 0 and at most 1, got {share:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A mechanism's answer to a request: its integers and the hash they go with."""

    parameters: dict[str, Any]
    hashing: Hashing
