"""Sizes of a retrieval report (bits per cell, blocks, maps) and what they cost in bias.

direct  t = k + 16 bits, at most 2^-17 of the last item is lost
table   keys are split into B blocks with a cell of t bits each, in J public maps. Fewest bytes
        win, then smallest tables, among sizes that keep four rules at the planned clients n:

        names    all keys of an indexed universe have codes of their own: B·2^(t-1) ≥ d
        bias     the loss of items whose equations depend on others is below 0.3 standard errors,
                 and below 2^-8 of their weight
        ghosts   one ghost is below 0.3 standard errors, and all add at most 2 % of variance, or an
                 eighth in an open universe
        memory   the tables, J·B·2^(t-1) integers, fit the memory
"""

import math
from fractions import Fraction

import numpy as np

from faintly.core import EventLevel, FloatArray, Hashing, Plan
from faintly.core.plan import MAX_MAPS, OPEN_MAPS, SEED_BYTES
from faintly.errors import InvalidPlan
from faintly.mechanisms import bit_cells, ghosts
from faintly.mechanisms import parameters as require
from faintly.mechanisms.bit_cells import FixedSizes
from faintly.mechanisms.request import Calibrated, Request
from faintly.primitives import noise
from faintly.primitives.fields import with_one_more
from faintly.primitives.noise import FULL

DIRECT_SPARE = 16  # bits beyond k in direct mode: 2^-17 of an item's weight is lost at most
LEAST_SPARE = 8  # where bytes are limited: a loss of 2^-9 is negligible beside any useful noise
LEAST_LOST = 2.0**-8  # of an item's weight, however large the noise
MAX_DIRECT_BITS = 8192  # hash_words numbers words by one byte
MAX_CELL_BITS = 28  # 2^27 signed cells of one table are a gigabyte
MAX_CELLS = 2**32  # their numbers fit 32 bits
PARAMETERS = ("keep", "bits", "blocks")
LIMITS = {"bits": 2**31, "blocks": bit_cells.MAX_BLOCKS, "maps": 2**31, "max_bytes": 2**31}


class Shape(bit_cells.CellShape):
    """Sizes of one report; a cell's first bit is its sign."""

    __slots__ = ()

    @property
    def codes(self) -> int:
        """Return how many codes a block has in all maps together."""
        return self.maps * 2 ** (self.bits - 1)

    @property
    def cells(self) -> int:
        """Return the integers of all tables together."""
        return self.blocks * self.codes


def calibrate(request: Request) -> Calibrated:
    """Return the threshold and the sizes for a request, or raise with what would fit."""
    require.protects(request, EventLevel, "retrieval")
    family = request.family or ("linear" if request.decode == "table" else "prf")
    if family == "blake2s":
        raise InvalidPlan("retrieval is private for every hash; use the prf or the linear family")
    fixed = FixedSizes(*bit_cells.fixed_sizes(request, "retrieval", LIMITS))
    keep = noise.response_threshold(noise.exact(request.budget.epsilon))
    shape = _linear(request, fixed, keep) if family == "linear" else _direct(request, fixed)
    _check_shape(shape, request.sparsity, request.decode)
    _check_fit(shape, request, fixed.max_bytes)
    hashing = Hashing(family=family, bits=code_bits(shape, request.universe.size), maps=shape.maps)
    parameters = {"keep": keep, "bits": shape.bits, "blocks": shape.blocks}
    return Calibrated(parameters=parameters, hashing=hashing)


def _check_fit(shape: Shape, request: Request, max_bytes: int | None) -> None:
    if max_bytes is not None and shape.record_bytes > max_bytes:
        raise InvalidPlan(
            f"retrieval needs {shape.record_bytes} bytes for these sizes, "
            f"but max_bytes is {max_bytes}"
        )
    size = request.universe.size
    if size is not None and shape.maps and 2 ** code_bits(shape, size) < size:
        raise InvalidPlan(
            f"blocks {shape.blocks} and bits {shape.bits} cannot distinguish {size} keys; "
            f"use at least {1 + bit_cells.naming_bits(size, shape.blocks)} bits"
        )


def shrink(threshold: int) -> float:
    """Return θ = (2N-2^32)/2^32: the mean of an answer to the value 1."""
    return (2 * threshold - FULL) / FULL


def _direct(request: Request, fixed: FixedSizes) -> Shape:
    if (fixed.blocks or 1) != 1 or fixed.maps:
        raise InvalidPlan("blocks and maps belong to the linear family; leave them out")
    own = request.sparsity + DIRECT_SPARE
    if fixed.max_bytes is not None:
        # Fewer spare bits lose a little more of each item, at most what table mode allows.
        limit = 8 * (fixed.max_bytes - SEED_BYTES["prf"])
        own = max(min(own, limit), request.sparsity + LEAST_SPARE)
    return Shape(fixed.bits or own)


