"""The exact law of a slot, for enumeration: small groups, bins and tokens only.

An item's pattern is its place (bin and sign) in every group, numbered with the first group
fastest. Dummies have uniform patterns; rounding, the cut to k and ties are averaged over.
"""

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from faintly.core.arrays import FloatArray, IdArray, IntArray, WordArray
from faintly.mechanisms.law import Law, SmallCase
from faintly.mechanisms.projection_choice.constants import Shape
from faintly.mechanisms.tokens import Tokens
from faintly.primitives.noise import FULL

if TYPE_CHECKING:
    from faintly.mechanisms.projection_choice import ProjectionChoice


Scores = tuple[int, ...]
Chosen = tuple[int, ...]  # positions of the items that became tokens


class ChoiceLaw(Law):
    """The law of a slot given the items' patterns, averaged over dummies and ties."""

    mechanism: "ProjectionChoice"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield two groups and few bins, with up to two items more than planned."""
        mechanism = self.mechanism
        grid = (-1.0, -0.5, 0.0, 1.0) if mechanism.shape.signed else (0.0, 0.25, 0.5, 1.0)
        options: dict[str, Any] = {"form": mechanism.form, "rounding": mechanism.rounding}
        sizes = {"groups": 2} if mechanism.form == "dense" else {"groups": 1, "bins": 2}
        # With rows of 16 bits a cell identifies its group, see report_number.
        bits = 16 if self.plan.hashing.linear else None
        yield SmallCase(self.small(sparsity=1, bits=bits, options=options | sizes), grid, 3)
        few = (-1.0, 0.0, 0.5) if mechanism.shape.signed else (0.0, 0.5, 1.0)
        sizes["groups"] = 1
        yield SmallCase(self.small(sparsity=2, bits=bits, options=options | sizes), few, 4)

    def outcomes(self, items: int) -> Iterator[tuple[int, ...]]:
        """Yield every pattern (places in all groups) of every item."""
        patterns = range(self.mechanism.shape.places**self.mechanism.groups)
        yield from itertools.product(patterns, repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[int, ...]:
        mechanism = self.mechanism
        seeds, ones = np.full(len(ids), seed, dtype=np.uint64), np.ones(len(ids), dtype=np.int64)
        alone = Tokens(np.arange(len(ids)), ids, ones == 0, ones)
        if mechanism.form == "dense":
            place = (1 - mechanism.projections(seeds, alone)) // 2
        else:
            place = mechanism.places(seeds, alone).astype(np.int64)
        weights = mechanism.shape.places ** np.arange(mechanism.groups)
        return tuple((place @ weights).tolist())

    def report_number(self, fields: WordArray, seed: int) -> IntArray:
        """Return the slot of each report; for a cell, in the first group that has its row."""
        mechanism = self.mechanism
        if not mechanism.cell:
            return fields[:, 0].astype(np.int64)
        rows = mechanism.rows(
            np.array([seed], np.uint64), np.arange(mechanism.groups, dtype=np.uint64)
        )
        signed = mechanism.shape.signed
        row, where = np.divmod(fields[:, int(signed)], np.uint32(mechanism.bins))
        place = np.argmax(rows[None, :] == row[:, None], axis=1) * mechanism.bins + where
        return 2 * place + fields[:, 0] if signed else place

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every slot; a cell is a function of seed and slot."""
        mechanism = self.mechanism
        choice = Choice(mechanism.shape, mechanism.top, mechanism.threshold)
        return slot_law(choice, values, outcome, mechanism.rounding)


class Choice(NamedTuple):
    """What decides a report: sizes, how many slots are the best, and the coin's threshold."""

    shape: Shape
    top: int
    threshold: int


def slot_law(
    choice: Choice, values: Sequence[float], patterns: Sequence[int], rounding: str
) -> FloatArray:
    """Return the probability of every slot for items of these values and patterns."""
    pairs = list(zip(values, patterns, strict=True))
    if rounding == "independent":
        pairs.sort()  # the law does not depend on the order, and fewer cases need computing
    return mixed_law(choice, tuple(pairs), rounding)


