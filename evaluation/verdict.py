"""Claims, and how results judge them.

A ratio claim says that at each of its points the best of some methods errs at least `least` times
as much as another. A growth claim says that a method's error hardly changes along an axis. An
agreement claim says that errors are as large as predicted. A verdict follows from the records
alone; `why` is shown only where they contradict the claim. Without runs there is no verdict.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol, TypeGuard

from evaluation import agreement
from evaluation.experiments import Point
from evaluation.formatting import plus_minus
from evaluation.results import UNBIASED, Cell, Results

ODDS = 1e-4  # smaller chances are shown as "p < ODDS": few runs estimate their spread poorly


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim with what was measured."""

    kind: str
    text: str
    wanted: str
    value: float | None
    holds: bool | None  # None: nothing was run for it
    remark: str = ""
    why: str = ""  # reason that the claim does not hold; empty where it does
    where: str = ""  # point at which the value was measured
    error: float = math.nan  # standard error of the value
    unit: str = "×"

    @property
    def measured(self) -> str:
        """Return the value with its unit and standard error; nothing where nothing was run."""
        if self.value is None:
            return ""
        return plus_minus(self.value, self.error) + self.unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The best of `others` errs at least `least` times as much as `better`, at every point."""

    kind: str
    text: str
    experiments: tuple[str, ...]
    better: str
    others: tuple[str, ...]
    least: float
    measure: str = "mse"
    reported: float | None = None  # a number of the paper's to compare with, instead of others
    unbiased: bool = False  # compare with unbiased rivals only
    where: Callable[[Point], bool] = lambda _: True
    remark: str = ""
    why: str = ""  # reason for a failure

    def verdict(self, results: Results) -> Verdict:
        """Return the smallest ratio over the points, and whether it is large enough."""
        found = list(self._ratios(results))
        value, error, where = min(found, default=(None, math.nan, ""))
        holds = None if value is None else value >= self.least
        kept = sum(ratio >= self.least for ratio, _, _ in found)
        if len(found) > 1:
            where = f"holds at {kept} of {len(found)} points; smallest at {where}"
        why = self.why if holds is False else ""
        if value is not None and holds is False:
            where += self._missed(value, error)
        wanted = f"≥ {self.least:.3g}×"
        return Verdict(self.kind, self.text, wanted, value, holds, self.remark, why, where, error)

    def _missed(self, value: float, error: float) -> str:
        """Return by how much the value misses its target, and how likely that is by chance."""
        if math.isnan(error) or error == 0:
            return ""
        score = (self.least - value) / error
        odds = NormalDist().cdf(-score)
        chance = f"p = {odds:.2g}" if odds >= ODDS else f"p < {ODDS:g}"
        return f"; {score:.1f} standard errors below what is wanted, {chance}"

    def _ratios(self, results: Results) -> Iterator[tuple[float, float, str]]:
        """Yield the ratio at each point, its standard error, and a description of the point."""
        for experiment in results.experiments:
            if experiment.name not in self.experiments:
                continue
            for point in filter(self.where, experiment.points):
                one = results.cell(point, self.better)
                rivals = [results.cell(point, name) for name in self.others]
                errors = [
                    (rival.mean(self.measure), _relative(rival, self.measure), rival.method.label)
                    for rival in rivals
                    if self._counts(rival)
                ]
                if self.reported is not None:
                    errors.append((self.reported, 0.0, "the paper's number"))
                if one is not None and errors:
                    error, spread, label = min(errors)
                    ratio = error / one.mean(self.measure)
                    share = math.hypot(spread, _relative(one, self.measure))
                    yield ratio, ratio * share, f"{_words(point)}, against {label}"

    def _counts(self, rival: Cell | None) -> TypeGuard[Cell]:
        if rival is None:
            return False
        return not self.unbiased or rival.mean("claimed_bias") <= UNBIASED


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A method's largest error along an axis is at most `most` times its smallest."""

    kind: str
    text: str
    experiment: str
    method: str
    most: float
    measure: str = "mse"
    where: Callable[[Point], bool] = lambda _: True
    remark: str = ""
    why: str = ""  # reason for a failure

    def verdict(self, results: Results) -> Verdict:
        """Return the largest error over the smallest, and whether that is little enough."""
        errors = []
        for experiment in results.experiments:
            if experiment.name == self.experiment:
                cells = [
                    results.cell(p, self.method) for p in filter(self.where, experiment.points)
                ]
                errors = [cell.mean(self.measure) for cell in cells if cell is not None]
        value = max(errors) / min(errors) if len(errors) > 1 else None
        holds = None if value is None else value <= self.most
        why = self.why if holds is False else ""
        wanted = f"≤ {self.most:.3g}×"
        return Verdict(self.kind, self.text, wanted, value, holds, self.remark, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """No more cells are far from their predicted variance than chance explains."""

    kind: str = "order"
    text: str = (
        "measured errors agree with predicted variances: cells of unbiased methods that are more "
        "than 3 standard errors off"
    )
    remark: str = "as many as chance exceeds once in 1,000 evaluations, if keys err independently"

    def verdict(self, results: Results) -> Verdict:
        """Return how many cells are off."""
        found = agreement.scores(agreement.judged(results))
        share = agreement.chance(agreement.FAR, results.runs, 1.0)
        most = agreement.allowed(len(found), share)
        off = sum(abs(score) > agreement.FAR for score in found)
        value, holds = (float(off), off <= most) if found else (None, None)
        wanted = f"≤ {most} of {len(found)}"
        return Verdict(self.kind, self.text, wanted, value, holds, self.remark, unit="")


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledAgreement:
    """No method's variance is wrong by a little at many points."""

    kind: str = "order"
    text: str = (
        "predicted variances are right on the whole: the largest score of a method over all of its "
        "cells, in standard errors"
    )
    remark: str = "which the largest of so many exceeds by chance once in 1,000 evaluations"

    def verdict(self, results: Results) -> Verdict:
        """Return the largest pooled score of any method."""
        groups = agreement.by_method(agreement.judged(results))
        found = [abs(agreement.pooled(agreement.scores(cells))) for cells in groups.values()]
        most, value = agreement.pooled_limit(len(found)), max(found, default=None)
        holds = None if value is None else value <= most
        return Verdict(self.kind, self.text, f"≤ {most:.3g}", value, holds, self.remark, unit="")


def _relative(cell: Cell, measure: str) -> float:
    """Return the standard error of a mean as a share of it."""
    return cell.stderr(measure) / cell.mean(measure)


def _words(point: Point) -> str:
    data = point.data
    return f"k = {data.sparsity}, d = {data.universe:,}, {point.unit}, ε = {point.epsilon:g}"


class Claim(Protocol):
    """Anything that results can contradict."""

    @property
    def kind(self) -> str:
        """Return whose claim it is."""

    def verdict(self, results: Results) -> Verdict:
        """Return what was measured, and whether the claim holds."""
