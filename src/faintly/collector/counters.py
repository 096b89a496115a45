"""What a store counts about itself, for whoever measures it. No number tells of one sender."""

from dataclasses import dataclass


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
