"""ALP, the approximate Laplace projection, used by each client on its own vector.

Client  the + and the - part of an item are keys of their own; |v|·level is rounded at random to an
        integer m, and one bit is set in each of the first m columns, in a row that the seed
        chooses; then every bit is flipped with odds 1/(α+2)
Server  for both parts of x the level at which its bits agree best with a run of ones, over `level`;
        + less -, averaged over clients
Aumüller, Lebeda and Pagh 2021, "Differentially private sparse vectors with low error, optimal
space, and fast access", made for a single release of one vector. Averages stay biased however many
clients there are: `relative_bias` says by how much.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from faintly import kernels
from faintly.core import (
    AnyArray,
    Budget,
    EventLevel,
    FloatArray,
    Guarantee,
    IdArray,
    IntArray,
    Layout,
    Plan,
    ReportBatch,
    Sketch,
    VectorBatch,
    WordArray,
)
from faintly.errors import InvalidPlan, UnsupportedUnit
from faintly.mechanisms import parameters as require
from faintly.mechanisms.base import Mechanism
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Law, SmallCase
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.rounding import round_values
from faintly.mechanisms.simulation import BLOCK, Simulation, by_value, mean_square, means_at
from faintly.primitives import hashing, noise
from faintly.primitives.entropy import Rng
from faintly_baselines.alp import estimate, simulation
from faintly_baselines.unhashed import simulation_source

THEOREM = "alp.proof.md, Theorem 1 (rounded levels in unary, every bit flipped at random)"
NAMES = ("rows", "columns", "level", "flip")
FAMILY = "prf"
STEPS = 256  # grid steps per unit: values are rounded to them first
ONE = 2**16  # a level of 1
LEVEL_BITS = (STEPS * ONE - 1).bit_length()
ALPHA = 3.0
ROWS_PER_ITEM = 10  # so that other items set at most a tenth of the rows of a column
MAX_BITS = 2**16  # of a report: 8 KiB
WORD_BITS = 32
READ_BITS = 2**24  # of reports unpacked at once, a byte each


class AlpForecast(Forecast):
    """Variance and bias of estimated levels, from the exact law of their columns."""

    mechanism: "Alp"

    def variance(self, mean_square: float) -> float:
        """Return n·Var at a key nobody holds, of clients with `mean_square` items of value 1."""
        return estimate.moments(self.mechanism.shape, 0.0, mean_square)[1]

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return n·Var about the biased mean, taking the bias as proportional to the value."""
        others = mean_square(vectors)
        unheld = self.variance(others)
        mean, held = estimate.moments(self.mechanism.shape, 1.0, max(0.0, others - 1))
        more = by_value(lambda v: (held - unheld) * np.abs(v) - (mean * v) ** 2, vectors)
        return unheld + means_at(vectors, more, ids)

    def worst_variance(self) -> float:
        """Return the mean square at a key that nobody, or everyone, holds."""
        k = self.plan.sparsity
        return max(self.variance(k), estimate.moments(self.mechanism.shape, 1.0, k - 1)[1])

    def relative_bias(self) -> float:
        """Return how far the estimated mean of a value of 1 is from 1, for clients with k items."""
        return abs(1 - estimate.moments(self.mechanism.shape, 1.0, self.plan.sparsity - 1)[0])

    def influence(self) -> float:
        """Return the highest level that a report can claim, in units of the values."""
        return self.mechanism.columns * ONE / self.mechanism.level


