"""Answers from a sketch: the mean of any key with its error, and the largest means.

A transform is made once per reader, after which every key costs a look-up in each map.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np

from faintly.core import Estimates, Key, Plan, Sketch
from faintly.core.arguments import instance, real, text, whole
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, TableArray
from faintly.core.estimate import FALSE_RATE, LEVEL, Readings, normal_quantile
from faintly.engine.crowd import Crowd, Noisy
from faintly.engine.keys import ids_of, key_list
from faintly.engine.posterior import CHOSEN, FEWEST, Prior, fit
from faintly.engine.top_list import TopList, check_control, threshold_score
from faintly.errors import InvalidInput
from faintly.mechanisms import Mechanism, mechanism_of

ONE_MAP = 0.3  # standard errors that one map may add to a score: the plan's own bound on ghosts
NOTED = 0.5  # standard errors from which an error is noted: 95 % intervals then cover 92 %
NEGLIGIBLE = 0.01  # of the variance: this moves an interval by half a percent
CHANCE = 4.0  # standard deviations by which the energy of noise seldom exceeds its mean
ENTRIES = 2**20  # of tables, squared at a time
MOST_OWN = 2**20  # keys whose own energy is measured, and whose sums are kept: 16 MiB
AGREED = 6.0  # standard deviations by which one map of a key seldom exceeds the others
MOST_LISTED = 2**24  # keys that are read for a prior, with about half a gigabyte
NULL = np.zeros(1)  # the mean of a key that nobody holds
READ_ENTRIES = 2**23  # of maps and keys, read at a time in direct mode: 64 MiB
REPORTS = 2**20  # read at a time in direct mode
WATCHED = 2**14  # the same where a check may stop the reading
READINGS = 2**26  # reports times keys between two such checks: about a second


class Reader:
    """Answers questions about one sketch."""

    def __init__(
        self,
        sketch: Sketch,
        level: float = LEVEL,
        *,
        transformed: TableArray | None = None,
        mechanism: Mechanism | None = None,
    ) -> None:
        """Read a sketch.

        Args:
            sketch: counts, and tables or columns.
            level: of the intervals.
            transformed: the transform of the tables, if it is made already.
            mechanism: the plan's, if it is made already.
        """
        instance(sketch, Sketch, "sketch", "as aggregate returns it")
        normal_quantile(level)
        self.sketch, self.level = sketch, level
        self.mechanism = mechanism or mechanism_of(sketch.plan)
        self._given = transformed
        self._check: Callable[[], None] | None = None
        self._progress: Callable[[float], None] = _ignore
        self._priors: dict[str, Prior] = {}  # shared by all levels

    def __repr__(self) -> str:
        return f"Reader({self.sketch!r})"

    def at(self, level: float) -> "Reader":
        """Return a reader of the same sketch at another level, with the same transform."""
        if level == self.level:
            return self
        normal_quantile(level)
        if self.sketch.plan.decode == "table" and self.sketch.count:
            _ = self._ghosts  # and the transform with it: every level shares them
        made = copy(self)
        made.level = level
        return made

    def watched(
        self, check: Callable[[], None], progress: Callable[[float], None] | None = None
    ) -> "Reader":
        """Return a reader that calls `check` about once a second, which may raise to stop it.

        Only reading reports one by one can take long; look-ups in tables are not watched.

        Args:
            check: called without arguments.
            progress: called with the share of the reading that is done.
        """
        if self.sketch.plan.decode == "table":
            return self
        made = copy(self)
        made._check = check
        made._progress = progress or made._progress
        return made

    @cached_property
    def _transformed(self) -> TableArray:
        if self._given is not None:
            return self._given
        assert self.sketch.tables is not None
        return self.mechanism.tables.transform(self.sketch.tables)

    @property
    def _maps(self) -> int:
        """Return how many public maps a key has; in each another key may collide with it."""
        return max(1, self.sketch.plan.hashing.maps)

    def totals(self, ids: IdArray) -> IntArray:
        """Return the integer behind each estimate: the same from tables and from reports."""
        return self.sums(ids)[0]

    def sums(self, ids: IdArray) -> IntArray:
        """Return (2, ids): the integer behind each estimate, and the largest part of one map."""
        plan = self.sketch.plan
        if plan.decode == "table":
            size = plan.universe.size
            if size is None or size > MOST_OWN or not np.array_equal(ids, np.arange(size)):
                return self.mechanism.tables.gather(self._transformed, ids)
            return self._every_sum
        found = np.empty((2, len(ids)), dtype=np.int64)
        size = max(1, READ_ENTRIES // self._maps)
        for start in range(0, len(ids), size):
            part = slice(start, start + size)
            values = self._read(ids[part], start / len(ids), len(ids[part]) / len(ids))
            found[:, part] = values.sum(axis=0), values.max(axis=0)
        return found

    @cached_property
    def _every_sum(self) -> IntArray:
        """Return the sums of every key, which ghosts, lists and estimates share."""
        return self.mechanism.tables.gather(self._transformed, self._every_key()[0])

    def _read(self, ids: IdArray, before: float, share: float) -> IntArray:
        """Return the integers (maps, ids) of direct reading, and report progress from `before` on.

        Reports are read in batches, so that columns may be larger than memory.
        """
        values, read = np.zeros((self._maps, len(ids)), dtype=np.int64), 0
        for batch in self.sketch.batches(REPORTS if self._check is None else WATCHED):
            chosen = (
                self.mechanism.tables.map_of(batch)
                if self._maps > 1
                else np.zeros(1, dtype=np.int64)
            )
            for row in np.unique(chosen).tolist():
                mine = batch if self._maps == 1 else batch.take(chosen == row)
                for piece in self._pieces(len(ids), len(mine)):
                    values[row, piece] += self.mechanism.read(mine, ids[piece])
            read += len(batch)
            self._progress(before + share * read / self.sketch.count)
        return values

    def _pieces(self, keys: int, reports: int) -> Iterator[slice]:
        """Yield which keys to read at a time: all of them, unless a check may stop the reading."""
        if self._check is None:
            yield slice(0, keys)
            return
        size = max(1, READINGS // max(1, reports))
        for start in range(0, keys, size):
            self._check()
            yield slice(start, start + size)

    def estimate(self, keys: Sequence[Key] | np.ndarray) -> Estimates:
        """Return the mean of each key over the reporting clients, with its error."""
        keys = key_list(keys)
        return self.estimate_ids(ids_of(self.sketch.plan, keys), keys)

    def estimate_all(self) -> Estimates:
        """Return the estimates of every key of an indexed or named universe."""
        return self.estimate_ids(*self._every_key())

    def _every_key(self) -> tuple[IdArray, Sequence[Key]]:
        """Return ids and keys of an indexed or named universe."""
        universe = self.sketch.plan.universe
        if universe.size is None:
            raise InvalidInput("an open universe cannot be listed; give the keys to ask about")
        ids = np.arange(universe.size, dtype=np.uint64)
        return ids, universe.names or range(universe.size)

    def estimate_ids(self, ids: IdArray, keys: Sequence[Key] | np.ndarray) -> Estimates:
        """Return the estimates of ids that `Plan.ids` made of the keys."""
        return self._estimates(ids, keys)[0]

    def _estimates(
        self, ids: IdArray, keys: Sequence[Key] | np.ndarray
    ) -> tuple[Estimates, AnyArray]:
        """Return the estimates, and for which keys the maps agree."""
        count = self.sketch.count
        if count == 0:
            raise InvalidInput("the sketch has no reports yet; aggregate some first")
        null = self._null_variance + self._ghosts
        totals, largest = self.sums(ids)
        mean = totals * np.float64(self.mechanism.scale / count)
        law = self.mechanism.forecast.reading_law()
        stderr = np.sqrt((self.variances(ids, mean) + self._ghosts) / count)
        found = Estimates(
            keys=keys.tolist() if isinstance(keys, np.ndarray) else keys,
            mean=mean,
            stderr=stderr,
            reports=count,
            guarantee=self.mechanism.guarantee(),
            null_stderr=math.sqrt(null / count),
            score=self._scores(totals, largest, null),
            readings=Readings(law, totals, self.mechanism.scale) if law else None,
            notes=self._notes(math.sqrt(null / count)),
            level=self.level,
        )
        return found, self._agreed(totals, largest, found)

    def _agreed(self, totals: IntArray, largest: IntArray, found: Estimates) -> AnyArray:
        """Return for which keys no map differs much from the others.

        Each map has a sample of the clients, so its part also varies with how many of them hold the
        key: by the mean square of their values, for which |mean| stands in.
        """
        if self._maps == 1 or not self.mechanism.forecast.largest_ghost():
            return np.ones(len(totals), dtype=bool)
        others = (totals - largest) / (self._maps - 1)
        spread = np.sqrt(found.reports * (found.reports * found.stderr**2 + np.abs(found.mean)))
        limit = AGREED / self.mechanism.scale / math.sqrt(self._maps - 1)
        return np.asarray(largest - others <= limit * spread)

    def posterior(self, keys: Sequence[Key] | np.ndarray, above: float | None = None) -> Estimates:
        """Return the estimates of keys, each with its posterior under a prior fitted to many keys.

        Their `posterior` names the population that its prior was fitted to: all keys of the
        universe or, where that is open, the given keys, which must be many. It errs less over that
        population, and more at keys that are chosen for being truly large.

        `above` adds the chance that a mean is larger than this.
        """
        keys = key_list(keys)
        above = None if above is None else real(above, "above", InvalidInput)
        return self.posterior_ids(ids_of(self.sketch.plan, keys), keys, above)

    def populated(self, count: int) -> bool:
        """Return whether this many keys, asked together, form a population to fit a prior to."""
        return populated(self.sketch.plan, count)

    def posterior_ids(
        self, ids: IdArray, keys: Sequence[Key] | np.ndarray, above: float | None = None
    ) -> Estimates:
        """Return `posterior` for ids that `Plan.ids` made of the keys."""
        found, agreed = self._estimates(ids, keys)
        prior = self._prior(Noisy.of(found), agreed, ids)
        return self._with_posterior(found, agreed, prior, above)

    def _with_posterior(
        self, found: Estimates, agreed: AnyArray, prior: Prior, above: float | None
    ) -> Estimates:
        """Return the estimates with posteriors under a prior, except where maps disagree."""
        if above is not None and not -1 <= above <= 1:
            raise InvalidInput(f"means lie between -1 and 1; none is above {above:g}")
        made = prior.posterior(Noisy.of(found), self.level, above)
        return replace(found, posterior=made if agreed.all() else made.without(~agreed))

    def _prior(self, noisy: Noisy, agreed: AnyArray, ids: IdArray) -> Prior:
        """Return the prior of the population that keys belong to."""
        size = self.sketch.plan.universe.size
        if size is not None and size <= MOST_LISTED:
            if "keys" not in self._priors:
                every, keys = self._every_key()
                if not np.array_equal(ids, every):
                    found, agreed = self._estimates(every, keys)
                    noisy = Noisy.of(found)
                words = f"all {size:,} keys of the universe"
                self._priors["keys"] = self._fitted(Crowd.of(noisy.take(agreed)), words)
            return self._priors["keys"]
        first = np.unique(ids, return_index=True)[1]
        if len(first) < CHOSEN:
            raise InvalidInput(
                "a posterior needs a population, and a handful of chosen keys is not one; ask "
                f"about at least {CHOSEN} different keys of such a universe together"
            )
        sound = first[agreed[first]]
        return self._fitted(Crowd.of(noisy.take(sound)), f"the {len(first):,} keys asked")

    def _fitted(self, crowd: Crowd, population: str) -> Prior:
        one_sided = self.mechanism.domain != "signed"
        return fit(crowd, population, nonnegative=one_sided)

    def variances(self, ids: IdArray, means: FloatArray) -> FloatArray:
        """Return the variances of keys, for which some mechanisms read all reports again."""
        if self.sketch.plan.decode == "table":
            return self.mechanism.tables.variance(self._transformed, self.sketch, ids, means)
        pieces = self._pieces(len(ids), self.sketch.count)
        found = [self.mechanism.variance(self.sketch, ids[piece], means[piece]) for piece in pieces]
        # A query for the noise floor alone has no keys, and so no pieces.
        return found[0] if len(found) == 1 else np.concatenate([means[:0], *found])

    def _scores(self, totals: IntArray, largest: IntArray, null: float) -> FloatArray:
        """Return how unlikely a key that nobody holds is to read as much, as a normal score.

        Where a key has several maps, the largest part of one counts for `ONE_MAP` standard
        errors at most. In one map another key may collide with it: one that shares its code in an
        open universe, or several held ones whose codes add up to its own. However many clients
        hold these, that map then adds no more than the noise hides.
        """
        count, scale = self.sketch.count, self.mechanism.scale
        if self._maps > 1:
            most = math.floor(ONE_MAP * math.sqrt(null * count) / scale)
            totals = totals - np.maximum(0, largest - most)
        law = self.mechanism.forecast.reading_law()
        if law is None:
            return totals * np.float64(scale / math.sqrt(null * count))
        # Ghosts widen the law like the standard error.
        return law.scores(totals, count) * (law.deviation * scale / math.sqrt(null))

    def _notes(self, stderr: float) -> tuple[str, ...]:
        """Return notes about errors that may exceed `NOTED` standard errors."""
        plan, found = self.sketch.plan, []
        ghost = self.mechanism.forecast.largest_ghost() * math.sqrt(
            self.sketch.count / plan.clients
        )
        if ghost > NOTED:
            found.append(
                f"if everybody holds the same keys, one that nobody holds may be off by up to "
                f"{ghost:.1f} standard errors; the plan expected {plan.clients:,} reports"
            )
        bias = self.mechanism.forecast.relative_bias()
        if bias > NOTED * stderr:
            found.append(f"means may be too small by up to {bias:.2g} of their size")
        return tuple(found)

    def energy(self) -> tuple[float, int]:
        """Return the sum of squares of what the transform holds for keys, and its entries."""
        flat = self._transformed[: self.mechanism.tables.shape[0]].reshape(-1)
        squares = 0.0
        for start in range(0, len(flat), ENTRIES):
            part = flat[start : start + ENTRIES].astype(np.float64)
            squares += float(part @ part)
        return squares, len(flat)

    @cached_property
    def _null_variance(self) -> float:
        """Return n·Var at a key that nobody holds, by the mechanism's own formula."""
        return float(self.mechanism.variance(self.sketch, None, NULL)[0])

    @cached_property
    def _ghosts(self) -> float:
        """Return the n·Var that public maps add to every key, as the tables themselves show it.

        The mean of a squared reading over all codes holds the noise, all ghosts, and what people
        hold. The last is measured at the keys' own codes and subtracted, except in an open
        universe, where keys share codes. The rest counts only if it exceeds what noise may reach.
        """
        if self.sketch.plan.decode == "direct":
            return 0.0
        size, own = self.sketch.plan.universe.size, 0
        squares, entries = self.energy()
        squares *= self._maps / entries  # of a reading, which adds an entry of each map
        if size is not None and size <= MOST_OWN:
            own = size
            totals = self.totals(np.arange(size, dtype=np.uint64)).astype(np.float64)
            squares -= float(totals @ totals) / entries
        if own >= entries:  # one map that is full: ghosts and keys cannot be distinguished
            return 0.0
        free = 1 - own / entries
        shown = squares / free * self.mechanism.scale**2 / self.sketch.count - self._null_variance
        chance = CHANCE * math.sqrt(2 / (free * entries))
        return shown if shown > max(NEGLIGIBLE, chance) * self._null_variance else 0.0

    def top(
        self,
        count: int,
        candidates: Sequence[Key] | AnyArray | None = None,
        control: str = "family",
        false_rate: float = FALSE_RATE,
        *,
        posterior: bool = False,
        above: float | None = None,
    ) -> TopList:
        """Return the `count` largest means among all keys, or among the candidates.

        Args:
            count: number of rows.
            candidates: keys to choose from; needed for an open universe.
            control: family bounds the chance of any false row by `false_rate`, fdr the
                expected share of false rows (Benjamini and Hochberg).
            false_rate: the bound.
            posterior: also the posterior of each key; see `Reader.posterior`.
            above: with it, the chance that a mean is larger than this.
        """
        count = whole(count, "the number of rows", InvalidInput)
        false_rate = real(false_rate, "the false rate", InvalidInput)
        control = text(control, "control", InvalidInput)
        check_control(control, false_rate)
        if count < 1:
            raise InvalidInput(f"a top list needs at least one row, got {count}")
        if candidates is None:
            ids, candidates = self._every_key()
        else:
            candidates = key_list(candidates)
            ids = ids_of(self.sketch.plan, candidates)
        above = None if above is None else real(above, "above", InvalidInput)
        every, agreed = self._estimates(ids, candidates)
        least = threshold_score(every.score, control, false_rate)
        shown = np.argsort(-every.mean, kind="stable")[:count]
        rows = every.take(shown)
        if posterior:
            prior = self._prior(Noisy.of(every), agreed, ids)
            rows = self._with_posterior(rows, agreed[shown], prior, above)
        return TopList(
            estimates=rows,
            significant=every.score[shown] >= least,
            threshold=every.mean_at(least),
            every=every,
            control=control,
            false_rate=false_rate,
        )


def _ignore(share: float) -> None:
    """Take progress that nobody watches; a named function, so that readers can be pickled."""


def populated(plan: Plan, count: int) -> bool:
    """Return whether this many keys of a plan, asked together, form a population for a prior."""
    size = plan.universe.size
    if size is not None and size <= MOST_LISTED:
        return size >= FEWEST
    return count >= CHOSEN
