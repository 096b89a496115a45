"""Limits of a store; the settings of `faintly serve` take their defaults from here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a store accepts at a time, and when it seals."""

    body_bytes: int = 8 << 20  # largest request body
    inbox_bytes: int = 512 << 20  # pending bytes above which submissions are refused as busy
    waiting: int = 4096  # queued submissions above which more are refused as busy
    seal_reports: int = 1_000_000  # pending reports at which an epoch is sealed
    seal_bytes: int = 32 << 20  # or pending bytes
    seal_s: float = 30.0  # or the age of its oldest pending report
    sketches: int = 8  # kept in memory
