"""What k-fold and sampling share: slots that hold one item each, under a 1-sparse scheme.

Client  deals its items and dummies, max(items, k) in all, at random; the first slots are sent.
        The item x of a slot becomes, with chance |v|, the symbol (h(x), s(x)·sign v) of 2b;
        anything else becomes a uniform one. The symbol is kept with chance T/2^32, else replaced
        by one of the other 2b-1
Server  mean[x] = k/slots · c/n · Σ ±s(x)·1[h(x) = j] over the slots (j, ±) of all reports,
        c = 1/(p-q) for p = T/2^32 and q = (1-p)/(2b-1)
A symbol of one bin is one bit, which makes three published schemes one:

hashing   b = 1: binary local hashing. One seed serves all slots, each with a hash of its own
hadamard  b = 1 with s(x) = (-1)^<r,π(x)>: a random entry of a Hadamard row, answered with
          randomized response. It is what `hashing` is in table mode: a slot is a signed cell
optimal   the b of least variance, near (e^ε-1)/2: optimal local hashing for signed values,
          whose symbols are bins with a sign (up to ε = 1.34 that is one bin); direct only
"""

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from faintly import kernels
from faintly.core import (
    AnyArray,
    Budget,
    Cells,
    FloatArray,
    Guarantee,
    Hashing,
    IdArray,
    IntArray,
    Layout,
    Plan,
    ReportBatch,
    Sketch,
    Unit,
    VectorBatch,
    WordArray,
)
from faintly.core.plan import OPEN_MAPS
from faintly.core.report import fields_below
from faintly.errors import InvalidPlan, UnsupportedUnit
from faintly.mechanisms import parameters as require
from faintly.mechanisms.base import Mechanism
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Law, SmallCase
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.tables import Tables
from faintly.primitives import hashing, noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL
from faintly.primitives.rounding import bernoulli
from faintly_baselines import slots as slotting
from faintly_baselines.slots import MAX_BINS, Places, best_bins
from faintly_baselines.unhashed import largest_variance

SCHEMES = ("hashing", "hadamard", "optimal")
NAMES = ("scheme", "bins", "keep")
MAX_SLOTS = 8192  # a hash numbers its words by one byte, and a word has a bit for 32 slots
MAX_BIN_SLOTS = 256  # with bins every slot has a word of its own
WORD_BITS = 32
BLOCK = 2**20  # slots that are dealt, or read, at once
OPEN_BITS = (16, 24)  # least and most code bits that folding keys needs


class SlotTables(Tables):
    """Tables of the signed cells of all slots."""

    mechanism: "OneSparse"

    def cells(self, batch: ReportBatch) -> Cells:
        """Return a cell of weight +1 or -1 for each slot."""
        cell = batch.fields[:, : self.mechanism.slots]
        table = self.map_of(batch).astype(np.uint32) << np.uint32(self.hashing.bits)
        weight = 1 - 2 * (cell & np.uint32(1)).astype(np.int32)
        return Cells((table[:, None] | cell >> np.uint32(1)).ravel(), weight.ravel())


