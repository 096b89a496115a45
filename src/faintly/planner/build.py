"""Make a plan: calibrate a mechanism to a request and salt the result."""

from typing import Any

from faintly.core import Budget, Plan, Unit, Universe, parse_unit
from faintly.core.plan import SALT_BYTES
from faintly.mechanisms import Request, mechanism_class, mechanism_of
from faintly.primitives.entropy import secure

DEFAULT_MECHANISM = "signed-binning"


def make_plan(
    *,
    protect: str | Unit,
    epsilon: float,
    sparsity: int,
    clients: int,
    universe: int | Universe | list[str],
    delta: float = 0.0,
    failure: float = 0.05,
    mechanism: str = DEFAULT_MECHANISM,
    decode: str = "table",
    family: str | None = None,
    maps: int | None = None,
    bits: int | None = None,
    salt: bytes | None = None,
    **options: Any,
) -> Plan:
    """Return a plan that protects the unit within the budget.

    Args:
        protect: event, user or l1:DISTANCE.
        epsilon: privacy budget of one report.
        sparsity: items a client usually holds at most.
        clients: expected number of clients; more may report.
        universe: a size, a list of names, or a `Universe` (open for any text).
        delta: above 0 only where a theorem needs it.
        failure: chance that clipping or truncation touches any report.
        mechanism: name of a registered mechanism.
        decode: table answers all keys at once, direct any key at O(reports).
        family: hash family; None lets the mechanism choose.
        maps: public maps of the linear family; None lets the mechanism choose.
        bits: code bits of the linear family; None lets the mechanism choose.
        salt: 16 public bytes; fresh ones by default.
        **options: the mechanism's own knobs, such as bins, steps, row or cap.
    """
    request = Request(
        unit=parse_unit(protect) if isinstance(protect, str) else protect,
        budget=Budget(epsilon, delta),
        sparsity=sparsity,
        clients=clients,
        universe=_universe(universe),
        failure=failure,
        decode=decode,
        family=family,
        maps=maps,
        bits=bits,
        options=options,
    )
    calibrated = mechanism_class(mechanism).calibrate(request)
    plan = Plan(
        unit=request.unit,
        budget=request.budget,
        sparsity=sparsity,
        clients=clients,
        universe=request.universe,
        mechanism=mechanism,
        parameters=calibrated.parameters,
        hashing=calibrated.hashing,
        decode=decode,
        salt=secure().words(SALT_BYTES // 4).tobytes() if salt is None else salt,
        failure=failure,
    )
    mechanism_of(plan)
    return plan


def _universe(universe: int | Universe | list[str]) -> Universe:
    if isinstance(universe, Universe):
        return universe
    return Universe.indexed(universe) if isinstance(universe, int) else Universe.named(universe)
