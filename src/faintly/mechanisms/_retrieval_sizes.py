"""How large a retrieval report is: bits per cell, blocks, maps; and what that costs in bias.

An item is lost when its equation follows from those before it. The chance of that is what
the sizes are chosen by: with m items in a cell of t bits it is at most 2^(m-1-t).

direct  t = k + 16 bits, at most 2^-17 of the last item is lost
table   one cell of at least k + 8 bits for k up to 14; above, the keys are split into blocks
        of 5.5 items on average, one cell of 18 bits each
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from faintly.core import EventLevel, FloatArray, Hashing, Plan
from faintly.core.plan import MAX_BITS, MAX_MAPS, OPEN_MAPS, SEED_BYTES
from faintly.errors import BoundDoesNotApply, InvalidPlan, UnsupportedUnit
from faintly.mechanisms import parameters as need
from faintly.mechanisms.base import Calibrated, Request
from faintly.primitives import noise
from faintly.primitives.noise import FULL

DIRECT_SPARE = 16  # bits beyond k in direct mode: 2^-17 of an item's weight is lost at most
LEAST_SPARE = 8  # bits beyond the load in table mode: 2^-9, hidden by any noise of interest
MAX_DIRECT_BITS = 8192  # hash_words numbers its words by one byte
MAX_CELL_BITS = 28  # 2^27 signed cells of one table are a gigabyte
MAX_CELLS = 2**27
FULL_CELLS = 2**21  # 16 MiB of tables: more maps are free up to here
ONE_BLOCK_ITEMS = 14  # k + 8 bits and two for the map still fit three bytes
ONE_BLOCK_BITS = 24
BLOCK_BITS, WIDE_BLOCK_BITS = 18, 20  # what a block gets, and what it gets if bytes allow
OPEN_BITS = 20  # four maps of 2^19 codes: 22 bits, three bytes
MOST_MAPS = 16  # more would not thin out ghosts any further than the noise shows
MAX_BLOCKS = 4096
PARAMETERS = ("keep", "bits", "blocks")
OPTIONS = ("bits", "blocks", "maps", "max_bytes")


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one report: bits of a cell, cells, and public maps (0 in the prf family)."""

    bits: int
    blocks: int = 1
    maps: int = 0

    @property
    def seed_bytes(self) -> int:
        """Return the bytes of seed that are sent: none where the maps are public."""
        return 0 if self.maps else SEED_BYTES["prf"]

    @property
    def record_bytes(self) -> int:
        """Return the bytes of a report."""
        map_bits = max(1, self.maps).bit_length() - 1
        return self.seed_bytes + (self.bits * self.blocks + map_bits + 7) // 8

    @property
    def cells(self) -> int:
        """Return the integers of all tables together; a cell's first bit is its sign."""
        return self.maps * self.blocks * 2 ** (self.bits - 1)


def calibrate(request: Request) -> Calibrated:
    """Return the threshold and the sizes that suit a request, or say what would."""
    if not isinstance(request.unit, EventLevel):
        raise UnsupportedUnit(f"retrieval protects event, not {request.unit}")
    family = request.family or ("linear" if request.decode == "table" else "prf")
    if family == "blake2s":
        raise InvalidPlan("retrieval is private for every hash; use the prf or the linear family")
    given = dict(request.options)
    wanted: dict[str, Any] = {
        "bits": given.pop("bits", None) or request.bits,
        "maps": given.pop("maps", None) or request.maps,
        "blocks": given.pop("blocks", None),
        "max_bytes": given.pop("max_bytes", None),
    }
    need.no_more(given, "retrieval", ", ".join(OPTIONS))
    for name, value in wanted.items():
        if value is not None:
            need.integer(value, name, 1, 2**31)
    make = _linear if family == "linear" else _direct
    shape = make(request, **wanted)
    _check_shape(shape, request.sparsity, request.decode)
    _check_fit(shape, request, wanted["max_bytes"])
    hashing = Hashing(family=family, bits=code_bits(shape, request.universe.size), maps=shape.maps)
    parameters = {"keep": keep(request), "bits": shape.bits, "blocks": shape.blocks}
    return Calibrated(parameters=parameters, hashing=hashing)


def _check_fit(shape: Shape, request: Request, max_bytes: int | None) -> None:
    if max_bytes is not None and shape.record_bytes > max_bytes:
        raise InvalidPlan(
            f"retrieval needs {shape.record_bytes} bytes for these sizes, "
            f"but max_bytes is {max_bytes}"
        )
    size = request.universe.size
    if size is not None and shape.maps and 2 ** code_bits(shape, size) < size:
        codes = max(1, (size - 1).bit_length())
        raise InvalidPlan(
            f"blocks {shape.blocks} and bits {shape.bits} cannot tell {size} keys apart; "
            f"use at least {_naming_bits(codes, shape.blocks)} bits"
        )


def keep(request: Request) -> int:
    """Return N = ⌊2^32·e^ε/(1+e^ε)⌋: how many words of 2^32 leave an answer as it is."""
    shrunk = noise.exp_at_least(-noise.exact(request.budget.epsilon))
    threshold = math.floor(FULL / (1 + shrunk))
    if threshold <= FULL // 2:
        raise BoundDoesNotApply(
            "epsilon is too small for 32-bit thresholds: every answer would be a fair coin; "
            "use at least 0.000000001"
        )
    return threshold


