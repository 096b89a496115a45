"""Questions to a sketch: the mean of any key with its error, and the top of a list.

A transform is made once per reader, after which every key costs a look-up in each map.
"""

import math
from collections.abc import Callable, Iterator, Sequence
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
    Sketch,
    TableArray,
)
from faintly.core.estimate import normal_quantile
from faintly.engine.keys import ids_of
from faintly.errors import InvalidInput
from faintly.mechanisms import Mechanism, mechanism_of

DISAGREEMENT = 1e-4  # how often honest maps of one key are called contradictory
CONTROLS = ("family", "fdr")
NULL = np.zeros(1)  # the mean of a key that nobody holds
KEYS = 2**16  # asked at a time
REPORTS = 2**20  # read at a time in direct mode
WATCHED = 2**14  # and where somebody may stop it,
READINGS = 2**26  # with so many reports times keys, which take about a second


@dataclass(frozen=True, slots=True)
class TopList:
    """The largest means, and which of them stand out of the noise."""

    estimates: Estimates
    significant: np.ndarray
    threshold: float  # the mean below which nothing is significant
    compared: int  # keys the list was chosen from
    control: str  # family: 5 % chance of any false one; fdr: 5 % of the significant ones
    false_rate: float

    @property
    def verdicts(self) -> list[str]:
        """Return for each row yes, or why it is not significant.

        no: its mean is too small. maps disagree: they contradict each other, so one of them has
        a collision. one map: without one of its maps it would not stand out.
        """
        above = self.estimates.mean >= self.threshold
        marks = zip(self.significant, self.estimates.agree, above, strict=True)
        return [_verdict(*(bool(mark) for mark in row)) for row in marks]


def _verdict(significant: bool, agree: bool, above: bool) -> str:
    if significant:
        return "yes"
    if not agree:
        return "maps disagree"
    return "one map" if above else "no"


def transform(tables: TableArray) -> TableArray:
    """Return the Walsh-Hadamard transform of tables, which stay as they are."""
    copied = tables.copy()
    kernels.walsh_hadamard(copied)
    return copied


