"""Sizes of a report (bits of a cell, blocks, maps) and what they cost in bias and ghosts.

The only loss is a cell whose speakers leave no freedom: it is 0, and is not counted. With R rows
asked for besides its own M an item loses the mean of 2^(rank-t), at most min(1, 2^(M+R-t)).

direct  one cell of t bits, rows hashed by the key of one of J maps: a loss of at most 2^-16, and
        ghosts below 2 % of the variance
table   keys are split into B blocks with a cell of b bits each. Fewest bytes win, then smallest
        tables, among sizes that keep four rules at the planned clients n:

        names    all keys of an indexed universe have codes of their own: B·2^(b-M) ≥ d
        bias     the loss is below 0.3 standard errors, and below 2^-8
        ghosts   one ghost is below 0.3 standard errors, and all add at most 2 % of variance, or an
                 eighth in an open universe
        memory   the tables, J·B·2^b integers, fit the memory

        Where none do, sizes that keep all rules except that of ghosts, with at least 16 maps.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from faintly.core import EventLevel, FloatArray, Hashing, Plan
from faintly.core.plan import MAX_BITS, MAX_MAPS
from faintly.errors import InvalidPlan
from faintly.mechanisms import bit_cells, ghosts
from faintly.mechanisms import parameters as require
from faintly.mechanisms.bit_cells import CellShape as Shape
from faintly.mechanisms.bit_cells import FixedSizes
from faintly.mechanisms.orthogonal import channel as channels
from faintly.mechanisms.orthogonal import rows
from faintly.mechanisms.orthogonal.channel import Channel
from faintly.mechanisms.request import Calibrated, Request
from faintly.primitives.fields import with_one_more
from faintly.primitives.noise import FULL

DIRECT_LOST = 2.0**-16  # of an item's weight
LEAST_LOST = 2.0**-8  # the same in a table, or where bytes are limited
DIRECT_MAPS = 64  # each is a small part of the whole, and still has many reports
MOST_WORDS = 256  # of all rows of a key: a hash counts them in one byte
MAX_CELL_BITS = 26  # 2^26 cells of one table are a quarter of a gigabyte
FULL_ROWS = 64  # more rows than bits: then only 0 is left; with 64 fewer nothing is lost
PARAMETERS = ("rows", "speak", "bits", "blocks", "constants")
LIMITS = {
    "rows": channels.MAX_ROWS,
    "levels": 2,
    "bits": 2**13,
    "blocks": bit_cells.MAX_BLOCKS,
    "maps": MAX_MAPS,
    "max_bytes": 2**20,
}


def calibrate(request: Request) -> Calibrated:
    """Return the thresholds and the sizes for a request, or raise with what would fit."""
    require.protects(request, EventLevel, "orthogonal")
    check_values(request.values)
    if request.family not in (None, "linear"):
        raise InvalidPlan("orthogonal has public maps in either decoding; use the linear family")
    count, levels, *rest = bit_cells.fixed_sizes(request, "orthogonal", LIMITS)
    fixed = FixedSizes(*rest)
    found = channels.best(request.budget.epsilon, request.share, count, levels)
    ways = [_direct] if request.decode == "direct" else [_best_table, _table_with_ghosts]
    for make, channel in itertools.product(ways, found):
        shape = make(request, channel, fixed)
        if shape is not None:
            return _calibrated(request, channel, shape)
    raise InvalidPlan(
        f"orthogonal has no report for sparsity {request.sparsity} in such sizes; use fewer rows, "
        "a smaller sparsity or more bytes, or the other decoding"
    )


def check_values(values: str) -> None:
    """Refuse values that may be negative."""
    if values == "signed":
        raise InvalidPlan(
            "orthogonal has no report for a negative value; plan for values set or nonnegative, "
            "or use retrieval"
        )


def _calibrated(request: Request, channel: Channel, shape: Shape) -> Calibrated:
    table = request.decode == "table"
    constants = rows.constants(channel.most, shape.bits - channel.most) if table else ()
    codes = code_bits(shape, channel, request.decode, request.universe.size)
    return Calibrated(
        parameters={
            "rows": channel.rows,
            "speak": list(channel.speak),
            "bits": shape.bits,
            "blocks": shape.blocks,
            "constants": list(constants),
        },
        hashing=Hashing(family="linear", bits=codes, maps=shape.maps),
    )


def _direct(request: Request, channel: Channel, fixed: FixedSizes) -> Shape | None:
    if (fixed.blocks or 1) != 1:
        raise InvalidPlan("blocks belong to tables; leave them out, or use --decode table")
    maps, most = fixed.maps or DIRECT_MAPS, 32 * (MOST_WORDS // channel.most)
    if fixed.bits:
        require.integer(fixed.bits, "bits", 1, most)
        return Shape(fixed.bits, 1, maps)
    loads = Loads(channel, request.sparsity, 1, most)
    limit = min(DIRECT_LOST, ghosts.hidden(channel.unheld, request.clients))
    exponent = ghost_exponent(channel, request.sparsity, 1, distinct=False) + math.log2(
        request.clients / (ghosts.TOGETHER * channel.unheld * maps)
    )
    bits = max(loads.least_bits(limit), math.ceil(exponent), 1)
    if fixed.max_bytes is not None:
        bits = min(bits, 8 * fixed.max_bytes - (maps.bit_length() - 1))
    fits = 1 <= bits <= most and loads.lost(bits) <= max(limit, LEAST_LOST)
    return Shape(bits, 1, maps) if fits else None


def _best_table(request: Request, channel: Channel, fixed: FixedSizes) -> Shape | None:
    """Return the sizes that keep all rules, if there are any."""
    strength = ghost_strength(channel, request.universe.size)
    least = max(ghosts.FEWEST, ghosts.least_maps(strength, request.clients, channel.unheld))
    share = ghosts.OPEN_TOGETHER if request.universe.size is None else ghosts.TOGETHER
    kept = []
    for small in _shapes(request, channel, fixed):
        exponent = ghost_exponent(
            channel, request.sparsity, small.blocks, distinct=request.universe.size is not None
        )
        exponent += math.log2(request.clients / (share * channel.unheld * small.maps))
        shape = replace(small, bits=max(small.bits, math.ceil(exponent)))
        if small.maps >= least and shape.bits == (fixed.bits or shape.bits):
            kept += [shape] if _fits(shape, request, channel, fixed) else []
    return bit_cells.smallest(kept, request.clients)


def _table_with_ghosts(request: Request, channel: Channel, fixed: FixedSizes) -> Shape | None:
    """Return the sizes of the fewest bytes that keep all rules except that of ghosts."""
    fit = (one for one in _shapes(request, channel, fixed) if _fits(one, request, channel, fixed))
    return min(fit, key=lambda one: (one.record_bytes, -one.maps), default=None)


def _shapes(request: Request, channel: Channel, fixed: FixedSizes) -> Iterator[Shape]:
    """Yield the fewest bits for every number of blocks and maps; fixed sizes stay."""
    if fixed.bits is not None:
        require.integer(fixed.bits, "bits", channel.most + 1, MAX_CELL_BITS)
    limit = min(LEAST_LOST, ghosts.hidden(channel.unheld, request.clients))
    most = request.sparsity * channel.most
    for blocks in [fixed.blocks] if fixed.blocks else _block_counts(most):
        bits = fixed.bits or _least_bits(request, channel, blocks, limit)
        for maps in [fixed.maps] if fixed.maps else bit_cells.doubled(ghosts.FEWEST, MAX_MAPS):
            yield Shape(bits, blocks, maps)


def _block_counts(most: int) -> Iterator[int]:
    """Yield 1, 2, 3, …, from 24 on in growing steps."""
    blocks = 1
    while blocks <= min(bit_cells.MAX_BLOCKS, 2 * most):
        yield blocks
        blocks += max(1, blocks // 12)


def _least_bits(request: Request, channel: Channel, blocks: int, limit: float) -> int:
    """Return the bits that name all keys and lose little of any item."""
    names = channel.most + bit_cells.naming_bits(request.universe.size, blocks)
    loads = Loads(channel, request.sparsity, blocks, MAX_CELL_BITS)
    return max(names, loads.least_bits(limit))


def _fits(shape: Shape, request: Request, channel: Channel, fixed: FixedSizes) -> bool:
    return (
        shape.bits <= min(MAX_CELL_BITS, channel.most + rows.MOST_FIELD_BITS)
        and shape.fits(request.memory, fixed.max_bytes)
        and 2 ** code_bits(shape, channel, "table", request.universe.size)
        >= (request.universe.size or 0)
    )


def code_bits(shape: Shape, channel: Channel, decode: str, size: int | None) -> int:
    """Return the bits of the codes that public maps make, before they are split in blocks.

    Hashed rows need no code; the plan then names the largest size.
    """
    if decode == "direct":
        return MAX_BITS
    return min(MAX_BITS, bit_cells.code_bits(shape.bits - channel.most, shape.blocks, size))


class Loads:
    """How many rows an item's k - 1 companions ask for in its block, and what the item loses."""

    def __init__(
        self, channel: Channel, items: int, blocks: int, most: int, value: float = 1.0
    ) -> None:
        """Compute the chances for items of one value and cells of at most `most` bits."""
        self.own, self.most = channel.most, most
        one = np.zeros(channel.most + 1)
        one[channel.rows : channel.most + 1] = channel.speak
        one *= value / (FULL * blocks)
        one[0] = 1 - value * channel.tau / blocks
        self.chances = _power(one, max(0, items - 1), most + FULL_ROWS)

    def lost(self, bits: int) -> float:
        """Return the chance that a cell of `bits` bits has no freedom left, if the item speaks."""
        rows = np.arange(len(self.chances)) + self.own
        some = rows < bits + FULL_ROWS
        zero = _zero_chances(min(bits, FULL_ROWS))
        # With many rows only the number still missing to the bits matters.
        near = np.maximum(0, rows[some] - bits + min(bits, FULL_ROWS))
        kept = float(self.chances[some] @ (1 - zero[near]))
        return max(0.0, 1 - kept)

    def least_bits(self, limit: float) -> int:
        """Return the fewest bits that lose at most `limit`, or most + 1 where none do."""
        tried = range(1, self.most + 1)
        return 1 + bisect_left(tried, x=True, key=lambda bits: self.lost(bits) <= limit)