def _direct(
    request: Request,
    bits: int | None,
    maps: int | None,
    blocks: int | None,
    max_bytes: int | None,
) -> Shape:
    if (blocks or 1) != 1 or maps:
        raise InvalidPlan("blocks and maps belong to the linear family; leave them out")
    own = request.sparsity + DIRECT_SPARE
    if max_bytes is not None:
        # Fewer spare bits lose a little more of an item, down to what table mode allows.
        room = 8 * (max_bytes - SEED_BYTES["prf"])
        own = max(min(own, room), request.sparsity + LEAST_SPARE)
    return Shape(bits or own)


def _linear(
    request: Request,
    bits: int | None,
    maps: int | None,
    blocks: int | None,
    max_bytes: int | None,
) -> Shape:
    k, size = request.sparsity, request.universe.size
    if blocks is None:
        blocks = 1 if k <= ONE_BLOCK_ITEMS else -(-2 * k // 11)
    need.integer(blocks, "blocks", 1, MAX_BLOCKS)
    least_maps = maps or (OPEN_MAPS if size is None else 1)
    if bits is None:
        least = least_bits(k, blocks, size)
        usual = BLOCK_BITS if blocks > 1 else (OPEN_BITS if size is None else 1)
        bits = max(least, usual)
        if max_bytes is not None:
            room = (8 * max_bytes - least_maps.bit_length() + 1) // blocks
            most = max(bits, WIDE_BLOCK_BITS if blocks > 1 else 1)
            bits = max(least, min(most, room))
    shape = Shape(bits, blocks, least_maps)
    if maps is not None:
        return shape
    usual_bytes = ONE_BLOCK_BITS // 8 if blocks == 1 else 1
    limit = max_bytes or max(usual_bytes, shape.record_bytes)
    while shape.maps < MOST_MAPS:
        more = Shape(bits, blocks, 2 * shape.maps)
        if more.record_bytes > limit or more.cells > FULL_CELLS:
            break
        shape = more
    return shape


def least_bits(sparsity: int, blocks: int, size: int | None) -> int:
    """Return the bits a cell needs to name its keys and to keep its items apart."""
    # The mean of 2^(load-1) over random blocks is (1+1/B)^(k-1).
    load = (sparsity - 1) * math.log2(1 + 1 / blocks)
    needed = 1 + LEAST_SPARE + math.ceil(load - 1e-9)
    if size is None:
        return needed
    codes = max(1, (size - 1).bit_length())
    return max(needed, _naming_bits(codes, blocks))


def _naming_bits(codes: int, blocks: int) -> int:
    """Return the bits of a cell, its sign included, that tell 2^codes keys apart."""
    return max(2, 1 + codes - (blocks.bit_length() - 1))


def code_bits(shape: Shape, size: int | None) -> int:
    """Return the bits of the codes that the public maps make, before they are split in blocks."""
    if not shape.maps:
        return 0
    if shape.blocks == 1:
        return shape.bits - 1
    # Keys never merge if all codes fit: 2^D' ≤ B·2^(t-1). An open universe is folded anyway.
    return MAX_BITS if size is None else shape.bits - 1 + shape.blocks.bit_length() - 1


def _check_shape(shape: Shape, sparsity: int, decode: str) -> None:
    bits, blocks = shape.bits, shape.blocks
    if not shape.maps:
        if bits > MAX_DIRECT_BITS:
            raise InvalidPlan(
                f"direct retrieval has at most {MAX_DIRECT_BITS} bits, got {bits}; "
                f"use sparsity {MAX_DIRECT_BITS - DIRECT_SPARE} or less"
            )
        need.integer(bits, "bits", 1, MAX_DIRECT_BITS)
        need.integer(blocks, "blocks", 1, 1)
    else:
        need.integer(bits, "bits", 2, MAX_CELL_BITS)
        need.integer(blocks, "blocks", 1, MAX_BLOCKS)
        need.integer(shape.maps, "maps", 1, MAX_MAPS)
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


def check(plan: Plan) -> Shape:
    """Return the sizes of a plan, or refuse what this mechanism cannot honour."""
    given = need.named(plan, PARAMETERS)
    if not isinstance(plan.unit, EventLevel):
        raise InvalidPlan(f"retrieval protects event, not {plan.unit}")
    if plan.hashing.family == "blake2s":
        raise InvalidPlan("retrieval has the prf and the linear family")
    need.integer(given["keep"], "keep", FULL // 2 + 1, FULL - 1)
    shape = Shape(
        need.integer(given["bits"], "bits", 1, MAX_DIRECT_BITS),
        need.integer(given["blocks"], "blocks", 1, MAX_BLOCKS),
        plan.hashing.maps,
    )
    _check_shape(shape, plan.sparsity, plan.decode)
    codes = code_bits(shape, plan.universe.size)
    if plan.hashing.bits != codes:
        raise InvalidPlan(f"cells of {shape.bits} bits need codes of {codes} bits")
    return shape


def loss(threshold: int) -> float:
    """Return ln(N/(2^32-N)): the loss that randomized response with this threshold has."""
    return float(noise.log_at_least(Fraction(threshold, FULL - threshold)))


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
        dropped = chances * inside
        out[place] = dropped.sum()
        kept = chances - dropped
        chances = dropped
        chances[1:] += kept[:-1]
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
