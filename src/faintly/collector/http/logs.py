"""Structured logs: one JSON object per line, without any content of requests.

A line has method, route template, status, milliseconds and bytes; never a body, a query value,
an address, a credential or a token. For an unexpected error it has the type and the place, not
the message, which could quote the request.
"""

import logging
import traceback
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

FRAMES = 12  # innermost frames of an unexpected error that are logged


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs, uvicorn's included, to a stream (standard error) as JSON lines."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _without_message],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # At info they repeat what our own lines say about sockets and processes.
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def logger() -> Any:
    """Return the collector's logger."""
    return structlog.get_logger("faintly.collector")


def place_of(error: BaseException) -> dict[str, Any]:
    """Return type and place of an error, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "at": places}


def _short(path: str) -> str:
    return path.rpartition("site-packages/")[2].rpartition("/src/")[2]


def _without_message(_: Any, __: str, event: EventDict) -> EventDict:
    """Replace the exception of a library's log line by its type and place."""
    record = event.get("_record")
    if record is not None and record.exc_info and record.exc_info[1] is not None:
        event.update(place_of(record.exc_info[1]))
        record.exc_info = record.exc_text = None
    event.pop("exc_info", None)
    return event
