"""Posterior means: estimates shrunk by a prior that is fitted to all keys together.

A prior of the true means μ is fitted to the estimates x of many keys: weights w of cells between
edges, each flat, and of a point at 0, which maximise Σ_keys log Σ_cells w·L (the nonparametric
maximum likelihood of Kiefer and Wolfowitz 1956). L is the mean of e^(-r²/2) over a cell, where r
is (μ - x)/s for normal noise and the signed root of the deviance where the exact law of a reading
is known. EM finds it, on estimates that are binned at an eighth of their standard error:

    w ← w ⊙ Lᵀ(h/(Lw)) / Σh,   then S·w: each cell shares with its neighbours

which keeps few keys from making spikes (EMS, Silverman et al. 1990). With few keys S·w is instead
the normal law with the same moments. The point is left alone.

Keys that differ little from 0 could as well be 0. So there are two fits, with the point and
without: the mean is that of the sharper one, an interval holds those of both. And all keys could
be noise. Where the estimates are R times as likely under the fit as under μ = 0 everywhere, it is
believed to R/(R + e^DOUBT), and means shrink by that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from faintly.core import FloatArray, IntArray, Posterior
from faintly.engine.crowd import Crowd, Lattice, Noisy
from faintly.errors import InvalidInput

FEWEST = 50  # keys of a population; with fewer, intervals of 95 % would cover less than 92 %
FEW = 150  # keys below which the prior is one normal law and a point: cells then cover too little
CHOSEN = 500  # fewest keys of an open universe that are a population of their own
STEP = 0.2  # standard errors: width of cells near 0, which no data could distinguish
GROWTH = 0.1  # of a mean: width of the cells further out
NARROW = 0.05  # share of the standard errors that may be smaller than the one cells are made for
SHARED = 0.25  # of a cell's weight, with each of its neighbours at every step
DOUBT = 5.0  # chance alone makes a fit e^5 times as likely in less than one of a hundred crowds
MOST_STEPS = 1500  # of EM
CHECKED = 50  # steps between checks of the likelihood
SETTLED = 0.002  # largest change of its logarithm in that time at which EM stops
OUTSIDE = 8.0  # standard errors beyond the last edge; further out is the same
TINY = 1e-200  # instead of 0 in denominators and logarithms
SLIGHT = 1e-12

_erfc = np.frompyfunc(math.erfc, 1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """The law of a population's true means: two fits that its estimates cannot distinguish."""

    edges: FloatArray  # of the cells
    pointed: FloatArray  # weights: of the point at 0, then of the cells
    flat: FloatArray  # the same, without the point
    believed: float  # the chance that there is anything but noise
    population: str  # a description of the keys
    keys: int
    notes: tuple[str, ...] = ()

    def posterior(self, noisy: Noisy, level: float, above: float | None = None) -> Posterior:
        """Return the posteriors of estimates; each depends on its own estimate alone."""
        lattice = Lattice(noisy)
        at_nodes = _AtNodes(self, lattice.nodes)
        tail = (1 - level) / 2
        columns = [at_nodes.mean, at_nodes.stddev, *at_nodes.ends(tail)]
        columns += [] if above is None else [at_nodes.above(above)]
        mean, stddev, low, high, *more = map(lattice.read, columns)
        return Posterior(
            mean=mean,
            stddev=stddev,
            # The mean follows the sharper fit, and the doubt whether there is anything but noise.
            low=np.minimum(low, mean),
            high=np.maximum(high, mean),
            population=self.population,
            keys=self.keys,
            notes=self.notes,
            threshold=above,
            above=more[0].clip(0.0, 1.0) if more else None,  # rounding may lead outside
        )


def fit(crowd: Crowd, population: str, *, nonnegative: bool = False) -> Prior:
    """Return the prior of the true means of a population."""
    keys = round(crowd.count.sum())
    if keys < FEWEST:
        raise InvalidInput(
            f"a posterior needs a population of at least {FEWEST} keys, got {keys}; "
            f"use the unbiased estimates"
        )
    least = 0.0 if nonnegative else float(crowd.noisy.mean.min())
    spread = float(np.quantile(crowd.noisy.spread, NARROW))
    edges = _edges(least, float(crowd.noisy.mean.max()), spread)
    shape = _smooth if keys >= FEW else _normal_shape(edges)
    likely = _likelihoods(crowd.noisy.roots(edges))
    at_zero = crowd.noisy.roots(np.zeros(1))
    whole = np.concatenate([np.exp(-(at_zero**2) / 2), likely], axis=1)
    pointed = _maximise(whole, crowd.count, np.array([0.5]), shape)
    flat = _maximise(likely, crowd.count, np.zeros(0), shape)
    gained = np.log(np.maximum(whole @ pointed, TINY)) + at_zero[:, 0] ** 2 / 2
    better = float(crowd.count @ gained)
    believed = 1 / (1 + math.exp(min(DOUBT - better, 700.0)))
    flat = np.concatenate([[0.0], flat])
    return Prior(edges, pointed, flat, believed, population, keys, _notes(keys, believed))


