"""The JSON of the control plane, as pydantic checks it and OpenAPI shows it.

Errors name the place of an invalid value, and never quote it.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticCustomError

from faintly.core import Plan
from faintly.core.epochs import MAX_EPOCH
from faintly.core.estimate import FALSE_RATE, LEVEL
from faintly.core.strict_json import RepeatedField, no_repeats
from faintly.errors import InvalidPlan
from faintly.wire.http import REQUEST_ID_BYTES, TOKENS
from faintly.wire.problems import BAD_PLAN, BAD_REQUEST, INVALID, Problem
from faintly_collector.http import limits
from faintly_collector.storage.collection import CollectionStatus, Retention, State
from faintly_collector.storage.manifest import SegmentRow
from faintly_collector.storage.registry import MAX_SHOWN

KEY_RULE = (
    f"a key is an integer from 0 to 2^64 - 1, or text of at most {limits.KEY_LENGTH:,} characters "
    "without half of a surrogate pair"
)
EPOCH_RULE = "an epoch is an integer from 0 to 2^53 - 1, or all"
RULES = {"keys": KEY_RULE, "candidates": KEY_RULE, "epoch": EPOCH_RULE}  # where types may differ
UNKNOWN_FIELD = "extra_forbidden"  # as pydantic calls it
JSON_HINT = "Send a JSON object with the header Content-Type: application/json."


def _check_digits(given: object) -> object:
    """Refuse text in an address that parses as an integer but is not plain digits, such as +1."""
    if isinstance(given, str) and not (given.isascii() and given.isdigit()):
        raise PydanticCustomError("epoch", "an epoch is written in digits")
    return given


Epoch = Annotated[int, Field(ge=0, le=MAX_EPOCH), BeforeValidator(_check_digits)]
Key = (
    Annotated[int, Field(ge=0, le=2**64 - 1)] | Annotated[str, Field(max_length=limits.KEY_LENGTH)]
)
Level = Annotated[
    float, Field(ge=0.01, le=1 - 1e-9, description="Confidence level of the intervals.")
]
Control = Literal["family", "fdr"]
Period = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Model = TypeVar("Model", bound=BaseModel)


class RequestModel(BaseModel):
    """What clients send: nothing beyond the fields below."""

    model_config = ConfigDict(extra="forbid")

    def to_json(self) -> bytes:
        """Return the body that stands for the same request in an address."""
        return self.model_dump_json(by_alias=True).encode()


class NewCollection(RequestModel):
    """A collection to create: its plan, and how its reports are kept."""

    plan: dict[str, Any] = Field(description="The plan as `faintly plan` writes it.")
    name: str = Field(
        "", max_length=limits.NAME_LENGTH, description="For people; addresses take it too."
    )
    retention: Retention = Field(
        "keep", description="drop: raw reports are deleted once they are counted."
    )
    tokens: bool = Field(False, description="Every report needs a single-use token.")
    epochs: list[Epoch] | None = Field(
        None,
        max_length=limits.EPOCHS,
        description="Open from the start; default [0], or with period_s only those of the clock.",
    )
    period_s: Period | None = Field(
        None, description="Epochs follow the clock, each this many seconds long."
    )
    grace_s: Period | None = Field(
        None,
        description="With period_s: how long an epoch takes reports after its end. At least one "
        "period, which is the default.",
    )

    @property
    def initial_epochs(self) -> list[int]:
        """Return the epochs that are open from the start, whatever the clock says."""
        if self.epochs is not None:
            return self.epochs
        # Senders default to epoch 0: if open beside the clock's, it would get all their reports.
        return [0] if self.period_s is None else []


class DeletionQuery(RequestModel):
    """A collection to delete."""

    confirm: str = Field("", description="The digest once more.")


class ReportsQuery(RequestModel):
    """The parameters of a batch of reports."""

    request: str = Field(
        pattern=f"^[0-9a-f]{{{2 * REQUEST_ID_BYTES}}}$",
        description="16 fresh random bytes; a retry repeats them and counts once.",
    )
    epoch: Epoch = Field(0, description="Default 0.")


class EpochState(RequestModel):
    """The state to set."""

    state: State


class TokensRequest(RequestModel):
    """Tokens to issue."""

    epoch: Epoch = 0
    count: int = Field(ge=1, le=TOKENS)


class EpochQuery(RequestModel):
    """An epoch to ask about."""

    epoch: Epoch | Literal["all"] | None = Field(
        None, description="An epoch, or all of them merged; default: the latest with answers."
    )


class EstimateQuery(EpochQuery):
    """What estimates and top lists have in common."""

    level: Level = LEVEL
    posterior: bool = Field(
        False, description="Also what all keys together say about each: sharper, and biased."
    )
    above: float | None = Field(
        None, ge=-1, le=1, description="With the posterior: the chance that a mean is larger."
    )

    @property
    def wants_posterior(self) -> bool:
        """Return whether a posterior is wanted, which a threshold implies."""
        return self.posterior or self.above is not None


class KeysBody(EstimateQuery):
    """Keys to estimate."""

    keys: list[Key] = Field(min_length=1, max_length=limits.KEYS)


class KeysQuery(EstimateQuery):
    """A few keys to estimate; as text, even if they are numbers."""

    keys: list[Annotated[str, Field(max_length=limits.URL_KEY_LENGTH)]] = Field(
        alias="key",
        min_length=1,
        max_length=limits.URL_KEYS,
        description="A key; repeat it for more.",
    )


class TopQuery(EstimateQuery):
    """A top list of all keys."""

    count: int = Field(20, ge=1, le=limits.KEYS)
    control: Control = "family"
    false_rate: float = Field(FALSE_RATE, ge=1e-9, le=0.5)


class TopBody(TopQuery):
    """Candidates to choose a top list from; an open universe cannot be listed."""

    candidates: list[Key] = Field(min_length=1, max_length=limits.KEYS)


class HistoryBody(RequestModel):
    """Keys to follow over the epochs."""

    keys: list[Key] = Field(min_length=1, max_length=limits.HISTORY_KEYS)
    level: Level = LEVEL


class NoiseQuery(EpochQuery):
    """Keys that nobody holds."""

    level: Level = LEVEL
    keys: int = Field(1, ge=1, le=2**31, description="Keys looked at together.")


def _model(name: str, text: str, **fields: Any) -> type[BaseModel]:
    """Return a model of an answer with these fields; only the documentation uses it."""
    given: dict[str, Any] = {field: (kind, ...) for field, kind in fields.items()}
    return create_model(name, __doc__=text, **given)


Refusal = _model(
    "Refusal",
    "Every error: a code for programs, words for people.",
    code=str,
    message=str,
    hint=str,
)
Alive = _model("Alive", "The process is alive.", status=Literal["alive"])
Warnings = Annotated[list[str], Field(description="What an operator should fix.")]
Ready = _model("Ready", "Reports can be stored.", status=Literal["ready"], warnings=Warnings)
Collections = _model(
    "Collections", "Every collection of the folder.", collections=list[CollectionStatus]
)
Sealed = _model("Sealed", "How many reports were sealed just now.", sealed=int)
Deleted = _model("Deleted", "What was deleted.", deleted=str)
Tokens = _model("Tokens", "Single-use tokens, shown this once.", epoch=int, tokens=list[str])
Stored = Literal["counted", "replayed"]
Counted = _model(
    "Counted", "A batch that is stored for good, or was already.", status=Stored, reports=int
)
Segments = _model("Segments", "The sealed files of a collection.", segments=list[SegmentRow])


class Row(BaseModel):
    """The estimated mean of a key over the reporting clients, with its error."""

    key: int | str
    mean: float
    stderr: float
    low: float = Field(description="Of the interval of this key alone.")
    high: float
    low_all: float = Field(description="Of the interval that holds for all keys together.")
    high_all: float
    posterior_mean: float | None = Field(
        None, description="If requested; null where the maps of the key disagree."
    )
    posterior_stddev: float | None = None
    posterior_low: float | None = None
    posterior_high: float | None = None
    posterior_above: float | None = Field(
        None, description="Chance that the mean is above the threshold."
    )


class TopRow(Row):
    """A row of a top list."""

    significant: bool
    verdict: str = Field(description="yes, or why not.")


class Population(BaseModel):
    """The keys that the posteriors of an answer were fitted to."""

    population: str = Field(description="The keys whose means the prior was fitted to.")
    keys: int = Field(description="How many.")
    threshold: float | None
    notes: list[str]


class AnswerBase(BaseModel):
    """What every answer carries."""

    collection: str
    epoch: int | Literal["all"]
    version: str = Field(description="Changes when the answer may.")
    reports: int = Field(description="Counted in this answer.")
    pending: int = Field(description="Stored since, and not in this answer.")
    level: float
    noise_floor: float = Field(
        description="What one key that nobody holds may show, either side of 0."
    )
    noise_floor_all: float = Field(
        description="What the largest of all keys asked may show if nobody holds any."
    )
    notes: list[str] = Field(description="What biases these answers, in sentences.")
    guarantee: str
    posterior: Population | None = Field(None, description="If requested.")


class NoiseFloor(AnswerBase):
    """What a key that nobody holds may show."""

    keys: int


class Estimates(AnswerBase):
    """Estimates in the order of the keys asked."""

    estimates: list[Row]


class Top(AnswerBase):
    """The largest means, and which of them stand out."""

    estimates: list[TopRow]
    threshold: float | None = Field(description="The mean from which rows are significant.")
    compared: int
    control: Control
    false_rate: float


class History(BaseModel):
    """Estimates of the same keys, epoch by epoch; epochs without reports are left out."""

    collection: str
    epochs: list[Estimates]


def parse(model: type[Model], body: bytes) -> Model:
    """Return a parsed JSON body; repeated fields are refused."""
    if not body:
        raise Problem(INVALID, "body: Field required", JSON_HINT)
    try:
        return model.model_validate(json.loads(body, object_pairs_hook=no_repeats), strict=True)
    except RepeatedField as error:
        raise Problem(BAD_REQUEST, f"the body is ambiguous: {error}") from None
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False)[0], "body") from None
    except (ValueError, RecursionError):
        raise Problem(BAD_REQUEST, "the body is not JSON") from None


def new_collection(body: bytes) -> tuple[NewCollection, Plan]:
    """Return the settings of a new collection and its plan, read as strictly as a file."""
    wanted = parse(NewCollection, body)
    try:
        plan = Plan.from_json(json.dumps(wanted.plan))
    except InvalidPlan as error:
        raise Problem(BAD_PLAN, str(error)[:MAX_SHOWN]) from None
    return wanted.model_copy(update={"plan": {}}), plan


def invalid(error: Mapping[str, Any], *where: str) -> Problem:
    """Return the problem for pydantic's first error, below a place, without quoting the value."""
    names, rule = [*where, *error["loc"]], error["msg"]
    if error["type"] == UNKNOWN_FIELD:
        names.pop()  # the name is part of the body, too
        rule = "it has a field that is not known here"
    elif len(names) > 2 and names[1] in RULES:
        rule = RULES[names[1]]
        names = [*names[:2], *(each for each in names[2:] if isinstance(each, int))]  # no types
    place = ".".join(map(str, names))
    wrong_body = place == "body" and error["type"] != UNKNOWN_FIELD
    return Problem(INVALID, f"{place}: {rule}", JSON_HINT if wrong_body else "")