def _power(law: FloatArray, times: int, size: int) -> FloatArray:
    """Return the law of a sum of `times` independent draws, cut off after `size` values."""
    total = np.ones(1)
    while times:
        if times & 1:
            total = np.convolve(total, law)[:size]
        law = np.convolve(law, law)[:size]
        times >>= 1
    return total


@lru_cache(maxsize=128)
def _zero_chances(bits: int) -> FloatArray:
    """Return the chance that a uniform vector orthogonal to random rows is 0, for 0, 1, … rows.

    It is the mean of 2^(rank-bits); one more row raises a rank r with chance 1 - 2^(r-bits).
    """
    ranks = np.zeros(bits + 1)
    ranks[0] = 1.0
    inside = np.exp2(np.arange(bits + 1) - float(bits))
    found = []
    for _ in range(bits + FULL_ROWS + 1):
        found.append(float(ranks @ inside))
        ranks = with_one_more(ranks, inside)
    return np.array(found)


def ghost_strength(channel: Channel, size: int | None) -> float:
    """Return the largest ghost: two held keys make one, or three where each has one row.

    A key of an open universe may share a code.
    """
    keys = 3 if channel.most == 1 else 2
    return 1.0 if size is None else min(1.0, channel.unheld * channel.tau ** (keys + 1))


