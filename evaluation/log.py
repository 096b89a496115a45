"""The log of finished tasks: one JSON object per line, each on disk before the next task counts.

A process that is killed leaves at most one broken line, at the end. It is cut off when the
log is opened again, and its task is run again. One process at a time may have a log open.
"""

import json
import math
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from faintly import __version__, durable
from faintly.client.disk import Disk
from faintly.errors import InvalidInput

Record = dict[str, Any]


class Log:
    """Appends records to a file, and reads those of an earlier run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Disk().lock(path.with_suffix(".lock"), 0)
        try:
            self._lock.__enter__()
        except TimeoutError:
            raise InvalidInput(
                f"another process is writing to {path.parent}; wait for it, or name another folder"
            ) from None
        whole = 0
        data = path.read_bytes() if path.exists() else b""
        for line in data.splitlines(keepends=True):
            record = _parsed(line)
            if record is None:
                break
            whole += len(line)
            self._keep(record)
        if data[whole:].count(b"\n"):
            raise InvalidInput(f"{path} is not a log of results after byte {whole}; move it away")
        self._file = path.open("ab")
        self._file.truncate(whole)

    def add(self, record: Record) -> None:
        """Write a record and wait until it is on disk."""
        safe = {name: _finite(value) for name, value in record.items()}
        text = json.dumps(safe, ensure_ascii=False, allow_nan=False)
        self._file.write(text.encode("utf-8") + b"\n")
        self._file.flush()
        durable.sync(self._file.fileno())
        self._keep(safe)

    def _keep(self, record: Record) -> None:
        # Another version may compute other results; failed tasks are tried again.
        if record.get("version") == __version__ and record.get("status") != "failed":
            self.records[record["task"]] = record

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._lock.__exit__(kind, error, trace)


def _parsed(line: bytes) -> Record | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "task" in record else None


def _finite(value: Any) -> Any:
    """Return the value, or None for a number that is not finite, which JSON lacks."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
