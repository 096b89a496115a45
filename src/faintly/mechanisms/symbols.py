"""Reports of symbols: what retrieval-gf and retrieval-l1 share.

A held item answers a symbol of GF(q), drawn by a channel, and a report is a uniform solution i of
<i, a(x)> = y(x) for all of them. Rows a(x) are hashed or, in the form polynomial, the powers of
a point. A key that is not held reads a uniform symbol.
"""

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from faintly.core import FloatArray, IdArray, IntArray, ReportBatch, Sketch, WordArray
from faintly.mechanisms.base import Planned
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Law
from faintly.primitives.fields import independent, inner_products, powers_of

MOMENT_REPORTS = 2**14  # read for the second moment: enough for 1.5 digits


class SymbolForecast(Forecast):
    """What forecasts of symbols share."""

    mechanism: "Symbols"

    def pair_covariance(self) -> float:
        """Return 0: every item answers with a symbol of its own."""
        return 0.0

    @property
    def held_excess_moment(self) -> float:
        return float(self.mechanism.channel.present_moment - self.mechanism.channel.absent_moment)


class SymbolLaw(Law):
    """The law of a report, from the laws of the answers in its basis."""

    mechanism: "Symbols"

    def outcomes(self, items: int) -> Iterator[tuple[Any, ...]]:
        """Yield every (row, sign), or (point, sign), of items in their order of elimination.

        Rows need not differ, so this covers every map, and every order by renaming items.
        """
        mechanism = self.mechanism
        if mechanism.pointed and not mechanism.layout.seed_bytes:
            yield tuple((point, 1) for point in range(items))
            return
        every = range(mechanism.order)
        places = every if mechanism.pointed else itertools.product(every, repeat=mechanism.symbols)
        yield from itertools.product(list(itertools.product(places, (1, -1))), repeat=items)

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return q^-t·∏ρ over the greedy basis, or over the points, for every report.

        Items are in their order of elimination, unless a third entry of their outcomes ranks them.
        """
        mechanism = self.mechanism
        held = [(place, value) for place, value in zip(outcome, values, strict=True) if value]
        mechanism.check_items(len(held))
        held.sort(key=lambda one: one[0][2:])
        count = mechanism.order**mechanism.symbols
        law = np.full(count, 1 / count)
        for row, content in self._contents(held):
            law *= self._factors(content)[inner_products(row, mechanism.order)]
        return law

    def _contents(
        self, held: list[tuple[Any, float]]
    ) -> Iterator[tuple[tuple[int, ...], list[float]]]:
        """Yield the rows that are answered, and the signed values that each has."""
        mechanism = self.mechanism
        if mechanism.pointed:
            for point in {place[0] for place, _ in held}:
                content = [place[1] * value for place, value in held if place[0] == point]
                yield powers_of(point, mechanism.symbols, mechanism.order), content
            return
        for position in _basis(tuple(place[0] for place, _ in held), mechanism.order):
            (row, sign, *_), value = held[position]
            yield row, [sign * value]

    @abstractmethod
    def _factors(self, values: list[float]) -> FloatArray:
        """Return ρ of every symbol for a row of these values, averaged over their rounding."""


_basis = lru_cache(maxsize=2**14)(independent)  # enumeration repeats few arguments


class Symbols(Planned):
    """A mechanism whose reports are symbols of a field."""

    form: str
    symbols: int  # t: sent in a report
    channel: Any  # with its order q, the scale of readings and their second moments

    @property
    def order(self) -> int:
        """Return q, the number of symbols of the field."""
        return int(self.channel.order)

    @property
    def bits(self) -> int:
        """Return w, the bits of a symbol, where q is a power of two."""
        return self.order.bit_length() - 1

    @property
    def pointed(self) -> bool:
        """Return whether rows are the powers of a point."""
        return self.form == "polynomial"

    @property
    def scale(self) -> float:
        return float(self.channel.scale)

    def _parts(self, offsets: IntArray, most: int) -> Iterator[tuple[int, int]]:
        """Yield slices of the clients, each of at most `most` items, or of a single client."""
        start, count = 0, len(offsets) - 1
        while start < count:
            fits = int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1
            stop = min(count, max(start + 1, fits), start + most)
            yield start, stop
            start = stop

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σᵢ sᵢ(x)·reading(<iᵢ, aᵢ(x)>) for each id."""
        return self._sums(batch.hash_seeds, batch.fields, ids)[0]

    @abstractmethod
    def _sums(self, seeds: IdArray, sent: WordArray, ids: IdArray) -> IntArray:
        """Return (2, ids): sums of readings and of their squares."""

    def _moment(self, sketch: Sketch, ids: IdArray) -> FloatArray:
        """Return the second moment of what was read at each id.

        It is larger at a held item than at an absent one, by an amount that depends on mean |v|.
        Where values cancel, the mean does not show |v|, so the moment is measured. Reports are
        sorted, so every m-th of them represents all.
        """
        assert sketch.hash_seeds is not None and sketch.fields is not None
        some = slice(None, None, -(-sketch.count // MOMENT_REPORTS))
        seeds, sent = sketch.hash_seeds[some], sketch.fields[some]
        return self._sums(seeds, sent, ids)[1] * (self.scale**2 / len(seeds))
