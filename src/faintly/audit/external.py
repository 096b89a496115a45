"""Another client, in any language, as a process that makes reports on request.

Each request is a line of JSON on its standard input, each answer a line on its standard output:

request  {"plan": {…}, "items": [[id, value], …], "seed": id or null, "count": n}
answer   {"records": [hexadecimal, …]} or {"error": {"name": "…", "message": "…"}}

Ids and seeds are 16 hexadecimal digits. All reports have the given public seed; with null, each
draws its own. The noise is always the client's own.
"""

import json
import shlex
import subprocess
from typing import Any, Self

import numpy as np

from faintly.core import ReportBatch, SparseVector
from faintly.errors import ClientFailed, InvalidInput, ReportRejected, TooManyItems
from faintly.mechanisms import Mechanism
from faintly.wire.report_v1 import unpack


class ExternalClient:
    """A client that answers an auditor through pipes; ends with the `with` statement."""

    def __init__(self, command: str) -> None:
        """Start the client.

        Args:
            command: as a shell would split it, such as "node clients/js/bridge.mjs".
        """
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(  # noqa: S603  the caller names the command to run
                shlex.split(command), stdin=pipe, stdout=pipe, text=True, encoding="utf-8"
            )
        except (OSError, ValueError, IndexError) as error:
            raise InvalidInput(f"the client {command!r} does not start: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # closes its input, so that it ends

    def sample(
        self, mechanism: Mechanism, vector: SparseVector, seed: int | None, count: int
    ) -> ReportBatch:
        """Return `count` reports of one vector, with one public seed or a fresh one each."""
        layout = mechanism.layout
        raw = b"".join(self._records(mechanism, vector, seed, count))
        if len(raw) != count * layout.record_bytes:
            raise ClientFailed(f"the client's records do not have {layout.record_bytes} bytes")
        records = np.frombuffer(raw, dtype=np.uint8).reshape(count, layout.record_bytes)
        try:
            return unpack(records, mechanism.plan.digest, layout)
        except ReportRejected as error:
            raise ClientFailed(f"the client makes reports that are refused: {error}") from None

    def encode(self, mechanism: Mechanism, vector: SparseVector) -> bytes:
        """Return the bytes of one report."""
        return self._records(mechanism, vector, None, 1)[0]

    def _records(
        self, mechanism: Mechanism, vector: SparseVector, seed: int | None, count: int
    ) -> list[bytes]:
        items = zip(vector.indices.tolist(), vector.values.tolist(), strict=True)
        answer = self._ask(
            {
                "plan": mechanism.plan.document(),
                "items": [[f"{index:016x}", value] for index, value in items],
                "seed": None if seed is None else f"{seed:016x}",
                "count": count,
            }
        )
        try:
            found = [bytes.fromhex(record) for record in answer["records"]]
        except (KeyError, TypeError, ValueError):
            raise ClientFailed("the client's answer has no records in hexadecimal") from None
        if len(found) != count:
            raise ClientFailed(f"the client made {len(found)} reports instead of {count}")
        return found

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        pipes = self._process
        assert pipes.stdin is not None and pipes.stdout is not None
        try:
            pipes.stdin.write(json.dumps(question) + "\n")
            pipes.stdin.flush()
            answer = json.loads(pipes.stdout.readline())
        except (OSError, ValueError):
            raise ClientFailed("the client ended, or its answer is not a line of JSON") from None
        if not isinstance(answer, dict):
            raise ClientFailed("the client's answer is not a JSON object")
        if "error" in answer:
            error = answer["error"] if isinstance(answer["error"], dict) else {}
            if error.get("name") == "TooManyItems":
                raise TooManyItems("the client refuses this many items")
            raise ClientFailed(f"the client refuses: {error.get('message')}")
        return answer
