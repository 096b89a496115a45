"""Make a plan: let the planner choose, or calibrate the mechanism that was named."""

from dataclasses import replace
from typing import Any

from faintly.core import Plan, Unit, Universe
from faintly.errors import FaintlyError, InvalidPlan
from faintly.mechanisms import mechanism_of
from faintly.planner.plan_request import PlanRequest, check_salt, request_for
from faintly.planner.sample import try_sparsities
from faintly.planner.search import plan_for, survey
from faintly.primitives.entropy import fresh_salt


def make_plan(
    *,
    protect: str | Unit,
    epsilon: float,
    clients: int,
    universe: int | str | Universe | list[str],
    sparsity: int | None = None,
    sample: Any = None,
    delta: float = 0.0,
    failure: float = PlanRequest.failure,
    values: str = PlanRequest.values,
    share: float | None = None,
    mechanism: str | None = None,
    decode: str | None = None,
    family: str | None = None,
    maps: int | None = None,
    bits: int | None = None,
    memory: int = PlanRequest.memory,
    hard_sparsity: bool = False,
    salt: bytes | None = None,
    **options: Any,
) -> Plan:
    """Return a plan that protects the unit within the budget.

    Args:
        protect: event, user or l1:DISTANCE.
        epsilon: privacy budget of one report.
        clients: expected number of clients; more may report.
        universe: a size, a list of names, or a `Universe` (open for any text).
        sparsity: most items of a client; what a client holds beyond it is partly lost.
        sample: instead of the sparsity, pilot data to choose it from: a path, or data in any shape
            that `vectors_from` takes. The plan has the sparsity chosen; `try_sparsities` compares
            it with others.
        delta: above 0 only where a theorem needs it.
        failure: chance that clipping or truncation touches any report.
        values: signed, nonnegative, or set where every value is 1; clients move others to the
            nearest of these.
        share: largest share of the clients that hold a key of interest. 1 is the worst case, and
            the default for signed values; else it is 0.05.
        mechanism: name of a registered mechanism; None takes the best of the ranking.
        decode: table answers all keys at once, direct any key at O(reports). None lets the
            ranking choose; with a named mechanism it is table where possible.
        family: hash family; None lets the mechanism choose.
        maps: public maps of the linear family; None lets the mechanism choose.
        bits: code bits of the linear family; None lets the mechanism choose.
        memory: bytes that the tables of a server may take.
        hard_sparsity: the application ensures that no vector holds more items than the sparsity;
            then mechanisms that refuse such vectors rank beside the others.
        salt: 16 public bytes; fresh ones by default.
        **options: those of the named mechanism, such as bins, steps, row or cap.
    """
    wanted = locals() | {"options": options or None}  # every argument, by its name
    for name in ("sparsity", "sample", "salt"):
        del wanted[name]
    check_salt(salt)
    if (sparsity is None) == (sample is None):
        raise InvalidPlan("give either the sparsity or a sample to choose it from")
    if sparsity is None:
        sparsity = try_sparsities(sample, **wanted).pick.sparsity
    request = request_for(sparsity=sparsity, **wanted)
    if mechanism is None:
        plan = survey(request).pick.plan
        return plan if salt is None else replace(plan, salt=salt)
    return _named(request, mechanism, options, fresh_salt() if salt is None else salt)


def _named(request: PlanRequest, mechanism: str, options: dict[str, Any], salt: bytes) -> Plan:
    """Return the plan of a named mechanism with these options."""
    refusals = []
    for decode in request.decodes:
        try:
            plan = plan_for(mechanism, request.for_mechanism(decode, options), salt)
            mechanism_of(plan)  # refuses integers that do not keep the promise
        except FaintlyError as error:
            refusals.append(error)
        else:
            return plan
    raise refusals[0]
