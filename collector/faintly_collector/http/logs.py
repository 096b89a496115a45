"""Structured logs: one JSON object per line, without any request content.

A line has method, route template, status, milliseconds and bytes; never a body, a query value,
an address, a credential or a token. For an unexpected error it has the type and the place, not
the message, which could quote the request.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

FRAMES = 12  # innermost frames of an unexpected error that are logged
log = logging.getLogger("faintly.collector")


class JsonLines(logging.Formatter):
    """Formats a record as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:  # logged by a library
            line |= place_of(record.exc_info[1])
        return json.dumps(line)


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs, uvicorn's included, to a stream (standard error) as JSON lines."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # At info level they only repeat what our own lines say about sockets and processes.
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def info(event: str, **fields: Any) -> None:
    """Log what happened."""
    log.info(event, extra={"fields": fields})


def error(event: str, **fields: Any) -> None:
    """Log what went wrong."""
    log.error(event, extra={"fields": fields})


def place_of(error: BaseException) -> dict[str, Any]:
    """Return type and place of an error, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    short = [each.rpartition("site-packages/")[2].rpartition("/src/")[2] for each in places]
    return {"error": type(error).__name__, "at": short}