def _notes(keys: int, believed: float) -> tuple[str, ...]:
    """Return notes about a prior, for people."""
    found = []
    if keys < FEW:
        found.append(f"{keys} keys are few: their prior is one normal law, and a point at 0")
    if believed < 0.5:
        found.append("all estimates of this population could be noise, so its means are near 0")
    return tuple(found)


class _AtNodes:
    """The posterior at each node."""

    def __init__(self, prior: Prior, nodes: Noisy) -> None:
        far = OUTSIDE * nodes.spread
        inside = nodes.mean.clip(prior.edges[0] - far, prior.edges[-1] + far)
        self._prior = prior
        self._nodes = replace(nodes, mean=inside)
        self._roots = self._nodes.roots(prior.edges)
        likely = _likelihoods(self._roots)
        at_zero = np.exp(-(self._nodes.roots(np.zeros(1)) ** 2) / 2)
        whole = np.concatenate([at_zero, likely], axis=1)
        self._pointed, self._flat = (_rows(whole * w) for w in (prior.pointed, prior.flat))
        centre, square = self._moments()
        point, cells = self._pointed[:, 0], self._pointed[:, 1:]
        self.mean = prior.believed * (cells * centre).sum(axis=1)
        away = (centre - self.mean[:, None]) ** 2
        self.stddev = np.sqrt((cells * (square + away)).sum(axis=1) + point * self.mean**2)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of μ within each cell, where r has a truncated normal law."""
        edges, roots = self._prior.edges, self._roots
        density = np.exp(-(roots**2) / 2) / math.sqrt(2 * math.pi)
        mass = np.maximum(_masses(roots), TINY)
        # Where a cell lies far in a tail, differences of tiny numbers are mere rounding.
        first = (-np.diff(density, axis=1) / mass).clip(roots[:, :-1], roots[:, 1:])
        second = 1 - np.diff(roots * density, axis=1) / mass
        width, slope = np.diff(edges), np.diff(edges) / _widths(roots)
        centre = edges[:-1] + (first - roots[:, :-1]) * slope
        square = ((second - first**2) * slope**2).clip(0.0, width**2 / 12)
        return centre, square

    def ends(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the intervals that contain those of both fits."""
        low = [self._quantile(weights, tail) for weights in (self._pointed, self._flat)]
        high = [self._quantile(weights, 1 - tail) for weights in (self._pointed, self._flat)]
        return np.minimum(*low), np.maximum(*high)

    def _quantile(self, weights: FloatArray, share: float) -> FloatArray:
        """Return the mean below which this share of each row lies."""
        edges, zero = self._prior.edges, int(np.searchsorted(self._prior.edges, 0.0))
        # The point is a cell of no width, between those beside it.
        bounds = np.insert(edges, zero, 0.0)
        roots = np.insert(self._roots, zero, self._roots[:, zero], axis=1)
        parts = np.insert(weights[:, 1:], zero, weights[:, 0], axis=1)
        reached = np.cumsum(parts, axis=1)
        cell = np.minimum((reached < share).sum(axis=1), parts.shape[1] - 1)
        rows = np.arange(len(parts))
        inside = 1 - (reached[rows, cell] - share) / np.maximum(parts[rows, cell], TINY)
        return _within(bounds, roots, cell, inside.clip(0.0, 1.0))

    def above(self, threshold: float) -> FloatArray:
        """Return the chance that the mean is larger than a threshold."""
        edges, weights = self._prior.edges, self._pointed
        share = np.zeros((len(weights), len(edges) - 1))
        share[:, edges[:-1] >= threshold] = 1.0
        cut = np.flatnonzero((edges[:-1] < threshold) & (threshold < edges[1:]))
        for cell in cut.tolist():  # one, or none
            at = self._nodes.roots(np.array([threshold]))
            part = np.concatenate([at, self._roots[:, cell + 1 : cell + 2]], axis=1)
            whole = np.maximum(_masses(self._roots[:, cell : cell + 2]), TINY)
            share[:, cell] = (_masses(part) / whole)[:, 0].clip(0.0, 1.0)
        found = (weights[:, 1:] * share).sum(axis=1) + weights[:, 0] * (threshold < 0)
        believed = self._prior.believed
        return np.asarray(believed * found + (1 - believed) * (threshold < 0))