def ghost_exponent(channel: Channel, items: int, blocks: int, *, distinct: bool) -> float:
    """Return log2 of the sum of squared ghosts in a key's block, if all hold the same k keys.

    It is V0·((1+r)^k - 1), r = 1/(V0·B), less k·r where no two keys share a code. Nothing is cut
    to k, so k counts as at least three.
    """
    items = max(3, items)
    each = 1 / (channel.unheld * blocks)
    growth = items * math.log1p(each)
    if growth > 30:  # from here on the other terms are negligible
        return growth / math.log(2) + math.log2(channel.unheld)
    own = items * each if distinct else 0.0
    return math.log2(max(1e-300, math.expm1(growth) - own)) + math.log2(channel.unheld)


def checked(plan: Plan) -> dict[str, Any]:
    """Return channel, sizes and constants of a plan, or refuse parameters that break a rule."""
    given = require.named(plan, PARAMETERS)
    require.protects(plan, EventLevel, "orthogonal")
    check_values(plan.values)
    if not plan.hashing.linear:
        raise InvalidPlan("orthogonal has public maps; its family is linear")
    channel = channels.check(given["rows"], given["speak"])
    table = plan.decode == "table"
    most = (
        min(MAX_CELL_BITS, channel.most + rows.MOST_FIELD_BITS)
        if table
        else 32 * (MOST_WORDS // channel.most)
    )
    shape = Shape(
        require.integer(given["bits"], "bits", channel.most + 1 if table else 1, most),
        require.integer(given["blocks"], "blocks", 1, bit_cells.MAX_BLOCKS if table else 1),
        plan.hashing.maps,
    )
    codes = code_bits(shape, channel, plan.decode, plan.universe.size)
    if plan.hashing.bits != codes:
        raise InvalidPlan(f"such cells need codes of {codes} bits, got {plan.hashing.bits}")
    count, elements = channel.most if table else 0, 2 ** max(0, shape.bits - channel.most)
    one_length = range(count, count + 1)
    constants = require.integers(given["constants"], "constants", one_length, 1, elements - 1)
    return {"channel": channel, "bits": shape.bits, "blocks": shape.blocks, "constants": constants}
