"""What a client agrees to: limits that the application sets, or plans that it knows by digest.

A plan is public and may state any epsilon. Whoever writes the application decides what it
accepts, and does not leave that to the server a plan is fetched from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from faintly.core import Budget, Guarantee, Plan, Unit, UserLevel
from faintly.core.spending import at_least, units_of
from faintly.errors import FaintlyError, InvalidInput, PlanRefused
from faintly.mechanisms import Mechanism, mechanism_of

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Policy:
    """The plans that a client accepts; make one with `within` or `pinned`."""

    budget: Budget | None = None
    units: tuple[Unit, ...] = ()
    digests: frozenset[bytes] = frozenset()

    def __post_init__(self) -> None:
        if (self.budget is None or not self.units) and not self.digests:
            raise InvalidInput("a policy needs a largest budget with units, or pinned digests")

    @classmethod
    def within(cls, *, epsilon: float, delta: float = 0.0, units: Sequence[str | Unit]) -> "Policy":
        """Return the policy of any plan within a budget per report that protects a listed unit.

        Args:
            epsilon: the most that one report may spend.
            delta: the same for delta; 0 accepts pure plans only.
            units: event, user or l1:DISTANCE; l1 plans must hide that distance or a larger one.
        """
        if isinstance(units, str):
            raise TypeError("units must be a list, such as ['event', 'user']")
        return cls(budget=Budget(epsilon, delta), units=units_of(tuple(units)))

    @classmethod
    def pinned(cls, *digests: bytes | str) -> "Policy":
        """Return the policy of exactly the plans with these digests (bytes or hexadecimal)."""
        return cls(digests=frozenset(_digest(digest) for digest in digests))

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


def _digest(digest: bytes | str) -> bytes:
    try:
        raw = bytes.fromhex(digest) if isinstance(digest, str) else bytes(digest)
    except ValueError:
        raw = b""
    if len(raw) != DIGEST_BYTES:
        raise InvalidInput(f"a plan's digest has {DIGEST_BYTES} bytes, or twice as many hex digits")
    return raw


def read_plan(document: str | bytes) -> Plan:
    """Return the plan in a document from elsewhere, or raise `PlanRefused` with the reason."""
    try:
        return Plan.from_json(document)
    except FaintlyError as error:
        raise PlanRefused(f"the document is not a sound plan: {error}") from error


def admit(plan: Plan, policy: Policy | None) -> Mechanism:
    """Return the mechanism of a plan that the policy allows and whose integers keep its word."""
    if isinstance(policy, Policy):
        policy.check(plan)
    elif policy is not None or plan.parsed:
        raise PlanRefused(
            "a plan that was read and not made in this program needs a policy: "
            "Policy.within(epsilon=..., units=[...]) or Policy.pinned(digest)"
        )
    try:
        mechanism = mechanism_of(plan)
        _check_statement(plan, mechanism.guarantee())
    except FaintlyError as error:
        raise PlanRefused(f"the plan does not keep its word: {error}") from error
    return mechanism


def _check_statement(plan: Plan, proven: Guarantee) -> None:
    """Compare the plan's statement with what its integers prove, the unit included."""
    stronger = isinstance(proven.unit, UserLevel) or at_least(proven.unit, plan.unit)
    if not stronger or not plan.budget.covers(proven.budget):
        raise PlanRefused(
            f"it states {plan.budget} at {plan.unit} level, but its integers prove "
            f"{proven.budget} at {proven.unit} level"
        )