def _within(
    bounds: FloatArray, roots: FloatArray, cell: IntArray, inside: FloatArray
) -> FloatArray:
    """Return where in its cell each share of a truncated normal law is reached."""
    rows, normal = np.arange(len(cell)), NormalDist()
    ends = roots[rows, cell], roots[rows, cell + 1]
    low, high = (1 - _tails(end) for end in ends)
    wanted = (low + inside * (high - low)).clip(1e-15, 1 - 1e-15)
    at = np.array([normal.inv_cdf(one) for one in wanted.tolist()]).clip(*ends)
    width = np.maximum(ends[1] - ends[0], TINY)
    across = bounds[cell + 1] - bounds[cell]
    return np.asarray(bounds[cell] + (at - ends[0]) / width * across)


def _edges(least: float, most: float, spread: float) -> FloatArray:
    """Return the edges of cells from the least estimate to the largest, within [-1, 1]."""

    def side(far: float) -> list[float]:
        found = [0.0]
        while found[-1] < far and found[-1] < 1:
            found.append(min(1.0, found[-1] + max(STEP * spread, GROWTH * found[-1])))
        return found

    left = side(-least)
    return np.array([-edge for edge in left[:0:-1]] + side(max(most, spread)))


def _tails(scores: FloatArray) -> FloatArray:
    """Return the mass of the normal law above each score."""
    return np.asarray(_erfc(scores / math.sqrt(2)), dtype=np.float64) / 2


def _masses(roots: FloatArray) -> FloatArray:
    """Return the mass of the normal law between neighbouring roots, precise in both tails."""
    tails = _tails(np.abs(roots))
    low, high = roots[:, :-1], roots[:, 1:]
    one, two = tails[:, :-1], tails[:, 1:]
    return np.where(low >= 0, one - two, np.where(high <= 0, two - one, 1 - one - two)).clip(0.0)


def _likelihoods(roots: FloatArray) -> FloatArray:
    """Return L: the mean of e^(-r²/2) over each cell."""
    return np.asarray(math.sqrt(2 * math.pi) * _masses(roots) / _widths(roots))


def _widths(roots: FloatArray) -> FloatArray:
    """Return the distances between roots; never 0, even where an exact law has no such mean."""
    return np.maximum(np.diff(roots, axis=1), SLIGHT)


def _rows(weights: FloatArray) -> FloatArray:
    """Return rows that sum to 1."""
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY))


def _maximise(
    likely: FloatArray,
    count: FloatArray,
    points: FloatArray,
    shape: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Return the weights that EM finds; the shape does not apply to the weights of points."""
    some, cells = len(points), likely.shape[1] - len(points)
    weights = np.concatenate([points, np.full(cells, (1 - points.sum()) / cells)])
    across, total, before = likely.T.copy(), count.sum(), -math.inf
    for step in range(1, MOST_STEPS + 1):
        seen = np.maximum(likely @ weights, TINY)
        weights = weights * (across @ (count / seen)) / total
        weights[some:] = shape(weights[some:])
        if step % CHECKED == 0:
            now = float(count @ np.log(seen))
            if abs(now - before) < SETTLED:
                break
            before = now
    return weights / weights.sum()


def _smooth(cells: FloatArray) -> FloatArray:
    """Return the weights after each cell has shared with its neighbours."""
    shared = SHARED * cells
    below, above = (shared[:1], shared[:-1]), (shared[1:], shared[-1:])
    kept = (1 - 2 * SHARED) * cells
    return np.asarray(kept + np.concatenate(below) + np.concatenate(above))


def _normal_shape(edges: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a function that gives cells the normal law with their own moments."""
    middle, width = (edges[:-1] + edges[1:]) / 2, np.diff(edges)

    def shape(cells: FloatArray) -> FloatArray:
        mass = max(float(cells.sum()), TINY)
        mean = float(cells @ middle) / mass
        square = float(cells @ ((middle - mean) ** 2 + width**2 / 12)) / mass
        law = width * np.exp(-((middle - mean) ** 2) / (2 * square)) + TINY
        return np.asarray(law * (mass / law.sum()))

    return shape
