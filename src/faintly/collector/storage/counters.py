"""Totals that a store keeps for its metrics. None is about a single sender."""

import logging
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("faintly.collector")


def _total(words: str) -> Any:
    return field(default=0, metadata={"description": words})


@dataclass(slots=True)
class Counters:
    """Totals since the store was opened, as metrics describe them."""

    commits: int = _total("Transactions that stored reports.")
    submissions: int = _total("Requests counted.")
    reports: int = _total("Reports counted.")
    replays: int = _total("Requests that had been counted before.")
    refused: int = _total("Requests refused at their commit.")
    failed_commits: int = _total("Transactions that failed.")
    seals: int = _total("Seals.")
    sealed_reports: int = _total("Reports sealed.")
    seal_seconds: float = _total("Seconds spent sealing.")
    failed_seals: int = _total("Seals that failed.")
    last_failure: str = ""

    def failed(self, what: str, error: Exception) -> None:
        """Record a failure, and log it unless it repeats the last one."""
        text = f"{what}: {type(error).__name__}: {error}"
        if text != self.last_failure:
            log.error(text)
        self.last_failure = text
