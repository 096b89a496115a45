"""What a client accepts: plans within limits that the application sets, or plans pinned by digest.

A plan may state any epsilon. The application decides what it accepts, not the server that a plan
comes from.

Some mechanisms refuse a vector of more than k items. With such a plan a server could learn from
a missing report that somebody holds more. So it is refused unless the application promises, with
`bounded_items`, that it never reports more than k items.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from faintly.core import Budget, Guarantee, Plan, Unit, UserLevel, parse_unit
from faintly.core.arguments import listed, text
from faintly.core.spending import at_least
from faintly.errors import FaintlyError, InvalidInput, PlanRefused
from faintly.mechanisms import Mechanism, mechanism_class, mechanism_of

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Policy:
    """The plans that a client accepts; make one with `within` or `pinned`."""

    budget: Budget | None = None
    units: tuple[Unit, ...] = ()
    digests: frozenset[bytes] = frozenset()
    bounded_items: bool = False
    baselines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.budget is None or not self.units) and not self.digests:
            raise InvalidInput("a policy needs a largest budget with units, or pinned digests")
        for name in self.baselines:
            if not mechanism_class(name).baseline:
                raise InvalidInput(f"{name} is not a baseline; leave it out")

    @classmethod
    def within(
        cls,
        *,
        epsilon: float,
        delta: float = 0.0,
        units: Sequence[str | Unit],
        bounded_items: bool = False,
        baselines: Sequence[str] = (),
    ) -> "Policy":
        """Return the policy of any plan within a budget per report that protects a listed unit.

        Args:
            epsilon: the most that one report may spend.
            delta: the same for delta; 0 accepts pure plans only.
            units: event, user or l1:DISTANCE; l1 plans must hide that distance or a larger one.
            bounded_items: the application never reports more items than a plan's sparsity, so
                that mechanisms which refuse more may be used.
            baselines: names of research baselines to accept; none by default.
        """
        if isinstance(units, str):
            raise TypeError("units must be a list, such as ['event', 'user']")
        return cls(
            budget=Budget(epsilon, delta),
            units=tuple(parse_unit(unit) for unit in listed(units, "units")),
            bounded_items=bounded_items,
            baselines=_names(baselines),
        )

    @classmethod
    def pinned(
        cls, *digests: bytes | str, bounded_items: bool = False, baselines: Sequence[str] = ()
    ) -> "Policy":
        """Return the policy of exactly the plans with these digests (bytes or hexadecimal)."""
        return cls(
            digests=frozenset(_digest(digest) for digest in digests),
            bounded_items=bounded_items,
            baselines=_names(baselines),
        )

    def check(self, plan: Plan) -> None:
        """Raise `PlanRefused` unless the plan is pinned, or its statement is within the limits."""
        if plan.digest in self.digests:
            return
        if self.budget is None:
            raise PlanRefused(f"plan {plan.digest.hex()} is not pinned by the client's policy")
        if not self.budget.covers(plan.budget):
            raise PlanRefused(
                f"the plan spends {plan.budget} per report; the policy allows {self.budget}"
            )
        if not any(at_least(plan.unit, wanted) for wanted in self.units):
            allowed = ", ".join(str(unit) for unit in self.units)
            raise PlanRefused(f"the plan protects {plan.unit}; the policy allows {allowed}")


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError("baselines must be a list, such as ['harmony']")
    return tuple(text(name, "a baseline", InvalidInput) for name in listed(names, "baselines"))


def _digest(digest: bytes | str) -> bytes:
    try:
        raw = bytes.fromhex(digest) if isinstance(digest, str) else bytes(memoryview(digest))
    except (TypeError, ValueError, OverflowError, MemoryError):
        raw = b""
    if len(raw) != DIGEST_BYTES:
        raise InvalidInput(f"a plan's digest has {DIGEST_BYTES} bytes, or twice as many hex digits")
    return raw


def read_plan(document: str | bytes) -> Plan:
    """Return the plan in a document from elsewhere, or raise `PlanRefused` with the reason."""
    try:
        return Plan.from_json(document)
    except FaintlyError as error:
        raise PlanRefused(f"the document is not a valid plan: {error}") from error


def admit(plan: Plan, policy: Policy | None) -> Mechanism:
    """Return the mechanism of a plan, if the policy allows it and its integers keep its promise.

    Baselines, and mechanisms that refuse some vectors, are refused unless the policy allows them.
    """
    if isinstance(policy, Policy):
        policy.check(plan)
    elif policy is not None or plan.parsed:
        raise PlanRefused(
            "a plan that this program did not make itself needs a policy: "
            "Policy.within(epsilon=..., units=[...]) or Policy.pinned(digest)"
        )
    try:
        mechanism = mechanism_of(plan)
        _check_statement(plan, mechanism.guarantee())
    except FaintlyError as error:
        raise PlanRefused(f"the plan breaks its promise: {error}") from error
    name = mechanism.name
    if mechanism.baseline and (policy is None or name not in policy.baselines):
        raise PlanRefused(
            f"{name} is a research baseline, for comparisons only; to accept it anyway, set "
            f"baselines=[{name!r}] in the policy"
        )
    if mechanism.enforces_sparsity and (policy is None or not policy.bounded_items):
        raise PlanRefused(
            f"{name} takes at most {plan.sparsity} items here, and a missing report would reveal "
            "that a person holds more; if the application never reports more, set "
            "bounded_items=True in its policy"
        )
    return mechanism


def _check_statement(plan: Plan, proven: Guarantee) -> None:
    """Refuse a plan whose integers prove less than it states, in its unit or its budget."""
    stronger = isinstance(proven.unit, UserLevel) or at_least(proven.unit, plan.unit)
    if not stronger or not plan.budget.covers(proven.budget):
        raise PlanRefused(
            f"it states {plan.budget} at {plan.unit} level, but its integers prove "
            f"{proven.budget} at {proven.unit} level"
        )
