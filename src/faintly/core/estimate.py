"""Estimates with their error: intervals, scores and the noise floor.

The pointwise interval has the tails of z standard errors; the simultaneous one uses Šidák's
level 1-(1-a)^(1/m), so that all m keys compared are covered together with probability 1-a. Where
the exact law of a reading is known (`ReadingLaw`), the tails are those of that law, else of the
normal law: mean ± z·stderr. The noise floor is what a key that nobody holds would show.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from faintly.core.arguments import real
from faintly.core.arrays import FloatArray, IntArray
from faintly.core.privacy import Guarantee
from faintly.core.reading_law import ReadingLaw
from faintly.core.universe import Key
from faintly.errors import InvalidInput, MissingDependency

LEVEL = 0.95  # of intervals, unless another is asked for
FALSE_RATE = 0.05  # chance that any key that nobody holds stands out, likewise
COLUMNS = ("mean", "stderr", "low", "high", "low_all", "high_all")


def normal_quantile(level: float, comparisons: int = 1) -> float:
    """Return z such that |N(0,1)| stays below z in all `comparisons` with probability `level`."""
    level = real(level, "the confidence level", InvalidInput)
    if not 0 < level < 1:
        raise InvalidInput(f"the confidence level must be above 0 and below 1, got {level:g}")
    # Šidák: each of m independent intervals gets the level level^(1/m).
    tail = -math.expm1(math.log(level) / max(1, comparisons)) / 2
    return -NormalDist().inv_cdf(tail)


def largest_score(keys: int, false_rate: float = FALSE_RATE) -> float:
    """Return the score that none of these keys exceeds if nobody holds them, but for a chance.

    One-sided Šidák: the largest of them is above it with the chance `false_rate`.
    """
    return -NormalDist().inv_cdf(-math.expm1(math.log1p(-false_rate) / keys))


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated mean of one key over the reporting clients."""

    key: Key
    mean: float
    stderr: float
    low: float
    high: float
    low_all: float
    high_all: float
    reports: int
    guarantee: Guarantee


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """The integers behind estimates and the law of one report: mean = scale·total/reports."""

    law: ReadingLaw
    totals: IntArray
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Posterior means under a prior fitted to many keys: sharper than the estimates, and biased.

    NaN where the maps of a key disagree: then no law of noise describes its estimate.
    """

    mean: FloatArray
    stddev: FloatArray
    low: FloatArray
    high: FloatArray
    population: str  # describes the keys that the prior was fitted to
    keys: int  # how many there are
    notes: tuple[str, ...] = ()
    threshold: float | None = None
    above: FloatArray | None = None  # chance that the mean is larger than the threshold

    def take(self, chosen: np.ndarray) -> "Posterior":
        """Return the chosen rows."""
        return self._each(lambda column: column[chosen])

    def without(self, rows: np.ndarray) -> "Posterior":
        """Return the posterior with NaN in these rows."""
        return self._each(lambda column: np.where(rows, np.nan, column))

    def _each(self, change: Callable[[FloatArray], FloatArray]) -> "Posterior":
        changed: Any = {name: change(column) for name, column in self.columns().items()}
        return replace(self, **changed)

    def columns(self) -> dict[str, FloatArray]:
        """Return the numbers of each key by name."""
        names = ("mean", "stddev", "low", "high")
        found = {name: getattr(self, name) for name in names}
        return found if self.above is None else found | {"above": self.above}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimates:
    """Estimates of many keys as columns; iterate over it for one `Estimate` at a time."""

    keys: Sequence[Key]
    mean: FloatArray
    stderr: FloatArray
    reports: int
    guarantee: Guarantee
    null_stderr: float  # standard error at a key that nobody holds
    # Normal score of P(a key that nobody holds reads as much or more). Where a key has several
    # maps, the one that contributes most is left out.
    score: FloatArray
    readings: Readings | None = None  # None: the exact law is not known
    notes: tuple[str, ...] = ()  # what biases these answers, in sentences
    level: float = LEVEL
    compared: int | None = None  # keys these rows were chosen from; None: no choice was made
    posterior: Posterior | None = None  # None: not requested

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"Estimates({len(self):,} keys, {self.reports:,} reports, ±{self.noise_floor:.4g})"

    @property
    def comparisons(self) -> int:
        """Return how many keys the simultaneous intervals cover."""
        return len(self) if self.compared is None else self.compared

    def __iter__(self) -> Iterator[Estimate]:
        columns = [getattr(self, name).tolist() for name in COLUMNS]
        shared: Any = {"reports": self.reports, "guarantee": self.guarantee}
        for key, *row in zip(self.keys, *columns, strict=True):
            yield Estimate(key=key, **dict(zip(COLUMNS, row, strict=True)), **shared)

    def __getitem__(self, position: int) -> Estimate:
        return next(iter(self.take(np.array([range(len(self))[position]]))))

    @property
    def low(self) -> FloatArray:
        """Return the lower ends of the pointwise intervals."""
        return self._ends(1)[0]

    @property
    def high(self) -> FloatArray:
        """Return the upper ends of the pointwise intervals."""
        return self._ends(1)[1]

    @property
    def low_all(self) -> FloatArray:
        """Return the lower ends of the simultaneous intervals over all keys compared."""
        return self._ends(self.comparisons)[0]

    @property
    def high_all(self) -> FloatArray:
        """Return the upper ends of the simultaneous intervals over all keys compared."""
        return self._ends(self.comparisons)[1]

    def _ends(self, comparisons: int) -> tuple[FloatArray, FloatArray]:
        z, read = normal_quantile(self.level, comparisons), self.readings
        if read is None:
            return self.mean - z * self.stderr, self.mean + z * self.stderr
        unit = read.scale / self.reports
        low, high = read.law.ends(read.totals, self.reports, z)
        # Noise outside the law, such as ghosts, widens the interval as it does the error.
        own = read.law.deviations(read.totals, self.reports) * unit
        wider = np.maximum(1.0, self.stderr / own)
        return (
            self.mean - wider * (read.totals - low) * unit,
            self.mean + wider * (high - read.totals) * unit,
        )

    @property
    def noise_floor(self) -> float:
        """Return how large the mean of one key that nobody holds may look at this level."""
        return self.mean_at(normal_quantile(self.level))

    @property
    def noise_floor_all(self) -> float:
        """Return how large the largest of all keys compared may look if nobody holds any."""
        return self.mean_at(normal_quantile(self.level, self.comparisons))

    def mean_at(self, score: float) -> float:
        """Return the mean that a key nobody holds exceeds with the tail probability of a score."""
        read = self.readings
        if read is None or not math.isfinite(score):
            return score * self.null_stderr
        exact = read.law.total_at(score, self.reports) / math.sqrt(self.reports)
        return exact / read.law.deviation * self.null_stderr

    def take(self, chosen: np.ndarray) -> "Estimates":
        """Return the chosen rows; simultaneous intervals still cover all keys compared.

        Rows are chosen for what they show, so their intervals must cover the choice as well.
        """
        read = self.readings
        return replace(
            self,
            keys=[self.keys[int(position)] for position in chosen],
            mean=self.mean[chosen],
            stderr=self.stderr[chosen],
            score=self.score[chosen],
            readings=read and replace(read, totals=read.totals[chosen]),
            compared=self.comparisons,
            posterior=self.posterior and self.posterior.take(chosen),
        )

    def answers(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean, low and high of each posterior, or of the estimate where there is none."""
        own, made = (self.mean, self.low, self.high), self.posterior
        if made is None:
            return own
        missing = np.isnan(made.mean)
        mean, low, high = (
            np.where(missing, estimate, posterior)
            for estimate, posterior in zip(own, (made.mean, made.low, made.high), strict=True)
        )
        return mean, low, high

    def columns(self) -> dict[str, Any]:
        """Return the answers as a dictionary of numpy columns, `key` first, posterior last."""
        found = {"key": list(self.keys)} | {name: getattr(self, name) for name in COLUMNS}
        more = {} if self.posterior is None else self.posterior.columns()
        return found | {f"posterior_{name}": column for name, column in more.items()}

    def to_pandas(self) -> Any:
        """Return the answers as a pandas DataFrame; `attrs` names the posterior's population."""
        try:
            import pandas
        except ImportError:
            raise MissingDependency("to_pandas needs pandas: pip install pandas") from None
        made = pandas.DataFrame(self.columns())
        made.attrs.update(self._about())
        return made

    def to_arrow(self) -> Any:
        """Return the answers as a pyarrow Table; its metadata names the posterior's population."""
        try:
            import pyarrow
        except ImportError:
            raise MissingDependency.of("to_arrow needs pyarrow", "eval") from None
        return pyarrow.table(self.columns(), metadata=self._about())

    def _about(self) -> dict[str, str]:
        """Return the metadata of a table."""
        return {} if self.posterior is None else {"population": self.posterior.population}