class Reader:
    """Answers questions about one sketch."""

    def __init__(
        self,
        sketch: Sketch,
        level: float = 0.95,
        *,
        transformed: TableArray | None = None,
        mechanism: Mechanism | None = None,
    ) -> None:
        """Read a sketch.

        Args:
            sketch: counts, and tables or columns.
            level: of the intervals.
            transformed: the transform of the tables, if somebody has made it already.
            mechanism: that of the plan, likewise.
        """
        normal_quantile(level)
        self.sketch, self.level = sketch, level
        self.mechanism = mechanism or mechanism_of(sketch.plan)
        self._given = transformed
        self._check: Callable[[], None] | None = None

    def at(self, level: float) -> "Reader":
        """Return a reader of the same sketch at another level, with the same transform."""
        if level == self.level:
            return self
        shared = self._transformed if self.sketch.plan.decode == "table" else None
        return Reader(self.sketch, level, transformed=shared, mechanism=self.mechanism)

    def watched(self, check: Callable[[], None]) -> "Reader":
        """Return a reader that calls `check` about once a second, which may raise to stop it.

        Only reading reports one by one can take long; look-ups in tables are not watched.
        """
        if self.sketch.plan.decode == "table":
            return self
        made = Reader(self.sketch, self.level, mechanism=self.mechanism)
        made._check = check
        return made

    @cached_property
    def _transformed(self) -> TableArray:
        if self._given is not None:
            return self._given
        assert self.sketch.tables is not None
        return transform(self.sketch.tables)

    @property
    def _told_apart(self) -> bool:
        """Return whether maps are asked one by one, since in each another key may be in the way."""
        plan = self.sketch.plan
        return plan.universe.size is None and plan.hashing.family == "linear"

    def totals(self, ids: IdArray) -> IntArray:
        """Return the integer behind each estimate: the same from tables and from reports."""
        if self.sketch.plan.decode == "direct":
            return self._read(ids).sum(axis=0)
        if self.mechanism.maps.maps == 1:
            return self.mechanism.gather(self._transformed, ids)[0]
        totals = np.empty(len(ids), dtype=np.int64)
        for start in range(0, len(ids), KEYS):
            piece = slice(start, start + KEYS)
            self.mechanism.gather(self._transformed, ids[piece]).sum(axis=0, out=totals[piece])
        return totals

    def _read(self, ids: IdArray) -> IntArray:
        """Return the integers of direct reading, for each map where maps are told apart.

        Reports are read some at a time, so that columns may be larger than memory.
        """
        rows = len(self.sketch.reports) if self._told_apart else 1
        values = np.zeros((rows, len(ids)), dtype=np.int64)
        for batch in self.sketch.batches(REPORTS if self._check is None else WATCHED):
            chosen = self.mechanism.map_of(batch) if rows > 1 else None
            for row in range(rows):
                mine = batch if chosen is None else batch.take(chosen == row)
                for piece in self._pieces(len(ids), len(mine)):
                    values[row, piece] += self.mechanism.read(mine, ids[piece])
        return values

    def _pieces(self, keys: int, reports: int) -> Iterator[slice]:
        """Yield which keys to ask at a time; all, unless it is to be asked whether to go on."""
        if self._check is None:
            yield slice(0, keys)
            return
        size = max(1, READINGS // max(1, reports))
        for start in range(0, keys, size):
            self._check()
            yield slice(start, start + size)

    def estimate(self, keys: Sequence[Key] | np.ndarray) -> Estimates:
        """Return the mean of each key over the reporting clients, with its error."""
        return self.estimate_ids(ids_of(self.sketch.plan, keys), keys)

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
        null = float(self.mechanism.variance(self.sketch, None, NULL)[0])
        mean, stderr, score = (np.empty(len(ids)) for _ in range(3))
        agree = np.ones(len(ids), dtype=bool)
        direct = self._read(ids) if self.sketch.plan.decode == "direct" else None
        for start in range(0, len(ids), KEYS):
            # What one piece needs stays in the cache, however many keys are asked.
            piece = slice(start, start + KEYS)
            asked = ids[piece]
            if direct is None:
                values = self.mechanism.gather(self._transformed, asked)
            else:
                values = direct[:, piece]
            mean[piece] = values.sum(axis=0) * np.float64(self.mechanism.scale / count)
            variance = self._variance(asked, mean[piece])
            stderr[piece] = np.sqrt(variance / count)
            score[piece] = mean[piece] / math.sqrt(null / count)
            if self._told_apart:
                score[piece] = self._least_score(values, null)
                agree[piece] = self._agreement(values, mean[piece], variance)
        return Estimates(
            keys=keys.tolist() if isinstance(keys, np.ndarray) else keys,
            mean=mean,
            stderr=stderr,
            reports=count,
            guarantee=self.mechanism.guarantee(),
            null_stderr=math.sqrt(null / count),
            score=score,
            agree=agree,
            level=self.level,
        )

    def _variance(self, ids: IdArray, means: FloatArray) -> FloatArray:
        """Return the variances of keys, for which some mechanisms read all reports again."""
        pieces = self._pieces(len(ids), self.sketch.count)
        found = [self.mechanism.variance(self.sketch, ids[piece], means[piece]) for piece in pieces]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _least_score(self, values: IntArray, null: float) -> FloatArray:
        """Return how far each key stands out without the map that speaks most for it.

        In an open universe two keys may share a code in one map. A key that nobody holds and
        that meets a heavy one there looks held by a share of its holders. Without that map it
        is a key that nobody holds like any other, whatever the heavy one is, so demanding that
        a key stands out without any one of its maps keeps the rate of false rows as long as
        no more than one of its maps collides. With J maps of 2^D codes and h heavy keys, two
        of them do with probability below J·(J-1)/2·(h/2^D)².
        """
        total = values.sum(axis=0)
        least = np.full(len(total), np.inf)
        for own, count in zip(values, self.sketch.reports.tolist(), strict=True):
            others = self.sketch.count - count
            # No other map has a report: nothing is known without this one.
            factor = self.mechanism.scale / math.sqrt(null * others) if others else -math.inf
            np.minimum(least, (total - own) * factor if others else factor, out=least)
        return least

    def _agreement(self, values: IntArray, mean: FloatArray, variance: FloatArray) -> np.ndarray:
        """Return whether the maps of each key tell one story, by a chi-square over them."""
        counted = np.nonzero(self.sketch.reports)[0]
        spread = np.zeros(len(mean))
        for j in counted:
            count = int(self.sketch.reports[j])
            spread += count * (values[j] * (self.mechanism.scale / count) - mean) ** 2
        return spread <= chi_square_quantile(len(counted) - 1, 1 - DISAGREEMENT) * variance

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
        score = np.where(every.agree, every.score, -np.inf)
        least = _least(score, control, false_rate)
        shown = np.argsort(-every.mean, kind="stable")[:count]
        return TopList(
            estimates=every.take(shown),
            significant=score[shown] >= least,
            threshold=least * every.null_stderr,
            compared=len(every),
            control=control,
            false_rate=false_rate,
        )


def _least(score: FloatArray, control: str, false_rate: float) -> float:
    """Return the score from which a key is significant among all of these."""
    compared = max(1, len(score))
    if control == "family":
        # One-sided Šidák: the largest of `compared` keys that nobody holds.
        return -NormalDist().inv_cdf(-math.expm1(math.log1p(-false_rate) / compared))
    # No score below this one can pass, wherever it stands.
    hopeful = score[score >= -NormalDist().inv_cdf(false_rate)]
    hopeful = np.sort(hopeful)[::-1]
    tails = np.array([math.erfc(one / math.sqrt(2)) / 2 for one in hopeful.tolist()])
    passing = np.nonzero(tails <= false_rate * np.arange(1, len(tails) + 1) / compared)[0]
    return float(hopeful[passing[-1]]) if len(passing) else math.inf


def chi_square_quantile(freedom: int, level: float) -> float:
    """Return the chi-square quantile by Wilson and Hilferty's cube; infinite at 0 freedom."""
    if freedom < 1:
        return math.inf
    spread = 2 / (9 * freedom)
    cube: float = 1 - spread + NormalDist().inv_cdf(level) * math.sqrt(spread)
    return freedom * cube**3
