"""The ranking: every mechanism, variant and way of decoding that can serve a plan request.

Baselines are for comparison and take part only where the request names one.
Nothing here knows a mechanism by name. A mechanism says which variants are worth comparing,
calibrates each, and predicts its own error; the ranking measures, judges and sorts.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from faintly.core import Plan
from faintly.core.plan import SALT_BYTES, Terms, shared_fields
from faintly.errors import BoundDoesNotApply, FaintlyError, InvalidPlan
from faintly.mechanisms import Mechanism, Request, mechanism_class, mechanism_names, mechanism_of
from faintly.planner.error_model import ErrorModel, error_of
from faintly.planner.plan_request import PlanRequest, request_for
from faintly.primitives.entropy import fresh_salt

MAX_BIAS = 0.01  # a mean that is off by more than 1 % needs a warning
GHOST = 0.5  # standard errors: 95 % intervals then cover 92 % of such keys
MAX_OPERATIONS = 1e11  # a few minutes of one core at 2 to 3 ns each
MAX_MEMORY = 16 * 2**30  # what one ordinary server holds
TIE = 1.05  # n·Var: 2.5 percent of a standard error, which nobody would notice


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to serve a request, with all its costs."""

    mechanism: str
    options: Mapping[str, Any]
    decode: str
    plan: Plan
    bytes: int
    memory: int  # bytes on the server
    operations: int  # to answer every key
    key_operations: int  # to answer one more key
    error: ErrorModel
    bias: float  # bound, relative to a key's mean
    influence: float  # of one lying client, times the number of reports
    bound: float  # on n·Var, for any mechanism
    drawbacks: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """Return the predicted worst-case n·Var."""
        return self.error.worst

    @property
    def typical(self) -> float:
        """Return the predicted n·Var for typical clients."""
        return self.error.typical

    @property
    def stderr(self) -> float:
        """Return the predicted worst-case standard error of one mean."""
        return self.error.stderr

    @property
    def ratio(self) -> float:
        """Return how many times the lower bound the worst-case n·Var is."""
        return self.worst / self.bound if self.bound > 0 else math.inf

    @property
    def title(self) -> str:
        """Return mechanism and variant in a few words."""
        chosen = ", ".join(f"{name} {value}" for name, value in sorted(self.options.items()))
        return f"{self.mechanism} ({chosen})" if chosen else self.mechanism

    @property
    def decoding(self) -> str:
        """Return the cost of decoding in words."""
        if self.decode == "direct":
            return f"reads {self.key_operations:,} reports for each key"
        rows, columns = mechanism_of(self.plan).tables.shape
        tables = "one table" if rows == 1 else f"{rows:,} tables"
        reads = "one look-up" if self.key_operations == 1 else f"{self.key_operations:,} look-ups"
        return f"transforms {tables} of {columns:,} cells, then {reads} per key"


@dataclass(frozen=True)
class Refusal:
    """A mechanism that cannot serve the request, and the rule that it would break."""

    mechanism: str
    options: Mapping[str, Any]
    decode: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """All candidates, best first, and all refusals."""

    request: PlanRequest
    candidates: list[Candidate]
    refused: list[Refusal] = field(default_factory=list)

    @property
    def pick(self) -> Candidate:
        """Return the best candidate, or say why there is none."""
        if self.candidates:
            return self.candidates[0]
        raise InvalidPlan(self.refusal_message)

    @property
    def refusal_message(self) -> str:
        """Return every reason against every mechanism."""
        return "no mechanism can serve this plan; " + "; ".join(self.reasons)

    @property
    def reasons(self) -> list[str]:
        """Return why mechanisms were refused, each reason once."""
        against: dict[tuple[str, str], dict[str, None]] = {}
        for one in self.refused:
            against.setdefault((one.mechanism, one.reason), {})[one.decode] = None
        return [
            f"{mechanism} ({' and '.join(decodes)}): {reason}"
            for (mechanism, reason), decodes in against.items()
        ]

    @property
    def better_when_shared(self) -> tuple[Candidate, float] | None:
        """Return the candidate that errs less at widely held keys, and from which share on."""
        pick = self.pick
        sound = [one for one in self.candidates if not one.drawbacks]
        other = min(sound, key=lambda one: one.error.held, default=pick)
        gained, lost = other.error.unheld - pick.error.unheld, pick.error.held - other.error.held
        return (other, gained / (gained + lost)) if gained > 0 and lost > 0 else None

    @property
    def runner_up(self) -> Candidate | None:
        """Return the best candidate of another mechanism, else the next variant, if any."""
        others = self.candidates[1:]
        rivals = [one for one in others if one.mechanism != self.pick.mechanism]
        return next(iter(rivals or others), None)


def rank(**wanted: Any) -> list[Candidate]:
    """Return every candidate for the arguments of `request_for`, best first.

    >>> best = rank(protect="event", epsilon=1.0, sparsity=4, clients=10_000, universe=500)[0]
    >>> best.worst >= best.bound
    True
    """
    return survey(request_for(**wanted)).candidates


def survey(request: PlanRequest) -> Ranking:
    """Return the ranking of every mechanism, variant and decoding for a request.

    A candidate with a drawback (bias above 1 %, excessive decoding cost or memory, vectors
    of more than k items refused where the request does not rule them out) comes after all
    without one. Values of n·Var within 5 % of the least are a tie, which tables win, then fewer
    bytes, then cheaper decoding; then the same among those that are left.
    """
    salt = fresh_salt()
    found: dict[bytes, Candidate] = {}
    refused: list[Refusal] = []
    for name, decode, options in _variants(request, refused):
        measured = _fitted(name, request, decode, options)
        if isinstance(measured, str):
            refused.append(Refusal(name, options, decode, measured))
        else:
            salted = replace(measured.plan, salt=salt)
            found.setdefault(salted.digest, replace(measured, plan=salted))
    return Ranking(
        request=request, candidates=ordered(found.values(), request.measure), refused=refused
    )


