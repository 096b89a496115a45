"""Where query and top get their answers: a sketch file, or a collection of a collector.

Both answer with the document that `--json` prints.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from faintly.cli.options import option
from faintly.cli.output import watched
from faintly.cli.remote import connect

if TYPE_CHECKING:
    from faintly.client.transport import Connection
    from faintly.core import Key, Plan

ServerOption = Annotated[
    str | None, option("Ask a collector, such as http://127.0.0.1:8790.", "--server")
]
Collection = Annotated[
    str | None,
    option("With --server: the collection's name, or its plan's digest.", "--collection"),
]
EpochOption = Annotated[
    str | None,
    option(
        "With --server: an epoch, or all [default: the latest with answers].",
        "--epoch",
        metavar="NUMBER|all",
    ),
]
Explain = Annotated[
    bool, option("Say in full what is promised, and what the words mean.", "--explain")
]


class AnswerSource(Protocol):
    """Answers questions about one collection."""

    plan: "Plan"

    def estimates(self, keys: "list[Key]", **how: Any) -> dict[str, Any]:
        """Return the document of estimates of keys."""

    def top(self, candidates: "list[Key] | None", **how: Any) -> dict[str, Any]:
        """Return the document of the largest means."""


class _File:
    """A sketch file."""

    def __init__(self, path: Path, level: float) -> None:
        from faintly.engine import Reader
        from faintly.engine.files import load_sketch

        self._reader: Reader = Reader(load_sketch(path), level)
        self.plan = self._reader.sketch.plan

    def estimates(self, keys: "list[Key]", **how: Any) -> dict[str, Any]:
        from faintly.engine.documents import estimate_document

        with watched(self._reader) as reader:
            if how["posterior"] or how["above"] is not None:
                return estimate_document(reader.posterior(keys, how["above"]))
            return estimate_document(reader.estimate(keys))

    def top(self, candidates: "list[Key] | None", **how: Any) -> dict[str, Any]:
        from faintly.engine.documents import top_document

        with watched(self._reader) as reader:
            return top_document(reader.top(how.pop("count"), candidates, **how))


class _Collector:
    """A collection of a collector."""

    def __init__(
        self, connection: "Connection", named: str, epoch: str | None, level: float
    ) -> None:
        from faintly.client.transport import named_path
        from faintly.core import Plan

        self._connection, self._path = connection, named_path(named)
        self._common = {"level": level, "epoch": _epoch(epoch)}
        self.plan = Plan.from_json(connection.call("GET", f"{self._path}/plan").body)

    def estimates(self, keys: "list[Key]", **how: Any) -> dict[str, Any]:
        how["posterior"] = how["posterior"] or how["above"] is not None
        return self._ask("estimates", {"keys": keys} | how)

    def top(self, candidates: "list[Key] | None", **how: Any) -> dict[str, Any]:
        from urllib.parse import urlencode

        if candidates is not None:
            return self._ask("top", {"candidates": candidates} | how)
        fields = self._common | how | {"posterior": str(how["posterior"]).lower()}
        query = urlencode({name: value for name, value in fields.items() if value is not None})
        return self._connection.ask("GET", f"{self._path}/top?{query}")

    def _ask(self, what: str, fields: dict[str, Any]) -> dict[str, Any]:
        return self._connection.ask("POST", f"{self._path}/{what}", self._common | fields)


def _epoch(text: str | None) -> int | str | None:
    from faintly.errors import InvalidInput

    if text is None or text == "all":
        return text
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput(f"an epoch is a number, or all; got {text!r}")
    return int(text)


@contextmanager
def answer_source(
    sketch: Path | None,
    server: str | None,
    collection: str | None,
    *,
    epoch: str | None,
    level: float,
    credential_file: Path | None,
    ca_file: Path | None,
) -> Iterator[AnswerSource]:
    """Yield the sketch file, or the collection where there is a server."""
    from faintly.errors import InvalidInput

    if server is None:
        if collection is not None or epoch is not None:
            raise InvalidInput("--collection and --epoch belong to a collector; add --server URL")
        if sketch is None:
            raise InvalidInput("name a sketch file, or a collector: --server URL --collection NAME")
        yield _File(sketch, level)
        return
    if collection is None:
        raise InvalidInput("say which collection of the collector: --collection NAME")
    with connect(server, credential_file, ca_file, 0) as connection:
        yield _Collector(connection, collection, epoch, level)