class AlpLaw(Law):
    """The law of bits, which are independent given the items' rows and rounded levels."""

    mechanism: "Alp"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield two rows with this plan's own coin and level, and few enough items to enumerate."""
        mechanism = self.mechanism
        made = self.small(sparsity=1, options={"rows": 2})
        assert isinstance(made, Alp)
        case = replace(made, level=mechanism.level, columns=mechanism.columns, flip=mechanism.flip)
        if mechanism.columns == 1:
            yield SmallCase(case, items=3)
        else:
            # Rows of two parts in every column make 4^m outcomes for each item.
            yield SmallCase(case, (-1.0, 0.0, 1.0), items=2 if mechanism.columns < 4 else 1)

    def outcomes(self, items: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Yield every row of every item, part and column."""
        one = list(itertools.product(range(self.mechanism.rows), repeat=2 * self.mechanism.columns))
        yield from itertools.product(one, repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each id under a seed: those of + first, then those of -."""
        seeds = np.full(len(ids), seed, dtype=np.uint64)
        words = kernels.hash_words(seeds, ids, hashing.BIN, 2 * self.mechanism.columns)
        return tuple(tuple(row) for row in hashing.scale_to(words, self.mechanism.rows).tolist())

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report, over all roundings."""
        mechanism = self.mechanism
        size, flip = mechanism.rows * mechanism.columns, mechanism.flip / noise.FULL
        options = [list(self._rounded(value)) for value in values]
        chances: dict[int, float] = {}
        for rounded in itertools.product(*options):
            bits, chance = 0, 1.0
            for (reached, odds), value, place in zip(rounded, values, outcome, strict=True):
                chance *= odds
                part = place[mechanism.columns :] if value < 0 else place[: mechanism.columns]
                for column in range(reached):
                    bits |= 1 << (column * mechanism.rows + part[column])
            chances[bits] = chances.get(bits, 0.0) + chance
        flips = np.bitwise_count(np.arange(2**size)[:, None] ^ np.array(list(chances)))
        law = flip ** np.arange(size + 1.0) * (1 - flip) ** np.arange(size, -1.0, -1.0)
        return law[flips] @ np.array(list(chances.values()))

    def _rounded(self, value: float) -> Iterator[tuple[int, float]]:
        """Yield both levels that a value may be rounded to, with their odds.

        Rounding to the grid first does not change them where a whole level lies on the grid.
        """
        exact = Fraction(abs(value)) * self.mechanism.level / ONE
        low = math.floor(exact)
        for reached, odds in ((low, 1 - (exact - low)), (low + 1, exact - low)):
            if odds:
                yield reached, float(odds)


class AlpSimulation(Simulation):
    """Sums that are drawn for groups of like clients."""

    mechanism: "Alp"

    @property
    def draws_sum(self) -> bool:
        """Return True: reading costs far more than drawing."""
        return True

    def totals(
        self,
        vectors: VectorBatch,
        ids: IdArray,
        public: Rng,  # noqa: ARG002
        secret: Rng,
    ) -> IntArray:
        """Return integers with the law of `read` at each key, drawn for groups of like clients.

        Reading takes time proportional to reports times keys, far more than making them.
        `simulation.py` says what is exact.
        """
        levels = self.mechanism.levels(vectors, secret)
        source = simulation_source(secret)
        return simulation.draw_totals(self.mechanism.shape, vectors, levels, ids, source)


@register("alp")
@dataclass(frozen=True, kw_only=True)
class Alp(Mechanism):
    """Bits in rows and columns, each flipped by a coin."""

    baseline: ClassVar[bool] = True
    forecast = cached_property(AlpForecast)
    law = cached_property(AlpLaw)
    simulation = cached_property(AlpSimulation)

    plan: Plan
    rows: int
    columns: int
    level: int  # of a value of 1, out of 2^16
    flip: int  # chance that a bit is flipped, out of 2^32

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose the coin by α, the highest level that it allows, and ten rows per item.

        With the option `published`, the level is the authors' ε/(2α) for a distance of 2.
        """
        if not isinstance(request.unit, EventLevel):
            raise UnsupportedUnit(f"alp protects event, not {request.unit}")
        options = dict(request.options)
        alpha = options.pop("alpha", ALPHA)
        rows = options.pop("rows", ROWS_PER_ITEM * request.sparsity)
        published = options.pop("published", False)
        require.none_left(options, "alp", "alpha, rows and published")
        if not (isinstance(alpha, int | float) and 0 < alpha <= ONE):
            raise InvalidPlan(f"alpha must be a number above 0 and at most {ONE}, got {alpha!r}")
        hashing = require.direct(request, "alp", FAMILY)
        epsilon = request.budget.epsilon
        flip = math.ceil(noise.FULL / (Fraction(alpha) + 2))
        level = int(ONE * epsilon / (2 * alpha)) if published else _highest_level(flip, epsilon)
        if level < 1 or level > ONE * estimate.MAX_COLUMNS:
            raise InvalidPlan(
                f"alpha {alpha:g} does not suit epsilon {epsilon:g}; try {epsilon / 2:g}"
            )
        parameters = {
            "rows": require.integer(rows, "rows", 2, MAX_BITS),
            "columns": -(-level // ONE),
            "level": level,
            "flip": flip,
        }
        return Calibrated(parameters=parameters, hashing=hashing)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given = require.named(plan, NAMES)
        if not isinstance(plan.unit, EventLevel):
            raise InvalidPlan(f"alp protects event, not {plan.unit}")
        require.direct(plan, "alp", FAMILY)
        level = require.integer(given["level"], "level", 1, ONE * estimate.MAX_COLUMNS)
        columns = require.integer(given["columns"], "columns", -(-level // ONE), -(-level // ONE))
        rows = require.integer(given["rows"], "rows", 2, MAX_BITS // columns)
        flip = require.integer(given["flip"], "flip", 1, noise.FULL // 2 - 1)
        return cls(plan=plan, rows=rows, columns=columns, level=level, flip=flip)

    @cached_property
    def layout(self) -> Layout:
        """Return the seed and the bits, 32 to a field; column by column, rows in order."""
        whole, rest = divmod(self.rows * self.columns, WORD_BITS)
        widths = (WORD_BITS,) * whole + (rest,) * (rest > 0)
        limits = tuple(2**width for width in widths)
        return Layout(seed_bytes=self.plan.hashing.seed_bytes, widths=widths, limits=limits)

    @cached_property
    def _levels(self) -> tuple[IntArray, int]:
        return estimate.levels(self.columns)

    @property
    def scale(self) -> float:
        """Return the value of one unit of the integers that `read` adds up."""
        return ONE / (self.level * self._levels[1])

    def guarantee(self) -> Guarantee:
        """Return the log of the largest ratio between reports of an item of -1 and of 1."""
        loss = noise.log_at_least(_ratio(self.flip, self.level))
        return Guarantee(self.plan.unit, Budget.at_least(loss), THEOREM)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the flipped bits of one report per vector.

        Privacy: any change of one item, pure, for every seed and any number of items. The caller
        draws `hash_seeds` without looking at the vectors, and from another source than `rng`.
        """
        levels = self.levels(vectors, rng)
        place = self._places(hash_seeds[vectors.owners], vectors.indices, levels < 0)
        size = self.rows * self.columns
        bits = np.zeros((len(vectors), size), dtype=bool)
        for column in range(self.columns):
            high = np.abs(levels) > column
            bits[vectors.owners[high], place[high, column]] = True
        bits ^= rng.words(bits.size).reshape(bits.shape) < self.flip
        return self._packed(bits)

    def levels(self, vectors: VectorBatch, rng: Rng) -> AnyArray:
        """Return the level that each row is rounded to, with the sign of its value."""
        fine = round_values(vectors.values, STEPS, rng)
        words = rng.words(len(fine))
        levels = np.empty(len(fine), dtype=np.int8)  # they are at most MAX_COLUMNS
        for start in range(0, len(fine), BLOCK):
            part = slice(start, start + BLOCK)
            # Both factors are powers of two, so that this adds a uniform fraction and rounds down.
            drawn = words[part] >> np.uint32(WORD_BITS - LEVEL_BITS)
            raised = np.abs(fine[part]).view(np.uint32) * np.uint32(self.level) + drawn
            levels[part] = np.sign(fine[part]) * (raised >> np.uint32(LEVEL_BITS))
        return levels

    def _packed(self, bits: np.ndarray) -> WordArray:
        fields = len(self.layout.widths)
        padded = np.zeros((len(bits), fields * WORD_BITS), dtype=bool)
        padded[:, : bits.shape[1]] = bits
        packed = np.packbits(padded, axis=1, bitorder="little")
        return packed.view("<u4").astype(np.uint32)

    def _places(self, seeds: IdArray, ids: IdArray, minus: np.ndarray) -> IntArray:
        """Return the bit of each id (row) in each column, of its - part where `minus`."""
        words = kernels.hash_words(seeds, ids, hashing.BIN, 2 * self.columns)
        mine = np.where(minus[:, None], words[:, self.columns :], words[:, : self.columns])
        return hashing.scale_to(mine, self.rows) + self.rows * np.arange(self.columns)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return, for each id, the sum over reports of the level of + less that of -."""
        totals = np.zeros(len(ids), dtype=np.int64)
        size = max(1, READ_BITS // (WORD_BITS * len(self.layout.widths)))
        for start in range(0, len(batch), size):
            part = batch.take(slice(start, start + size))
            packed = np.ascontiguousarray(part.fields.astype("<u4")).view(np.uint8)
            bits = np.unpackbits(packed, axis=1, bitorder="little")
            for position, item in enumerate(ids):
                totals[position] += self._read_one(part.hash_seeds, bits, item)
        return totals

    def _read_one(self, seeds: IdArray, bits: np.ndarray, item: np.uint64) -> int:
        """Return the sum of the levels that reports with these bits give one id."""
        words = kernels.hash_words(seeds, np.full(len(seeds), item), hashing.BIN, 2 * self.columns)
        rows = (words.astype(np.uint64) * np.uint64(self.rows)) >> np.uint64(WORD_BITS)
        flat, first = bits.ravel(), np.arange(len(seeds), dtype=np.uint64) * bits.shape[1]
        total = 0
        for part, sign in enumerate((1, -1)):
            patterns = np.zeros(len(seeds), dtype=np.uint8)
            for column in range(self.columns):
                place = first + rows[:, part * self.columns + column]
                patterns |= flat[place + np.uint64(column * self.rows)] << np.uint8(column)
            counts = np.bincount(patterns, minlength=2**self.columns)
            total += sign * int(counts @ self._levels[0])
        return total

    @cached_property
    def shape(self) -> estimate.Shape:
        return estimate.Shape(self.rows, self.columns, self.level / ONE, self.flip / noise.FULL)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var: at a key nobody holds, or the largest possible."""
        k = self.plan.sparsity
        known = self.forecast.variance(k) if ids is None else self.forecast.worst_variance()
        return np.full(len(means), known)


def _ratio(flip: int, level: int) -> Fraction:
    """Return r^i·(1+f·(r-1)) · r^i/(1-f·(1-1/r)) for level i + f, where r = (1-flip)/flip.

    The factors bound how much likelier, and how much less likely, a level makes some bits: an item
    that changes from -1 to 1 leaves one part and enters the other.
    """
    odds = Fraction(noise.FULL - flip, flip)
    whole, part = divmod(level, ONE)
    rest = Fraction(part, ONE)
    return odds ** (2 * whole) * (1 + rest * (odds - 1)) / (1 - rest * (1 - 1 / odds))


def _highest_level(flip: int, epsilon: float) -> int:
    allowed, low, high = noise.growth_at_most(epsilon), 0, ONE * (estimate.MAX_COLUMNS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if _ratio(flip, middle) <= allowed:
            low = middle
        else:
            high = middle
    return low
