"""Whether errors are as large as methods predict, over many cells at once.

Some of many cells are more than three standard errors off by chance alone. How many depends on how
a cell's standard error is estimated. If keys err independently it is at least √(2/keys) for each
run. If they err together it comes from the runs alone, and the score follows Student's law. Both
chances come from one integral over the spread S of r runs, S² ~ χ²/(r-1):

    chance = E[2Φ(-limit·max(floor, S))], floor 1 or 0

A small error in a predicted variance shows in no single cell, but in all cells of a method
together: the sum of its scores over the root of their number.
"""

import math
from collections.abc import Iterable
from statistics import NormalDist

import numpy as np

from evaluation.results import Cell, Results

FAR = 3.0  # standard errors
FALSE_ALARM = 1e-3  # of each of the two checks, over all cells


def judged(results: Results) -> list[Cell]:
    """Return every cell whose errors can be compared with predictions, each once."""
    found = {
        (cell.point.name, cell.method.name): cell
        for experiment in results.experiments
        for cell in results.cells(experiment)
        if cell.surprise is not None
    }
    return list(found.values())


def scores(cells: Iterable[Cell]) -> list[float]:
    """Return by how many standard errors each cell is off."""
    return [cell.surprise for cell in cells if cell.surprise is not None]


def pooled(found: Iterable[float]) -> float:
    """Return the score of many cells together; it has unit variance if each score has.

    >>> pooled([1.0, 1.0, 1.0, 1.0])
    2.0
    """
    listed = list(found)
    return sum(listed) / math.sqrt(len(listed))


def by_method(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Return the cells of each method."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.method.name, []).append(cell)
    return groups


def chance(limit: float, runs: int, floor: float) -> float:
    """Return how likely a correct prediction is more than `limit` standard errors off.

    >>> round(chance(3.0, 10, 0.0), 4)  # Student's law with 9 degrees of freedom
    0.015
    """
    if runs < 2:
        return math.erfc(limit / math.sqrt(2))
    free = runs - 1
    spread = np.linspace(0, 8, 40_001)[1:]
    log = (free - 1) * np.log(spread) - free * spread**2 / 2
    weight = np.exp(log - log.max())
    tails = [math.erfc(limit * max(floor, one) / math.sqrt(2)) for one in spread]
    return float((weight * tails).sum() / weight.sum())


def allowed(cells: int, share: float) -> int:
    """Return the number of hits that is exceeded by chance once in a thousand times.

    >>> allowed(100, 0.0), allowed(100, 0.015)
    (0, 6)
    """
    term = total = (1 - share) ** cells
    hits = 0
    while total < 1 - FALSE_ALARM and hits < cells:
        term *= (cells - hits) / (hits + 1) * share / (1 - share)
        hits += 1
        total += term
    return hits


def pooled_limit(methods: int) -> float:
    """Return the limit that the largest of so many pooled scores exceeds once in 1,000 times."""
    return NormalDist().inv_cdf(1 - FALSE_ALARM / (2 * max(1, methods)))
