"""Limits of a store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a store takes at a time, and when it seals."""

    body_bytes: int = 8 << 20  # largest request body
    inbox_bytes: int = 512 << 20  # pending bytes above which submissions are put off
    waiting: int = 4096  # submissions waiting for a commit above which they are put off
    seal_reports: int = 1_000_000  # pending reports at which an epoch is sealed
    seal_bytes: int = 32 << 20  # pending bytes at which it is
    seal_s: float = 30.0  # or how long its oldest pending report may wait
    sketches: int = 8  # kept in memory