def _linear(request: Request, fixed: FixedSizes, keep: int) -> Shape:
    """Return the sizes that keep the rules, or those within the memory with the smallest ghosts.

    Sizes that the request fixes are kept even against the rules; intervals widen accordingly.
    """
    bits, blocks, maps, max_bytes = fixed
    if bits is not None:
        require.integer(bits, "bits", 2, MAX_CELL_BITS)
    rules = _Rules(request, shrink(keep))
    fewest = OPEN_MAPS if request.universe.size is None else 1
    most = maps or max(ghosts.FEWEST, rules.least_maps)
    kept, left = [], []
    for count in [blocks] if blocks else rules.blocks(bits):
        for each in [maps] if maps else bit_cells.doubled(fewest, MAX_MAPS):
            least = bits or rules.least_bits(count)
            small = Shape(least, count, each)
            large = Shape(bits or max(least, rules.ghost_bits(count, each)), count, each)
            if each >= most and _fits(large, request.memory, max_bytes):
                kept.append(large)
            elif _fits(small, request.memory, max_bytes) or (bits and maps and blocks):
                left.append(small)
    found = bit_cells.smallest(kept, request.clients)
    if found is not None:
        return found
    if not left:
        raise InvalidPlan(
            f"no tables within {request.memory / 2**20:,.0f} MiB "
            f"{f'and reports within {max_bytes} bytes ' if max_bytes else ''}"
            f"can serve sparsity {request.sparsity}; use --decode direct"
        )
    return max(left, key=lambda one: (min(one.maps, most), -one.record_bytes))


def _fits(shape: Shape, memory: int, max_bytes: int | None) -> bool:
    return shape.bits <= MAX_CELL_BITS and shape.fits(memory, max_bytes)


