"""Answers that carry their doubt.

mean ± z·stderr is the pointwise interval; the simultaneous one uses Šidák's level
1-(1-a)^(1/m), so that all m asked keys are covered together with probability 1-a.
The noise floor is what a key that nobody holds would show.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from faintly.core.arrays import FloatArray
from faintly.core.privacy import Guarantee
from faintly.core.universe import Key
from faintly.errors import InvalidInput, MissingDependency

_COLUMNS = ("mean", "stderr", "low", "high", "low_all", "high_all")


def normal_quantile(level: float, comparisons: int = 1) -> float:
    """Return z such that |N(0,1)| stays below it in all `comparisons` with probability `level`."""
    if not 0 < level < 1:
        raise InvalidInput(f"the confidence level must be above 0 and below 1, got {level:g}")
    # Šidák: each of m independent intervals gets the level level^(1/m).
    tail = -math.expm1(math.log(level) / max(1, comparisons)) / 2
    return -NormalDist().inv_cdf(tail)


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
class Estimates:
    """Estimates of many keys as columns; iterate it for one `Estimate` at a time."""

    keys: Sequence[Key]
    mean: FloatArray
    stderr: FloatArray
    reports: int
    guarantee: Guarantee
    null_stderr: float  # standard error at a key that nobody holds
    # The mean in standard errors of a key that nobody holds. Where several maps tell of a key of
    # an open universe: the least of it that leaving one of them out gives.
    score: FloatArray
    agree: np.ndarray  # False where the maps of an open universe contradict each other
    level: float = 0.95
    compared: int | None = None  # keys these rows were chosen from; None: they are all there is

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def comparisons(self) -> int:
        """Return how many keys simultaneous statements are about."""
        return len(self) if self.compared is None else self.compared

    def __iter__(self) -> Iterator[Estimate]:
        columns = [getattr(self, name).tolist() for name in _COLUMNS]
        shared: Any = {"reports": self.reports, "guarantee": self.guarantee}
        for key, *row in zip(self.keys, *columns, strict=True):
            yield Estimate(key=key, **dict(zip(_COLUMNS, row, strict=True)), **shared)

    def __getitem__(self, position: int) -> Estimate:
        mean, stderr = float(self.mean[position]), float(self.stderr[position])
        alone = normal_quantile(self.level) * stderr
        among = normal_quantile(self.level, self.comparisons) * stderr
        return Estimate(
            key=self.keys[position],
            mean=mean,
            stderr=stderr,
            low=mean - alone,
            high=mean + alone,
            low_all=mean - among,
            high_all=mean + among,
            reports=self.reports,
            guarantee=self.guarantee,
        )

    @property
    def low(self) -> FloatArray:
        """Return the lower ends of the pointwise intervals."""
        return self.mean - normal_quantile(self.level) * self.stderr

    @property
    def high(self) -> FloatArray:
        """Return the upper ends of the pointwise intervals."""
        return self.mean + normal_quantile(self.level) * self.stderr

    @property
    def low_all(self) -> FloatArray:
        """Return the lower ends of the simultaneous intervals over all keys compared."""
        return self.mean - normal_quantile(self.level, self.comparisons) * self.stderr

    @property
    def high_all(self) -> FloatArray:
        """Return the upper ends of the simultaneous intervals over all keys compared."""
        return self.mean + normal_quantile(self.level, self.comparisons) * self.stderr

    @property
    def noise_floor(self) -> float:
        """Return how large the mean of one key that nobody holds may look at this level."""
        return normal_quantile(self.level) * self.null_stderr

    @property
    def noise_floor_all(self) -> float:
        """Return how large the largest of all keys compared may look if nobody holds any."""
        return normal_quantile(self.level, self.comparisons) * self.null_stderr

    def take(self, chosen: np.ndarray) -> "Estimates":
        """Return the chosen rows; simultaneous intervals still speak of all keys compared.

        Rows are chosen for what they show, so their intervals must cover the choice as well.
        """
        return Estimates(
            [self.keys[int(position)] for position in chosen],
            self.mean[chosen],
            self.stderr[chosen],
            self.reports,
            self.guarantee,
            self.null_stderr,
            self.score[chosen],
            self.agree[chosen],
            self.level,
            self.comparisons,
        )

    def columns(self) -> dict[str, Any]:
        """Return the answers as a dictionary of numpy columns, `key` first."""
        return {"key": list(self.keys)} | {name: getattr(self, name) for name in _COLUMNS}

    def to_pandas(self) -> Any:
        """Return the answers as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise MissingDependency("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """Return the answers as a pyarrow Table."""
        try:
            import pyarrow
        except ImportError:
            raise MissingDependency.of("to_arrow needs pyarrow", "eval") from None
        return pyarrow.table(self.columns())
