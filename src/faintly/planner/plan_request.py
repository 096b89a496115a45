"""A request for a plan: what a deployer wants, checked before any mechanism sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from faintly.core import Budget, Unit, Universe, parse_unit
from faintly.core.arguments import real, text, whole
from faintly.core.plan import (
    DECODES,
    SALT_BYTES,
    VALUES,
    check_between,
    check_sizes,
    check_values,
    shared_fields,
)
from faintly.errors import InvalidPlan
from faintly.mechanisms import Request, mechanism_names
from faintly.mechanisms.request import SHARE, CommonRequest, check_share
from faintly.planner.bounds import lower_bound
from faintly.planner.error_model import keys_of

MEASURES = ("worst", "typical")
CHECKS = {int: whole, float: real, str: text}  # of a field, by its type


@dataclass(frozen=True, kw_only=True)
class PlanRequest(CommonRequest):
    """What a deployer wants; None leaves a choice to the planner."""

    share: float | None = None  # largest share of clients with a key of interest; see `shared`
    mechanism: str | None = None
    options: Mapping[str, Any] | None = None  # None: every variant of the mechanism
    decode: str | None = None
    max_bytes: int | None = None
    mean_square: float | None = None  # Σv² of a typical client; a quarter of k if None
    measure: str = MEASURES[0]
    # The application ensures that no vector holds more, so refusing longer ones is no drawback. A
    # delta above 0 does not imply that: by default a client's policy refuses such mechanisms.
    hard_sparsity: bool = False

    def __post_init__(self) -> None:
        check_sizes(self.unit, self.sparsity, self.clients, self.failure, self.decodes[0])
        check_values(self.values)
        check_share(self.shared)
        check_between("memory", self.memory, 2**10, 2**34)
        if self.max_bytes is not None:
            check_between("max-bytes", self.max_bytes, 1, 2**20)
        if self.measure not in MEASURES:
            raise InvalidPlan(f"rank must be worst or typical, got {self.measure!r}")
        if self.mean_square is not None and not 0 <= self.mean_square <= self.sparsity:
            raise InvalidPlan(
                f"mean-square must be between 0 and the sparsity {self.sparsity}, "
                f"got {self.mean_square:g}"
            )
        if self.family not in (None, "linear") and (self.maps or self.bits):
            raise InvalidPlan("maps and bits belong to the linear family; leave them out")
        if self.options is not None and self.mechanism is None:
            raise InvalidPlan(
                f"the option {min(self.options, default='')!r} belongs to one mechanism; name it, "
                f"one of {', '.join(mechanism_names())}"
            )

    @property
    def shared(self) -> float:
        """Return the largest share of the clients that hold a key of interest.

        The default is that of real data, or 1 where values have signs: a key that many hold may
        then have a small mean, so that answers do not show how many hold it.
        """
        if self.share is not None:
            return self.share
        return 1.0 if self.values == VALUES[0] else SHARE

    @property
    def keys(self) -> int:
        """Return how many keys will be queried."""
        return keys_of(self.universe)

    @property
    def bound(self) -> float:
        """Return the lower bound on the worst-case n·Var of any pure mechanism."""
        return lower_bound(
            self.unit,
            self.budget.epsilon,
            self.sparsity,
            self.universe.size,
            values=self.values,
            share=self.shared,
        )

    @property
    def decodes(self) -> tuple[str, ...]:
        """Return the ways of decoding to consider: both, unless one was requested.

        Maps and bits describe public maps, so setting them implies tables.
        """
        if self.decode is not None:
            return (self.decode,)
        return ("table",) if self.maps is not None or self.bits is not None else DECODES

    def for_mechanism(self, decode: str, options: Mapping[str, Any]) -> Request:
        """Return the request that one mechanism calibrates for."""
        common = shared_fields(self, CommonRequest)
        return Request(**common, share=self.shared, decode=decode, options=options)


def request_names() -> set[str]:
    """Return the names of the arguments of `request_for`."""
    names = {each.name for each in fields(PlanRequest)} - {"unit", "budget"}
    return names | {"protect", "epsilon", "delta"}


def request_for(
    *,
    protect: str | Unit,
    epsilon: float,
    sparsity: int,
    clients: int,
    universe: int | str | Universe | list[str],
    delta: float = 0.0,
    **rest: Any,
) -> PlanRequest:
    """Return the request for a plan; `rest` are other fields of `PlanRequest`."""
    given = {name: value for name, value in rest.items() if value is not None}  # all have defaults
    given |= {"sparsity": sparsity, "clients": clients}
    for each in fields(PlanRequest):
        for kind, check in CHECKS.items():
            if each.name in given and each.type in (kind, kind | None):
                given[each.name] = check(given[each.name], each.name)
    return PlanRequest(
        unit=parse_unit(protect),
        budget=Budget(epsilon, delta),
        universe=as_universe(universe),
        **given,
    )


def check_salt(salt: bytes | None) -> None:
    """Refuse a salt of another type or length."""
    if salt is not None and not (isinstance(salt, bytes) and len(salt) == SALT_BYTES):
        raise InvalidPlan(f"salt must be {SALT_BYTES} bytes")


def as_universe(universe: int | str | Universe | list[str]) -> Universe:
    """Return a universe unchanged, or that of a size or of a list of names."""
    if isinstance(universe, Universe):
        return universe
    if isinstance(universe, str):
        if universe == "open":
            return Universe.open()
        raise InvalidPlan(
            f"a universe is a size, a list of names, or the word open, and not {universe!r}"
        )
    if isinstance(universe, Real):
        return Universe.indexed(whole(universe, "a universe's size"))
    assert not isinstance(universe, int)  # every int is a Real
    return Universe.named(universe)