def _fitted(
    name: str, request: PlanRequest, decode: str, options: Mapping[str, Any]
) -> Candidate | str:
    """Return the candidate within the byte limit, or the rule that refuses it."""
    measured, limit = _measure(name, _trial(request, decode, options)), request.max_bytes
    if limit is None or isinstance(measured, str) or measured.bytes <= limit:
        return measured
    # A mechanism that knows the option max_bytes can often make itself smaller.
    smaller = _measure(name, _trial(request, decode, {**options, "max_bytes": limit}))
    if isinstance(smaller, Candidate) and smaller.bytes <= limit:
        return smaller
    return f"needs {measured.bytes} bytes, more than the limit of {limit}"


def _variants(
    request: PlanRequest, refused: list[Refusal]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    names = mechanism_names(baselines=False) if request.mechanism is None else [request.mechanism]
    for name in names:
        for decode in request.decodes:
            if request.options is not None:
                yield name, decode, request.options
                continue
            try:
                for options in mechanism_class(name).variants(request.for_mechanism(decode, {})):
                    yield name, decode, options
            except FaintlyError as error:
                refused.append(Refusal(name, {}, decode, str(error)))


@dataclass(frozen=True)
class _Trial:
    """One request to a mechanism, hashable so that answers can be cached."""

    request: PlanRequest
    decode: str
    options: Mapping[str, Any] = field(compare=False)
    spelled_options: str  # 1, 1.0 and True are equal, but not the same option


def _trial(request: PlanRequest, decode: str, options: Mapping[str, Any]) -> _Trial:
    # A byte limit and the order of the ranking change no candidate.
    alike = replace(request, max_bytes=None, measure="worst", mechanism=None, options=None)
    return _Trial(alike, decode, options, repr(sorted(options.items())))


@lru_cache(maxsize=2048)
def _measure(name: str, trial: _Trial) -> Candidate | str:
    """Return the candidate under a placeholder salt, or the rule that refuses it."""
    request, decode, options = trial.request, trial.decode, trial.options
    try:
        plan = plan_for(name, request.for_mechanism(decode, options), bytes(SALT_BYTES))
        mechanism = mechanism_of(plan)
        error = error_of(mechanism, request.mean_square, request.shared)
    except FaintlyError as refused:
        return str(refused)
    if decode == "table":
        rows, columns = mechanism.tables.shape
        memory, each = 8 * rows * columns, mechanism.tables.maps.maps  # tables and their transform
        operations = rows * columns * max(1, columns.bit_length() - 1) + request.keys * rows
    else:
        memory, each = request.clients * (8 + 4 * len(mechanism.layout.widths)), request.clients
        operations = math.ceil(request.keys * request.clients * mechanism.forecast.pair_cost())
    return Candidate(
        mechanism=name,
        options=dict(options),
        decode=decode,
        plan=plan,
        bytes=mechanism.layout.record_bytes,
        memory=memory,
        operations=operations,
        key_operations=each,
        error=error,
        bias=mechanism.forecast.relative_bias(),
        influence=mechanism.forecast.influence(),
        bound=request.bound,
        drawbacks=tuple(drawbacks_of(mechanism, request, error, operations, memory)),
    )


def plan_for(name: str, request: Request, salt: bytes) -> Plan:
    """Return the plan that a mechanism calibrates for a request."""
    try:
        calibrated = mechanism_class(name).calibrate(request)
    except ArithmeticError:
        raise BoundDoesNotApply(f"{name} cannot compute with such extreme parameters") from None
    return Plan(
        **shared_fields(request, Terms),
        mechanism=name,
        parameters=calibrated.parameters,
        hashing=calibrated.hashing,
        decode=request.decode,
        salt=salt,
    )


def drawbacks_of(
    mechanism: Mechanism, request: PlanRequest, error: ErrorModel, operations: int, memory: int
) -> Iterator[str]:
    """Yield the drawbacks of a candidate, each as a clause."""
    bias, ghost = mechanism.forecast.relative_bias(), mechanism.forecast.largest_ghost()
    if mechanism.enforces_sparsity and not request.hard_sparsity:
        yield (
            "a vector of more items than the sparsity is refused on the device (set hard "
            "sparsity if there are none)"
        )
    # A mean of interest is at most the share, and its bias is relative to it.
    if bias > MAX_BIAS or bias * error.share > GHOST * error.stderr:
        yield f"means may be off by {bias:.2g} of their size"
    if ghost > GHOST:
        yield (
            f"if everybody holds the same keys, one that nobody holds may be off by {ghost:.1f} "
            "standard errors (more memory reduces that)"
        )
    if operations > MAX_OPERATIONS:
        yield f"answering all keys takes {operations:.1e} operations"
    if memory > MAX_MEMORY:
        yield f"the server needs {memory / 2**30:,.0f} GiB"


def ordered(candidates: Iterable[Candidate], measure: str) -> list[Candidate]:
    """Return the candidates best first, by the rules that `survey` states."""
    finite = (one for one in candidates if math.isfinite(getattr(one, measure)))
    left = sorted(finite, key=lambda one: (bool(one.drawbacks), getattr(one, measure)))
    done: list[Candidate] = []
    while left:
        limit = TIE * getattr(left[0], measure)
        flawed = bool(left[0].drawbacks)
        tied = [
            one for one in left if getattr(one, measure) <= limit and bool(one.drawbacks) == flawed
        ]
        done += sorted(
            tied, key=lambda one: (one.decode == "direct", one.bytes, one.operations, one.title)
        )
        left = left[len(tied) :]
    return done
