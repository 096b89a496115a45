"""JSON bodies to checked models; what breaks a rule is named by its place, and never quoted."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from faintly.collector.http.models import NewCollection
from faintly.collector.problems import BAD_PLAN, BAD_REQUEST, INVALID, Problem
from faintly.collector.storage.registry import MOST_SHOWN
from faintly.core import Plan
from faintly.core.strict_json import RepeatedField, no_repeats
from faintly.errors import InvalidPlan

KEY_RULE = (
    "a key is an integer from 0 to 2^64 - 1, or text of at most 65,536 characters "
    "without half of a surrogate pair"
)
RULES = {"keys": KEY_RULE, "candidates": KEY_RULE}  # lists whose members have one of two types
UNKNOWN_FIELD = "extra_forbidden"  # as pydantic calls it
JSON_HINT = "Send a JSON object with the header Content-Type: application/json."
Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], body: bytes) -> Model:
    """Return what a JSON body says, each field of which is named once."""
    if not body:
        raise Problem(INVALID, "body: Field required", JSON_HINT)
    try:
        return model.model_validate(json.loads(body, object_pairs_hook=no_repeats))
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
        raise Problem(BAD_PLAN, str(error)[:MOST_SHOWN]) from None
    return wanted.model_copy(update={"plan": {}}), plan


def invalid(error: Mapping[str, Any], *where: str) -> Problem:
    """Return the problem for what pydantic found first, below a place."""
    place, rule = _place([*where, *error["loc"]], error)
    wrong_body = place == "body" and error["type"] != UNKNOWN_FIELD
    return Problem(INVALID, f"{place}: {rule}", JSON_HINT if wrong_body else None)


def _place(names: list[Any], error: Mapping[str, Any]) -> tuple[str, str]:
    """Return the place of an error and the rule it breaks, without quoting the request."""
    rule = error["msg"]
    if error["type"] == UNKNOWN_FIELD:
        names.pop()  # the name is part of the body as well
        rule = "it has a field that is not known here"
    elif len(names) > 3 and names[1] in RULES:
        names, rule = names[:3], RULES[names[1]]  # else it would name only the first of the types
    return ".".join(map(str, names)), rule
