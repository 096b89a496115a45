"""What all routes share: access checks, documented errors, replies."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

from faintly.engine.documents import encode_json
from faintly.wire.http import DIGEST
from faintly.wire.problems import INVALID, TOO_LARGE, Problem
from faintly_collector.http import answers, limits
from faintly_collector.http.access import Sessions
from faintly_collector.http.metrics import Metrics
from faintly_collector.http.models import JSON_HINT, Epoch, Refusal
from faintly_collector.http.readers import Readers
from faintly_collector.storage.store import Store

Responses = dict[int | str, dict[str, Any]]  # by status, as FastAPI documents them
DESCRIPTIONS = {
    400: "The request cannot be read.",
    401: "A credential is missing or unknown.",
    403: "The credential's role, a token or the calling page does not allow this.",
    404: "There is no such collection or epoch.",
    406: "The answer is not available in the requested media type.",
    409: "The request conflicts with what is stored.",
    410: "The collection or epoch takes no more reports.",
    413: "The body is too large.",
    422: "A value breaks a rule that the message names.",
    429: "The inbox is full, or there are too many requests; try again after Retry-After.",
    500: "A fault of the collector.",
    503: "The disk failed, stored data is damaged, a reader died, or the collector is stopping.",
}
# FastAPI makes a field of each model, for each route: one adds the schema, the others refer to it.
_SCHEMA = {"schema": {"$ref": f"#/components/schemas/{Refusal.__name__}"}}
REFUSALS: Responses = {
    status: {"description": text, "content": {answers.JSON: _SCHEMA}}
    for status, text in DESCRIPTIONS.items()
}
REFUSALS[400] = {"description": DESCRIPTIONS[400], "model": Refusal}
OCTETS = "application/octet-stream"
FOREVER = "public, max-age=31536000, immutable"  # for what is named by a hash of its content
COLLECTIONS = "/v1/collections"
COLLECTION = COLLECTIONS + "/{digest}"
bearer = HTTPBearer(auto_error=False, description="A credential from `faintly credential add`.")


EpochPath = Annotated[Epoch, Path(alias="epoch")]
PlanDigest = Annotated[
    str, Path(alias="digest", pattern=f"^{DIGEST.pattern}$", description="The digest of the plan.")
]
NameOrDigest = Annotated[
    str,
    Path(
        alias="digest",
        max_length=limits.NAME_LENGTH,
        description="The collection: the digest of its plan, or its name if no other has it.",
    ),
]


async def _digest_of(request: Request, named: NameOrDigest) -> str:
    return str(request.app.state.registry.digest_of(named))


Digest = Annotated[str, Depends(_digest_of)]


@dataclass(frozen=True, slots=True)
class Service:
    """What routes share."""

    store: Store
    sessions: Sessions
    metrics: Metrics
    readers: Readers


def check_json(request: Request) -> None:
    """Refuse a body that is not declared as JSON."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != answers.JSON and not media.endswith("+json"):
        raise Problem(INVALID, "body: its content type is not JSON", JSON_HINT)


async def _short_body(request: Request) -> bytes:
    check_json(request)
    body = await request.body()
    if len(body) > limits.SHORT_BYTES:
        message = f"a body has at most {limits.SHORT_BYTES:,} bytes here"
        raise Problem(TOO_LARGE, message, "Send the few fields that /docs names.")
    return body


ShortBody = Annotated[bytes, Depends(_short_body)]  # of JSON, for `parse`


def _check_query(request: Request) -> None:
    """Refuse what a route would ignore: a misspelt `epoch` would select another epoch."""
    given = [name for name, _ in request.query_params.multi_items()]
    single = [name for name in given if name != "key"]  # of which there may be several
    if len(single) > len(set(single)):
        raise Problem(INVALID, "query: it has a parameter twice", "Give each of them once.")
    models = request.scope["route"].dependant.query_params  # one or none
    fields = [each.field_info.annotation.model_fields.items() for each in models]
    known = [each.alias or name for name, each in itertools.chain(*fields)]
    if not set(given) <= set(known):
        message = "query: it has a parameter that is not known here"
        hint = f"This address takes {', '.join(known) or 'no parameters'}."
        raise Problem(INVALID, message, hint)


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Adds routes under one heading of the documentation, for credentials of one role."""

    app: FastAPI
    service: Service
    tag: str
    role: str | None  # None: no credential is needed
    prefix: str = ""  # how addresses begin

    def __call__(
        self,
        address: str,
        summary: str,
        model: Any = None,
        *,
        body: type[BaseModel] | None = None,
        responses: Responses | None = None,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that adds a route: its method and path, and what it does.

        The models document a JSON answer and a JSON body. FastAPI must not parse the body: it would
        do so before checking the credential.
        """
        method, path = address.split()
        if self.role is not None:
            options["dependencies"] = [Depends(self._check_access)]
        if body is not None:
            content = {answers.JSON: {"schema": body.model_json_schema()}}
            options["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
        return self.app.api_route(
            self.prefix + path.removesuffix("/"),
            methods=[method],
            tags=[self.tag],
            summary=summary,
            response_model=model,
            responses=REFUSALS | (responses or {}),
            **options,
        )

    async def _check_access(
        self, request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
    ) -> None:
        self.service.sessions.check(request, str(self.role))
        if request.scope["route"].path.startswith("/v1"):  # probes may add anything
            _check_query(request)


def json_reply(document: dict[str, Any], status: int = 200) -> Response:
    """Return a reply with a JSON document."""
    return Response(encode_json(document), status, media_type=answers.JSON)