class OneSparseForecast(Forecast):
    """The variance of slots, likelier to name the bin of a held key."""

    mechanism: "OneSparse"

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        mechanism = self.mechanism
        return mechanism.slots / mechanism.bins * mechanism.scale**2

    def worst_variance(self) -> float:
        return largest_variance(self.variance(0.0), self.held_excess_moment)

    @property
    def held_excess_moment(self) -> float:
        """Return how much more often the slots name the bin of a held key; 0 with one bin."""
        mechanism = self.mechanism
        more = mechanism.slots / self.plan.sparsity * (sum(mechanism.chances) - 1 / mechanism.bins)
        return more * mechanism.scale**2

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return what is lost where more items than k share the slots."""
        return self.cut(vectors.lengths)

    def influence(self) -> float:
        """Return what a report reads at a key if all its slots name it."""
        return self.mechanism.slots * self.mechanism.scale


class OneSparseLaw(Law):
    """The law of the symbols of all slots, over every way to deal the items."""

    mechanism: "OneSparse"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield k = 1 with all values, and k = 2; with k + 2 items each, or k + 1 with bins."""
        mechanism = self.mechanism
        options: dict[str, Any] = {"scheme": mechanism.scheme, "bins": min(mechanism.bins, 2)}
        yield SmallCase(self.small(sparsity=1, options=options), items=3)
        several = mechanism.bins > 1 and mechanism.slots > 1
        yield SmallCase(
            self.small(sparsity=2, options=options), (-1.0, 0.0, 1.0), items=3 if several else 4
        )

    def outcomes(self, items: int) -> Iterator[tuple[Places, ...]]:
        """Yield every symbol of every item in every slot."""
        one = list(itertools.product(range(self.mechanism.symbols), repeat=self.mechanism.slots))
        yield from itertools.product(one, repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[Places, ...]:
        """Return the symbol of each id in every slot under a seed."""
        mechanism = self.mechanism
        seeds = np.array([seed], dtype=np.uint64)
        rows = mechanism.rows(seeds) if mechanism.table else None
        slots = np.tile(np.arange(mechanism.slots), len(ids))
        places = mechanism.places(seeds, rows, slots, np.repeat(ids, mechanism.slots))
        return tuple(tuple(one) for one in places.reshape(len(ids), mechanism.slots).tolist())

    def report_number(self, fields: WordArray, seed: int) -> IntArray:  # noqa: ARG002
        """Return where `probabilities` has each report: it lists symbols only."""
        mechanism = self.mechanism
        symbols = fields[:, : mechanism.slots].astype(np.int64)
        if mechanism.table:
            symbols &= 1
        return symbols @ mechanism.symbols ** np.arange(mechanism.slots - 1, -1, -1)

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of all symbols of a report: the mean over all deals."""
        held = tuple(sorted(zip(values, outcome, strict=True)))
        dummies = max(0, self.plan.sparsity - len(held))
        return slotting.dealt_law(held, dummies, self.mechanism.slots, self.mechanism.chances)


@dataclass(frozen=True, kw_only=True)
class OneSparse(Mechanism):
    """Slots that hold one item each, and the scheme that randomizes a slot."""

    baseline: ClassVar[bool] = True
    protects: ClassVar[Unit]
    theorem: ClassVar[str]
    tables = cached_property(SlotTables)
    forecast = cached_property(OneSparseForecast)
    law = cached_property(OneSparseLaw)
    plan: Plan
    scheme: str
    bins: int  # b
    keep: int  # T: a symbol is kept for words below it

    @classmethod
    def variants(cls, request: Request) -> Iterator[dict[str, Any]]:
        """Yield one bit for each slot and, where they are better, several bins."""
        yield {"scheme": "hashing"}
        if request.decode == "direct" and best_bins(request.budget.epsilon) > 1:
            yield {"scheme": "optimal"}

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose bins and threshold by epsilon, and codes by the universe."""
        if request.unit != cls.protects:
            raise UnsupportedUnit(f"{cls.name} protects {cls.protects}, not {request.unit}")
        options = dict(request.options)
        scheme = require.one_of(options.pop("scheme", SCHEMES[0]), "scheme", SCHEMES)
        bins = options.pop("bins", None)
        require.none_left(options, cls.name, "scheme and bins")
        if bins is None:
            bins = best_bins(request.budget.epsilon) if scheme == "optimal" else 1
        require.integer(bins, "bins", 1, MAX_BINS)
        epsilon = noise.exact(request.budget.epsilon)
        keep = noise.response_threshold(epsilon, outcomes=2 * bins)
        parameters = {"scheme": scheme, "bins": bins, "keep": keep}
        return Calibrated(parameters=parameters, hashing=_hashing(request, cls.name))

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given = require.named(plan, NAMES)
        if plan.unit != cls.protects:
            raise InvalidPlan(f"{cls.name} protects {cls.protects}, not {plan.unit}")
        scheme = require.one_of(given["scheme"], "scheme", SCHEMES)
        table = plan.decode == "table"
        most = MAX_BINS if scheme == "optimal" and not table else 1
        if table and scheme == "optimal" and given["bins"] != 1:
            raise InvalidPlan("tables allow one bin only; use --decode direct")
        bins = require.integer(given["bins"], "bins", 1, most)
        if plan.hashing.family != ("linear" if table else "prf"):
            raise InvalidPlan(f"{cls.name} decodes linear hashing by table and prf directly")
        if scheme == "hadamard" and not table:
            raise InvalidPlan("hadamard is the scheme of table decoding; use --decode table")
        keep = require.integer(given["keep"], "keep", FULL // (2 * bins) + 1, FULL - 1)
        made = cls(plan=plan, scheme=scheme, bins=bins, keep=keep)
        require.integer(made.slots, "sparsity", 1, MAX_SLOTS if bins == 1 else MAX_BIN_SLOTS)
        return made

    @property
    @abstractmethod
    def slots(self) -> int:
        """Return how many slots a report has."""

    @property
    def symbols(self) -> int:
        """Return how many symbols a slot may hold."""
        return 2 * self.bins

    @property
    def table(self) -> bool:
        """Return whether reports are decoded by tables."""
        return self.plan.decode == "table"

    @cached_property
    def layout(self) -> Layout:
        """Return the seed and a symbol for each slot; in table mode its cell, and the map."""
        if not self.table:
            return fields_below(self.symbols, self.slots, self.plan.hashing.seed_bytes)
        return self.tables.layout((1 + self.plan.hashing.bits,) * self.slots)

    @property
    def chances(self) -> tuple[float, float]:
        """Return p and q: the chance that a symbol is kept, and that it becomes a given other."""
        kept = self.keep / FULL
        return kept, (1 - kept) / (self.symbols - 1)

    @property
    def scale(self) -> float:
        """Return k/slots · c, which undoes both the noise and the choice of items."""
        kept, other = self.chances
        return self.plan.sparsity / self.slots / (kept - other)

    def guarantee(self) -> Guarantee:
        """Return ln(p/q), for every hash and any number of items."""
        ratio = Fraction(self.keep * (self.symbols - 1), FULL - self.keep)
        return Guarantee(self.plan.unit, Budget.at_least(noise.log_at_least(ratio)), self.theorem)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the symbols of one report per vector, or the cells that they stand for.

        Words of `rng` are used in this order, for each block of clients: one word per slot for
        the deal, one per item that was dealt for its rounding (more where a value ties with its
        word), one per slot for the dummies, one for the coins, and with several bins one for
        what a symbol turns into.

        Privacy: for every seed and any number of items, by the theorem that the guarantee names.
        The caller draws `hash_seeds` without looking at the vectors, and from another source than
        `rng`; neither the deal nor the dummies come from a seed.
        """
        size = max(1, BLOCK // max(self.plan.sparsity, int(vectors.lengths.max(initial=0))))
        made = [np.zeros((0, len(self.layout.widths)), dtype=np.uint32)]
        for start in range(0, len(vectors), size):
            part = vectors.slice(start, start + size)
            made.append(self._fields(part, hash_seeds[start : start + size], rng))
        return np.concatenate(made)

    def _fields(self, part: VectorBatch, seeds: IdArray, rng: Rng) -> WordArray:
        dealt = slotting.deal(part.lengths, self.plan.sparsity, self.slots, rng)
        held = np.flatnonzero(dealt < part.lengths[:, None])  # slots of all clients, in one row
        row = (part.offsets[:-1, None] + dealt).ravel()[held]
        values = part.values[row]
        sure = bernoulli(np.abs(values), rng)
        held, row, values = held[sure], row[sure], values[sure]
        symbols = self._uniform(dealt.size, rng)
        rows = self.rows(seeds) if self.table else None
        places = self.places(seeds, rows, held, part.indices[row])
        symbols[held] = places ^ (values < 0)
        sent = self._answered(symbols, rng).astype(np.uint32, copy=False).reshape(dealt.shape)
        if rows is None:
            return sent
        cells: WordArray = rows << np.uint32(1) | sent
        return self.tables.numbered(cells, self.tables.maps.map_of(seeds))

    def _uniform(self, count: int, rng: Rng) -> AnyArray:
        if self.bins == 1:
            return rng.words(count) & np.uint32(1)
        return uniform_below(np.full(count, self.symbols), rng)

    def _answered(self, symbols: AnyArray, rng: Rng) -> AnyArray:
        """Return each symbol, or one of the others: generalized randomized response."""
        lost = rng.words(len(symbols)) >= self.keep
        if self.bins == 1:
            return symbols ^ lost
        step = 1 + uniform_below(np.full(len(symbols), self.symbols - 1), rng)
        return (symbols + np.where(lost, step, 0)) % self.symbols

    def rows(self, seeds: IdArray) -> WordArray:
        """Return the row of the Hadamard matrix (clients, slots) that each slot uses."""
        # A hash has at most 256 numbered words, so each block of 256 slots has its own id.
        blocks = [
            kernels.hash_words(
                seeds,
                np.full(len(seeds), first // MAX_BIN_SLOTS, dtype=np.uint64),
                hashing.GROUP,
                min(MAX_BIN_SLOTS, self.slots - first),
            )
            for first in range(0, self.slots, MAX_BIN_SLOTS)
        ]
        return np.concatenate(blocks, axis=1) & np.uint32(2**self.plan.hashing.bits - 1)

    def places(
        self, seeds: IdArray, rows: WordArray | None, slots: IntArray, ids: IdArray
    ) -> AnyArray:
        """Return the symbol (bin, and the sign as lowest bit) of each id in a slot of its owner.

        The slots of all owners are numbered together.
        """
        if rows is not None:
            codes, flips = self._mapped(seeds, slots, ids)
            return hashing.parity(rows.ravel()[slots] & codes) ^ (flips & np.uint32(1))
        owner, slot = np.divmod(slots, self.slots)
        word, bit = self._word_of(slot)
        words = kernels.hash_words(
            seeds[owner], ids, hashing.PROJECTION, 1 + int(word.max(initial=0))
        )
        own = words[np.arange(len(ids)), word]
        return 2 * hashing.scale_to(own, self.bins) + (own >> bit & np.uint32(1))

    def _mapped(self, seeds: IdArray, slots: IntArray, ids: IdArray) -> tuple[WordArray, AnyArray]:
        """Return code and sign (as the lowest bit) of each id in the public map of its owner."""
        if self.plan.hashing.maps == 1:
            return self.tables.codes(ids, 0), self.tables.flips(ids, 0)
        maps = self.tables.maps
        chosen = maps.map_of(seeds)[slots // self.slots]
        return maps.codes(ids, chosen), maps.masks(ids, chosen) < 0

    def _word_of(self, slot: IntArray) -> tuple[IntArray, WordArray]:
        """Return which word of an id's hash, and which bit of it, has the sign for a slot."""
        if self.bins > 1:
            return slot, np.zeros(len(slot), dtype=np.uint32)
        word, bit = np.divmod(slot, WORD_BITS)
        return word, bit.astype(np.uint32)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σ ±s(x)·1[h(x) = j] over the slots (j, ±) of all reports, for each id."""
        if self.table:
            return self.tables.read(batch, ids)
        return self._hits(batch, ids)[0]

    def _hits(self, batch: ReportBatch, ids: IdArray) -> tuple[IntArray, IntArray]:
        """Return for each id the sum of signs and the number of slots that name its bin."""
        signs = hits = np.zeros(len(ids), dtype=np.int64)
        size = max(1, BLOCK // self.slots)
        for start in range(0, len(batch), size):
            part = batch.take(slice(start, start + size))
            more_signs, more_hits = self._hits_of(part.hash_seeds, part.fields, ids)
            signs, hits = signs + more_signs, hits + more_hits
        return signs, hits

    def _hits_of(
        self, seeds: IdArray, fields: WordArray, ids: IdArray
    ) -> tuple[IntArray, IntArray]:
        """Return `_hits` of reports whose slots fit into memory together."""
        word, bit = self._word_of(np.tile(np.arange(self.slots), len(fields)))
        symbol = fields.ravel()
        minus, where = symbol & np.uint32(1), symbol >> np.uint32(1)
        described = np.stack([word.astype(np.uint32), np.uint32(1) << bit, where, minus])
        return kernels.read_slots(np.repeat(seeds, self.slots), described, ids, self.bins)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: the second moment of a report at each id, less the squared mean.

        One bin hits every key. With several, hits are counted in the reports; they are fewest
        where nobody holds the key. The exact term subtracted is the mean of v², at least mean².
        """
        hit = np.full(len(means), self.slots / self.bins)
        if self.bins > 1 and ids is not None:
            assert sketch.hash_seeds is not None and sketch.fields is not None
            every = ReportBatch(self.plan.digest, sketch.hash_seeds, sketch.fields)
            hits = self._hits(every, ids)[1]
            hit = np.maximum(hit, hits / max(1, sketch.count))
        return hit * self.scale**2 - np.minimum(means**2, 1.0)


def _hashing(request: Request, owner: str) -> Hashing:
    own = "linear" if request.decode == "table" else "prf"
    if request.family not in (None, own):
        raise InvalidPlan(f"{owner} decodes linear hashing by table and prf directly")
    if own == "prf":
        require.no_tables(request, owner)
        return Hashing(family=own)
    size = request.universe.size
    if size is None:
        folded = (4 * request.clients - 1).bit_length()
        bits, maps = min(OPEN_BITS[1], max(OPEN_BITS[0], folded)), OPEN_MAPS
    else:
        # Rows are uniform and independent, so one map suffices.
        bits, maps = max(1, (size - 1).bit_length()), 1
    return Hashing(family=own, bits=request.bits or bits, maps=request.maps or maps)
