"""What a store counts about itself, for whoever measures it. No number tells of one sender."""

import logging
from dataclasses import dataclass

log = logging.getLogger("faintly.collector")


@dataclass(slots=True)
class Counters:
    """Totals since the store was opened."""

    commits: int = 0
    submissions: int = 0  # counted, each with one report or a batch
    reports: int = 0  # in them
    replays: int = 0
    refused: int = 0  # by look-up; what is refused before is not seen here
    failed_commits: int = 0
    seals: int = 0
    sealed: int = 0  # reports
    seal_s: float = 0.0
    failed_seals: int = 0
    last_failure: str = ""

    def failed(self, what: str, error: Exception) -> None:
        """Remember a failure; log it once, however often it is repeated."""
        text = f"{what}: {type(error).__name__}: {error}"
        if text != self.last_failure:
            log.error(text)
        self.last_failure = text
