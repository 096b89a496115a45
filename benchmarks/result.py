"""Rows: what was measured, against what, and whether the target is met."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measure import Timing

HEADINGS = ("work", "ours", "theirs", "ratio", "target", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured line."""

    name: str  # for programs; unique
    what: str  # for people
    ours: float
    theirs: float | None = None
    unit: str  # of ours and theirs
    ratio: float | None = None
    target: str = ""
    met: bool | None = None  # None where there is no target
    note: str = ""
    ours_median: float | None = None
    theirs_median: float | None = None

    @property
    def figure(self) -> float:
        """Return the number that the target limits: the ratio, or ours without a comparison."""
        return self.ours if self.ratio is None else self.ratio

    def document(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Row":
        """Return the row that `document` gave."""
        return cls(**document)

    def cells(self) -> tuple[str, str, str, str, str, str]:
        """Return the row as the tables show it, under `HEADINGS`."""
        theirs = "" if self.theirs is None else _with_unit(self.theirs, self.unit)
        ratio = "" if self.ratio is None else f"{shown(self.ratio)}x"
        met = "" if self.met is None else ("met" if self.met else "not met")
        return self.what, _with_unit(self.ours, self.unit), theirs, ratio, self.target, met


def cost(
    name: str,
    what: str,
    pair: tuple[Timing, Timing],
    *,
    at_most: float | None = None,
    per: float = 1.0,
    unit: str = "s",
    note: str = "",
) -> Row:
    """Return the row of a cost: ratio = ours / theirs, the smaller the better.

    Args:
        name: for programs.
        what: for people.
        pair: timings of ours and theirs.
        at_most: target of the ratio.
        per: things done in one call; times are shown for one of them.
        unit: s, or ns for times of one thing.
        note: what a reader must know.
    """
    ours, theirs = pair
    scale = (1e9 if unit.startswith("ns") else 1.0) / per
    ratio = ours.best / theirs.best
    return Row(
        name=name,
        what=what,
        ours=ours.best * scale,
        theirs=theirs.best * scale,
        unit=unit,
        ratio=ratio,
        target="" if at_most is None else f"≤ {shown(at_most)}x",
        met=None if at_most is None else ratio <= at_most,
        note=note,
        ours_median=ours.median * scale,
        theirs_median=theirs.median * scale,
    )


def gain(
    name: str,
    what: str,
    pair: tuple[Timing, Timing],
    *,
    at_least: float | None = None,
    note: str = "",
) -> Row:
    """Return the row of a gain: ratio = theirs / ours, the larger the better."""
    ours, theirs = pair
    ratio = theirs.best / ours.best
    return Row(
        name=name,
        what=what,
        ours=ours.best,
        theirs=theirs.best,
        unit="s",
        ratio=ratio,
        target="" if at_least is None else f"≥ {shown(at_least)}x",
        met=None if at_least is None else ratio >= at_least,
        note=note,
        ours_median=ours.median,
        theirs_median=theirs.median,
    )


def rate(
    name: str,
    what: str,
    timing: Timing,
    count: float,
    *,
    unit: str,
    at_least: float | None = None,
    note: str = "",
) -> Row:
    """Return the row of a rate: `count` things in one call, the more per second the better."""
    value = count / timing.best
    return Row(
        name=name,
        what=what,
        ours=value,
        unit=unit,
        target="" if at_least is None else f"≥ {shown(at_least)}",
        met=None if at_least is None else value >= at_least,
        note=note,
        ours_median=count / timing.median,
    )


def amount(
    name: str, what: str, value: float, *, unit: str, at_most: float | None = None, note: str = ""
) -> Row:
    """Return the row of an amount such as memory, the smaller the better."""
    return Row(
        name=name,
        what=what,
        ours=value,
        unit=unit,
        target="" if at_most is None else f"≤ {shown(at_most)} {unit}",
        met=None if at_most is None else value <= at_most,
        note=note,
    )


def shown(value: float) -> str:
    """Return a number to three digits, with commas instead of powers of ten where that is short.

    >>> shown(0.012345), shown(2.5), shown(123456.0), shown(5e9)
    ('0.0123', '2.5', '123,000', '5e+09')
    """
    if value == 0 or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _with_unit(value: float, unit: str) -> str:
    """Return a number and its unit; seconds in the size of their value."""
    if unit == "s":
        for size, small in ((1e-6, "µs"), (1e-3, "ms")):
            if 0 < value < 1000 * size:
                return f"{shown(value / size)} {small}"
    return f"{shown(value)} {unit}"
