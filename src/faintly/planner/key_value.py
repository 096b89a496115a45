"""Plans for key-value data, with the budget of an entry and not of a coordinate.

Adding or removing an entry (key, value) changes two coordinates, held by 1 and value by |v|;
changing its value changes one of them by up to 2. Either way the vector moves by at most
1 + |v| ≤ 2 in the L1 norm, and in at most two coordinates, one after the other. So an entry
is hidden within ε by

event   at ε/2: two neighbouring steps of ε/2 each
l1:2    at ε: one step
user    at ε: any change is one step

`key_value_plan` compares the first two by their error, and `entry_guarantee` returns what any plan
proves for an entry, from the plan's integers.
"""

from dataclasses import dataclass, replace
from typing import Any

from faintly.core import Budget, Guarantee, Plan, Universe, UserLevel
from faintly.core.arguments import text, whole
from faintly.core.key_value import entry_universe
from faintly.core.spending import Loss, steps_between
from faintly.errors import BoundDoesNotApply, InvalidPlan
from faintly.mechanisms import mechanism_of
from faintly.planner.plan_request import as_universe, check_salt, request_for
from faintly.planner.search import survey

ENTRY_DISTANCE = 2  # 1 + |v| where an entry comes or goes, |v - v'| where its value changes
ENTRY_COORDINATES = 2


@dataclass(frozen=True, slots=True)
class EntryGuarantee:
    """What a plan proves for a client's entries."""

    budget: Budget
    steps: int  # changes of the plan's unit that one entry amounts to
    proven: Guarantee  # what the mechanism proves for the plan's own unit

    def describe(self) -> str:
        """Return the guarantee as one paragraph for people."""
        if isinstance(self.proven.unit, UserLevel):
            hidden, why = "all entries of a person", "the plan hides the whole vector"
        else:
            hidden = "any one entry of a person (a key together with its value), "
            hidden += "added, removed or given another value"
            step = f"one step of the plan's own unit, {self.proven.unit}"
            if self.steps > 1:
                step = f"{self.steps} steps of the plan's own unit, {self.proven.unit}, of "
                step += f"{self.proven.budget} each"
            why = f"an entry is two coordinates, which is {step}"
        text = f"Hidden: {hidden}, within {self.budget} ({why})."
        if self.proven.conditions:
            text += " It holds provided that " + "; ".join(self.proven.conditions) + "."
        return text


def entry_guarantee(plan: Plan) -> EntryGuarantee:
    """Return what a plan over coordinates of entries proves for one entry.

    A chain of m steps, each (ε, δ), costs m·ε and δ·(1 + e^ε + … + e^((m-1)·ε)).

    Raises:
        BoundDoesNotApply: that delta reaches 1, so nothing is proven for an entry.
    """
    proven = mechanism_of(plan).guarantee()
    steps = steps_between(plan.unit, ENTRY_COORDINATES, ENTRY_DISTANCE)
    assert steps is not None  # an entry is bounded both ways
    loss = Loss.of(proven.budget).over(steps)
    if loss.delta >= 1:
        raise BoundDoesNotApply(
            f"an entry is {steps} steps of the plan's unit, and over these delta adds up to 1, "
            "which hides nothing; protect l1:2 or user, or use a smaller delta"
        )
    return EntryGuarantee(Budget.at_least(loss.epsilon, loss.delta), steps, proven)


def key_value_plan(
    *,
    protect: str,
    epsilon: float,
    entries: int,
    clients: int,
    universe: int | Universe | list[str],
    delta: float = 0.0,
    salt: bytes | None = None,
    **rest: Any,
) -> Plan:
    """Return the most accurate plan that hides an entry, or a whole person, within the budget.

    Args:
        protect: entry hides any one (key, value), user all that a person holds.
        epsilon: privacy budget of one report, for what is protected.
        entries: entries that a client usually holds at most; each makes two items.
        clients: expected number of clients; more may report.
        universe: the keys of entries, as for `make_plan`; the plan's own universe is twice that.
        delta: above 0 only where a theorem needs it.
        salt: 16 public bytes; fresh ones by default.
        **rest: other fields of a plan request, such as mechanism, decode or max_bytes.
    """
    check_salt(salt)
    wanted = {
        "sparsity": 2 * whole(entries, "entries"),
        "clients": clients,
        "universe": entry_universe(as_universe(universe)),
        **rest,
    }
    rankings = [
        survey(request_for(protect=unit, epsilon=budget.epsilon, delta=budget.delta, **wanted))
        for unit, budget in _routes(protect, Budget(epsilon, delta))
    ]
    found = [ranking.pick for ranking in rankings if ranking.candidates]
    if not found:
        raise InvalidPlan(rankings[-1].refusal_message)
    plan = min(found, key=lambda one: (bool(one.drawbacks), one.worst)).plan
    return plan if salt is None else replace(plan, salt=salt)


def _routes(protect: str, budget: Budget) -> list[tuple[str, Budget]]:
    """Return the units that hide what is protected, each with the budget that it may spend."""
    protect = text(protect, "protect")
    if protect == "user":
        return [("user", budget)]
    if protect != "entry":
        raise InvalidPlan(f"protect must be entry or user for key-value data, got {protect!r}")
    half = Budget(budget.epsilon / ENTRY_COORDINATES)
    return [("event", half), (f"l1:{ENTRY_DISTANCE}", budget)]