@lru_cache(maxsize=2**16)
def mixed_law(choice: Choice, pairs: tuple[tuple[float, int], ...], rounding: str) -> FloatArray:
    """Return the law of the slot for (value, pattern) pairs, over all roundings and cuts."""
    law, most = np.zeros(choice.shape.slots), choice.shape.tokens
    for chosen, chance in _roundings([value for value, _ in pairs], rounding):
        kept = list(itertools.combinations(chosen, min(len(chosen), most)))
        for tokens in kept:
            sums = np.zeros(choice.shape.groups * choice.shape.bins, dtype=int)
            for value, pattern in (pairs[item] for item in tokens):
                sums += (-1 if value < 0 else 1) * np.array(_pattern_scores(choice.shape, pattern))
            padded = padded_law(choice, tuple(sums.tolist()), most - len(tokens))
            law += float(chance) / len(kept) * padded
    return law


def _roundings(values: Sequence[float], rounding: str) -> Iterator[tuple[Chosen, Fraction]]:
    """Yield every set of items that may become tokens, with its probability."""
    sizes = [abs(Fraction(value)) for value in values]
    if rounding == "independent":
        for picked in itertools.product((True, False), repeat=len(sizes)):
            chance = Fraction(1)
            for size, taken in zip(sizes, picked, strict=True):
                chance *= size if taken else 1 - size
            if chance:
                yield tuple(item for item, taken in enumerate(picked) if taken), chance
        return
    ends = list(itertools.accumulate(sizes))
    edges = sorted({Fraction(0), Fraction(1), *(end % 1 for end in ends)})
    for low, high in itertools.pairwise(edges):
        start = (low + high) / 2  # the same items are met from every start between two edges
        met = [
            item
            for item, (end, size) in enumerate(zip(ends, sizes, strict=True))
            if _steps(end, start) > _steps(end - size, start)
        ]
        yield tuple(met), high - low


def _steps(position: Fraction, start: Fraction) -> int:
    return -((start - position) // 1)


@lru_cache(maxsize=2**16)
def _pattern_scores(shape: Shape, pattern: int) -> Scores:
    """Return what one token of sign + adds to each (group, bin)."""
    scores = [0] * (shape.groups * shape.bins)
    for group in range(shape.groups):
        pattern, place = divmod(pattern, shape.places)
        where, odd = divmod(place, 2) if shape.signed else (place, 0)
        scores[group * shape.bins + where] = -1 if odd else 1
    return tuple(scores)


@lru_cache(maxsize=2**16)
def padded_law(choice: Choice, scores: Scores, dummies: int) -> FloatArray:
    """Return the law of the slot after adding this many dummies of uniform pattern."""
    if dummies == 0:
        return choice_law(choice, scores)
    count = choice.shape.places**choice.shape.groups
    law = np.zeros(choice.shape.slots)
    for pattern in range(count):
        added = _pattern_scores(choice.shape, pattern)
        sums = tuple(one + other for one, other in zip(scores, added, strict=True))
        law += padded_law(choice, sums, dummies - 1)
    return law / count


def choice_law(choice: Choice, scores: Scores) -> FloatArray:
    """Return the law of the slot for given scores, ties at the border broken uniformly."""
    bins = np.array(scores)
    slots = np.stack([bins, -bins], axis=1).ravel() if choice.shape.signed else bins
    border = np.sort(slots)[-choice.top]
    above, tied = (slots > border).sum(), (slots == border).sum()
    share = np.where(slots > border, 1.0, np.where(slots == border, (choice.top - above) / tied, 0))
    best = choice.threshold / FULL
    return share * best / choice.top + (1 - share) * (1 - best) / (len(slots) - choice.top)