class _Rules:
    """The rules for the sizes of public maps, for one request."""

    def __init__(self, request: Request, shrink: float) -> None:
        self.items, self.clients = request.sparsity, request.clients
        self.size = request.universe.size
        self.shrink, self.variance = shrink, shrink**-2

    def blocks(self, bits: int | None) -> list[int]:
        """Return the numbers of blocks to try: those for which the bits suffice, or else 1."""
        counts = bit_cells.doubled(1, min(bit_cells.MAX_BLOCKS, 2 * self.items))
        return [one for one in counts if bits is None or bits >= self.least_bits(one)] or [1]

    @property
    def least_maps(self) -> int:
        strength = ghost_strength(self.shrink, self.size)
        return ghosts.least_maps(strength, self.clients, self.variance)

    def least_bits(self, blocks: int) -> int:
        """Return the bits that the rules of names and bias need."""
        limit = min(LEAST_LOST, ghosts.hidden(self.variance, self.clients))
        lost = math.ceil(_lost_exponent(self.items, blocks) - math.log2(limit))
        names = 1 + bit_cells.naming_bits(self.size, blocks)
        return max(names, lost, -(-self.items // blocks))

    def ghost_bits(self, blocks: int, maps: int) -> int:
        """Return the bits that the rule of ghosts needs."""
        energy = ghost_energy(self.items, blocks, self.shrink, self.size)
        codes = ghosts.least_codes(energy, self.clients, self.variance, self.size)
        return 1 + max(1, math.ceil(math.log2(max(1.0, codes)) - math.log2(maps)))


def _lost_exponent(items: int, blocks: int) -> float:
    """Return e such that an item among k loses at most 2^(e-t) of its weight, on average.

    With m items in its cell it loses (1 + 2 + … + 2^(m-1))/(m·2^t), and m is 1 + Binomial.
    """
    share = 1 / blocks
    growth, rest = items * math.log2(1 + share), 0.0
    if blocks > 1:
        rest = 2.0 ** (items * (math.log2(1 - share) - math.log2(1 + share)))
    return growth + math.log2(1 - rest) - math.log2(items * share)


def ghost_strength(shrink: float, size: int | None) -> float:
    """Return the largest ghost: of one key in an open universe, of three keys elsewhere."""
    return 1.0 if size is None else shrink**2


def ghost_energy(items: int, blocks: int, shrink: float, size: int | None) -> float:
    """Return the sum of squared ghosts in the block of a key, if everybody holds the same k keys.

    m of them, m odd, make C(k, m) ghosts of θ^(m-1) each, if all lie in the block. Where no two
    keys share a code m is at least three. Nothing is cut to k, so k counts as at least three.
    """
    items = max(3, items)
    x = shrink**2 / blocks
    # Beyond e^300 no table is large enough, and floats would overflow.
    growth = math.exp(min(300.0, items * math.log1p(x)))
    own = 0.0 if size is None else items * x
    return max(0.0, (growth - (1 - x) ** items) / 2 - own) / shrink**2


def code_bits(shape: Shape, size: int | None) -> int:
    """Return the bits of a code of the public maps, before it is split into block and cell."""
    return bit_cells.code_bits(shape.bits - 1, shape.blocks, size) if shape.maps else 0


def _check_shape(shape: Shape, sparsity: int, decode: str) -> None:
    bits, blocks = shape.bits, shape.blocks
    if not shape.maps:
        if bits > MAX_DIRECT_BITS:
            raise InvalidPlan(
                f"direct retrieval has at most {MAX_DIRECT_BITS} bits, got {bits}; "
                f"use sparsity {MAX_DIRECT_BITS - DIRECT_SPARE} or less"
            )
        require.integer(bits, "bits", 1, MAX_DIRECT_BITS)
        require.integer(blocks, "blocks", 1, 1)
    else:
        require.integer(bits, "bits", 2, MAX_CELL_BITS)
        require.integer(blocks, "blocks", 1, bit_cells.MAX_BLOCKS)
        require.integer(shape.maps, "maps", 1, MAX_MAPS)
    if bits * blocks < sparsity:
        raise InvalidPlan(
            f"{bits * blocks} bits cannot carry {sparsity} answers; "
            f"use at least {-(-sparsity // blocks)} bits per block"
        )
    if decode == "table" and shape.cells > MAX_CELLS:
        raise InvalidPlan(
            f"the tables would have {shape.cells} cells, at most {MAX_CELLS} are allowed; "
            "use fewer maps, blocks or bits, or --decode direct"
        )


def checked(plan: Plan) -> dict[str, int]:
    """Return the parameters of a plan, or refuse those that break a rule."""
    given = require.named(plan, PARAMETERS)
    require.protects(plan, EventLevel, "retrieval")
    if plan.hashing.family == "blake2s":
        raise InvalidPlan("retrieval needs the prf or the linear family")
    require.integer(given["keep"], "keep", FULL // 2 + 1, FULL - 1)
    shape = Shape(
        require.integer(given["bits"], "bits", 1, MAX_DIRECT_BITS),
        require.integer(given["blocks"], "blocks", 1, bit_cells.MAX_BLOCKS),
        plan.hashing.maps,
    )
    _check_shape(shape, plan.sparsity, plan.decode)
    codes = code_bits(shape, plan.universe.size)
    if plan.hashing.bits != codes:
        raise InvalidPlan(f"cells of {shape.bits} bits need codes of {codes} bits")
    return given


def loss(threshold: int) -> Fraction:
    """Return ln(N/(2^32-N)), rounded up: the loss of randomized response at this threshold."""
    return noise.log_at_least(Fraction(threshold, FULL - threshold))


def drop_chances(items: int, shape: Shape, distinct: bool) -> FloatArray:
    """Return, for each place in the order, the chance that the item there is dropped.

    The chance that one more row lies in the span of m rows of rank r, over random rows:

    prf     2^(r-t)
    linear  2^(r-t), and 0 for the first row, since every row begins with a one
            (2^(r-1)-m)/(2^(t-1)-m) where codes are distinct

    Args:
        items: items in one cell.
        shape: sizes of the report.
        distinct: whether no two keys share a code.
    """
    rank = np.arange(min(items, shape.bits) + 1)
    spanned = np.exp2(np.maximum(rank - shape.bits, -1074.0))
    if shape.maps:
        spanned[0] = 0.0
    chances = np.zeros(len(rank))
    chances[0] = 1.0
    out = np.zeros(items)
    for place in range(items):
        inside = spanned
        if shape.maps and distinct:
            inside = _distinct_spanned(rank, place, shape.bits)
        out[place] = (chances * inside).sum()
        chances = with_one_more(chances, inside)
    return out


def _distinct_spanned(rank: np.ndarray, place: int, bits: int) -> FloatArray:
    codes = 2.0 ** (bits - 1)
    if place == 0 or place >= codes:
        return np.full(len(rank), float(place > 0))
    inside: FloatArray = (np.exp2(rank - 1.0) - place) / (codes - place)
    return inside.clip(0.0, 1.0)


def relative_bias(sparsity: int, shape: Shape, distinct: bool) -> float:
    """Return the share of an item's weight that is lost among k items, over random maps.

    Each item has a uniform place in its cell's order, among 1 + Binomial(k-1, 1/B) items.
    """
    chances = drop_chances(sparsity, shape, distinct)
    by_load = np.cumsum(chances) / np.arange(1, sparsity + 1)
    share = 1 / shape.blocks
    if share == 1:
        return float(by_load[-1])
    others = np.arange(sparsity)
    ways = np.array([math.lgamma(n + 1) for n in range(sparsity + 1)])
    choose = ways[sparsity - 1] - ways[others] - ways[sparsity - 1 - others]
    weight = np.exp(choose + others * math.log(share) + others[::-1] * math.log1p(-share))
    return float(weight @ by_load)
