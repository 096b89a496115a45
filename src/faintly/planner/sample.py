"""A sparsity from pilot data: for several k, what clients lose against the noise.

A small k leaves out part of what people hold, which is bias; a large one costs noise, bytes or
both. The squared error of a mean is the sum of both squares. The planner takes the smallest k whose
error is within one per cent of the lowest: the difference does not show, and reports are smaller.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core import VectorBatch
from faintly.core.plan import MAX_SPARSITY
from faintly.data import find_dataset, read_records, vectors_in
from faintly.data.inputs import records_of
from faintly.errors import FaintlyError
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.simulation import mean_square
from faintly.planner.excess import Excess, excess
from faintly.planner.plan_request import as_universe, request_for
from faintly.planner.search import Ranking, survey

TRIED = 12  # sparsities to compare, evenly spaced in their logarithm
LONGEST = 0.999  # of the clients: a few outliers beyond that bias no mean
TIE = 1.01  # one per cent of an error, which nobody would notice


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One sparsity: the ranking at it, what the pilot's clients lose, and the noise."""

    ranking: Ranking
    excess: Excess

    @property
    def sparsity(self) -> int:
        """Return k."""
        return self.ranking.request.sparsity

    @property
    def noise(self) -> float:
        """Return the standard error of one mean, for clients like the pilot's."""
        return self.ranking.pick.error.typical_stderr

    @property
    def error(self) -> float:
        """Return the root of bias² + noise², at the mean that loses most."""
        return math.hypot(self.excess.bias, self.noise)

    def document(self) -> dict[str, Any]:
        """Return the trial as JSON."""
        return {
            "sparsity": self.sparsity,
            "share_over": self.excess.over / self.excess.clients,
            "weight_lost": self.excess.lost,
            "bias": self.excess.bias,
            "noise": self.noise,
            "error": self.error,
            "mechanism": self.ranking.pick.mechanism,
            "bytes": self.ranking.pick.bytes,
        }


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Several sparsities beside each other, in ascending order."""

    tried: list[Trial]

    @property
    def pick(self) -> Trial:
        """Return the best trial, one without a drawback if there is any."""
        sound = [one for one in self.tried if not one.ranking.pick.drawbacks] or self.tried
        least = min(one.error for one in sound)
        return next(one for one in sound if one.error <= TIE * least)

    def at(self, sparsity: int) -> Trial:
        """Return the trial of the given sparsity."""
        return next(one for one in self.tried if one.sparsity == sparsity)


def try_sparsities(sample: Any, *, sparsity: int | None = None, **wanted: Any) -> Trials:
    """Return what several sparsities would do to clients like those of a pilot.

    Args:
        sample: a path, or data in any shape that `vectors_from` takes; every client of the
            pilot with all of its items, and clients without items too.
        sparsity: one more to try.
        **wanted: the other arguments of `request_for`.
    """
    universe = as_universe(wanted["universe"])
    if isinstance(sample, VectorBatch):
        universe.ids(sample.indices, b"", private=True)  # refuses indices outside
        vectors = sample
    else:
        named = isinstance(sample, str | Path)
        rows = read_records(find_dataset(sample)) if named else records_of(sample)
        vectors = vectors_in(rows, universe)
    given = wanted.pop("mean_square", None)
    square = mean_square(vectors) if given is None else given
    tried: list[Trial] = []
    refusal: FaintlyError | None = None
    for k in _sparsities(vectors, sparsity):
        try:
            ranking = survey(request_for(sparsity=k, mean_square=min(square, k), **wanted))
            found = excess(mechanism_of(ranking.pick.plan), vectors)
        except FaintlyError as error:
            if k == sparsity:
                raise
            refusal = error
            continue
        tried.append(Trial(ranking=ranking, excess=found))
    if refusal is not None and not tried:
        raise refusal
    return Trials(tried=tried)


def _sparsities(vectors: VectorBatch, extra: int | None) -> list[int]:
    """Return the k to try: from 1 to the most that nearly all hold, with two quantiles."""
    held = np.append(vectors.lengths[vectors.lengths > 0], 1)
    half, most, longest = np.quantile(held, (0.5, 0.9, LONGEST), method="higher").tolist()
    spaced = np.geomspace(1, longest, TRIED).round().astype(int).tolist()
    tried = {*spaced, half, most, *([] if extra is None else [extra])}
    return sorted(k for k in tried if k == extra or k <= MAX_SPARSITY)
