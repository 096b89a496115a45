"""Totals that a store keeps for its metrics. None is about a single sender."""

import logging
from dataclasses import dataclass

log = logging.getLogger("faintly.collector")


@dataclass(slots=True)
class Counters:
    """Totals since the store was opened."""

    commits: int = 0
    submissions: int = 0  # counted; each has one report or more
    reports: int = 0  # in those submissions
    replays: int = 0
    refused: int = 0  # at the commit: reused ids, spent tokens, closed epochs
    failed_commits: int = 0
    seals: int = 0
    sealed: int = 0  # reports
    seal_s: float = 0.0
    failed_seals: int = 0
    last_failure: str = ""

    def failed(self, what: str, error: Exception) -> None:
        """Record a failure, and log it unless it repeats the last one."""
        text = f"{what}: {type(error).__name__}: {error}"
        if text != self.last_failure:
            log.error(text)
        self.last_failure = text
