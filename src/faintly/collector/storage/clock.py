"""The clock that epochs follow, beside one that does not jump.

A collector cannot know which of the two is right after a jump. So the epochs of both times take
reports, and only what both have left behind is past. Restarting settles for the time of day.
"""

import time

from faintly.collector.storage.collection import TIMED, Collection, Epoch

TOLERATED_S = 10.0  # what corrections of the clock add up to without being called a jump
EARLY = 1  # epochs ahead of the current one that take reports: senders' clocks differ


class Clock:
    """The time of day, and the time that has passed since the start."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def times(self) -> tuple[float, float]:
        """Return the time of day, and what it would be without a jump."""
        return time.time(), self._offset + time.monotonic()

    @property
    def jump_s(self) -> float:
        """Return by how much the clock jumped since the start, or 0."""
        now, steady = self.times()
        return now - steady if abs(now - steady) > TOLERATED_S else 0.0

    def opens(self, collection: Collection, number: int) -> bool:
        """Return whether a report may open an epoch: it is current, next, or in its grace."""
        if collection.period_s is None or collection.grace_s is None or number < 0:
            return False
        period_s = collection.period_s
        earliest, latest = sorted(self.times())
        ends = (number + 1) * period_s
        return earliest < ends + collection.grace_s and number <= latest // period_s + EARLY

    def is_past(self, epoch: Epoch) -> bool:
        """Return whether the clock opened an epoch and has since ended it."""
        period_s = epoch.collection.period_s
        if epoch.state != TIMED or period_s is None:
            return False
        return (epoch.number + 1) * period_s <= min(self.times())
