"""Questions to a sketch: the mean of any key with its error, and the top of a list.

A transform is made once per reader, after which every key costs a look-up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from faintly import kernels
from faintly.core import (
    Estimates,
    FloatArray,
    IdArray,
    IntArray,
    Key,
    ReportBatch,
    Sketch,
    TableArray,
)
from faintly.core.estimate import normal_quantile
from faintly.errors import InvalidInput
from faintly.mechanisms import mechanism_of

DISAGREEMENT = 1e-4  # how often honest maps of one key are called contradictory
CONTROLS = ("family", "fdr")
NULL = np.zeros(1)  # the mean of a key that nobody holds


@dataclass(frozen=True, slots=True)
class TopList:
    """The largest means, and which of them stand out of the noise."""

    estimates: Estimates
    significant: np.ndarray
    threshold: float  # smallest mean that counts as significant
    compared: int  # keys the list was chosen from
    control: str  # family: 5 % chance of any false one; fdr: 5 % of the significant ones
    false_rate: float


class Reader:
    """Answers questions about one sketch."""

    def __init__(self, sketch: Sketch, level: float = 0.95) -> None:
        normal_quantile(level)
        self.sketch, self.level = sketch, level
        self.mechanism = mechanism_of(sketch.plan)

    @cached_property
    def _transformed(self) -> TableArray:
        assert self.sketch.tables is not None
        tables = self.sketch.tables.copy()
        kernels.walsh_hadamard(tables)
        return tables

    def totals(self, ids: IdArray) -> IntArray:
        """Return the integer behind each estimate: the same from tables and from reports."""
        if self.sketch.tables is not None:
            return self.mechanism.gather(self._transformed, ids).sum(axis=0)
        return self.mechanism.read(self._batch, ids)

    @property
    def _batch(self) -> ReportBatch:
        assert self.sketch.hash_seeds is not None and self.sketch.fields is not None
        return ReportBatch(self.sketch.plan.digest, self.sketch.hash_seeds, self.sketch.fields)

    def estimate(self, keys: Sequence[Key] | np.ndarray) -> Estimates:
        """Return the mean of each key over the reporting clients, with its error."""
        return self.estimate_ids(self.sketch.plan.ids(keys), keys)

    def estimate_all(self) -> Estimates:
        """Return the estimates of every key of an indexed or named universe."""
        universe = self.sketch.plan.universe
        if universe.size is None:
            raise InvalidInput("an open universe cannot be listed; give the keys to ask about")
        ids = np.arange(universe.size, dtype=np.uint64)
        return self.estimate_ids(ids, universe.names or range(universe.size))

    def estimate_ids(self, ids: IdArray, keys: Sequence[Key] | np.ndarray) -> Estimates:
        """Return the estimates of ids that `Plan.ids` made of the keys."""
        count = self.sketch.count
        if count == 0:
            raise InvalidInput("the sketch has no reports yet; aggregate some first")
        mean: FloatArray = self.totals(ids) * np.float64(self.mechanism.scale / count)
        return Estimates(
            keys=keys.tolist() if isinstance(keys, np.ndarray) else keys,
            mean=mean,
            stderr=np.sqrt(self.mechanism.variance(self.sketch, ids, mean) / count),
            reports=count,
            guarantee=self.mechanism.guarantee(),
            null_stderr=math.sqrt(self.mechanism.variance(self.sketch, None, NULL)[0] / count),
            agree=self._agreement(ids, mean),
            level=self.level,
        )

    def _agreement(self, ids: IdArray, mean: FloatArray) -> np.ndarray:
        """Return whether the maps of each key tell one story.

        In an open universe two keys may share a code in one map. The other maps then
        contradict it, which a chi-square over the maps' own estimates shows.
        """
        counted = self.sketch.reports > 0
        if self.sketch.plan.universe.size is not None or self.sketch.tables is None:
            return np.ones(len(ids), dtype=bool)
        counts = self.sketch.reports[counted][:, None]
        integers = self.mechanism.gather(self._transformed, ids)[counted]
        each = integers * (self.mechanism.scale / counts)
        spread = self.mechanism.variance(self.sketch, ids, mean) / counts
        return ((each - mean) ** 2 / spread).sum(axis=0) <= chi_square_quantile(
            len(counts) - 1, 1 - DISAGREEMENT
        )

    def top(
        self,
        count: int,
        candidates: Sequence[Key] | None = None,
        control: str = "family",
        false_rate: float = 0.05,
    ) -> TopList:
        """Return the `count` largest means among all keys, or among the candidates.

        Args:
            count: rows wanted.
            candidates: keys to choose from; needed for an open universe.
            control: family bounds the chance of any false row by `false_rate`, fdr the
                expected share of false rows (Benjamini and Hochberg).
            false_rate: the bound.
        """
        if control not in CONTROLS:
            raise InvalidInput(f"control must be family or fdr, got {control!r}")
        if not 0 < false_rate < 1:
            raise InvalidInput(f"the false rate must be above 0 and below 1, got {false_rate:g}")
        if count < 1:
            raise InvalidInput(f"a top list needs at least one row, got {count}")
        every = self.estimate_all() if candidates is None else self.estimate(candidates)
        order = np.argsort(-every.mean, kind="stable")
        threshold = self._threshold(every, control, false_rate)
        shown = order[:count]
        return TopList(
            estimates=every.take(shown),
            significant=(every.mean[shown] >= threshold) & every.agree[shown],
            threshold=threshold,
            compared=len(every),
            control=control,
            false_rate=false_rate,
        )

    @staticmethod
    def _threshold(every: Estimates, control: str, false_rate: float) -> float:
        compared = max(1, len(every))
        # One-sided Šidák: the largest of `compared` keys that nobody holds.
        tail = -math.expm1(math.log1p(-false_rate) / compared)
        if control == "family":
            return -NormalDist().inv_cdf(tail) * every.null_stderr
        means = np.sort(every.mean)[::-1]
        scores = means / (every.null_stderr * math.sqrt(2))
        tails = np.array([math.erfc(score) / 2 for score in scores])
        passing = np.nonzero(tails <= false_rate * np.arange(1, len(tails) + 1) / compared)[0]
        if not len(passing):
            return math.inf
        return float(means[passing[-1]])


def chi_square_quantile(freedom: int, level: float) -> float:
    """Return the chi-square quantile by Wilson and Hilferty's cube; infinite at 0 freedom."""
    if freedom < 1:
        return math.inf
    spread = 2 / (9 * freedom)
    cube: float = 1 - spread + NormalDist().inv_cdf(level) * math.sqrt(spread)
    return freedom * cube**3
