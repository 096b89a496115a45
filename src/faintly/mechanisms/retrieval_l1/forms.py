"""The three forms of retrieval-l1: what each needs, chooses and proves.

form        field           symbols sent     seed      n·Var at ε = 1         holds
binary      2               k + 40           8 bytes   (1+L)²                 with 1-δ over seeds
ternary     3 to 17         k + 40 bits' w.  8 bytes   2γ²/((γ+1)(γ-1)²)      with 1-δ over seeds
polynomial  2^w, w to 16    k + 1            none      the same, but for 2^w  always

γ = 1 + ε/L. All of them refuse vectors of more than k items.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from faintly.core import Hashing, Plan, WithinL1
from faintly.errors import BoundDoesNotApply, InvalidPlan
from faintly.mechanisms import parameters as require
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.retrieval_l1.channel import Channel, best_marked
from faintly.primitives import galois, noise
from faintly.primitives.fields import ORDERS, with_one_more
from faintly.primitives.hashing import word_digits
from faintly.primitives.noise import FULL

FORMS = ("binary", "ternary", "polynomial")
FAMILY = {"binary": "blake2s", "ternary": "blake2s", "polynomial": "prf"}  # the last one unused
NAMES = ("form", "field", "marked", "plus", "minus", "symbols")
TERNARY_FIELDS = tuple(order for order in ORDERS if order > 2)
WORTH = Fraction(101, 100)  # a larger field must gain 1 % to be taken
MAX_SYMBOLS = 4000  # so that sums of products fit 16-bit lanes in every field
MAX_BINARY_SYMBOLS = 8192  # 1 KiB of report
SPARE_BITS = 40  # rows are then dependent less than once in 10^11 reports
USEFUL_BITS = 8  # enough for a nearly optimal fraction of marked symbols
LEAST_DELTA = "0.00001"
THEOREMS = {
    "binary": "retrieval_l1.proof.md, Theorem 1 (independent rows, linear answers)",
    "ternary": "retrieval_l1.proof.md, Theorem 1 (independent rows, linear answers)",
    "polynomial": "retrieval_l1.proof.md, Theorem 2 (every key its own point)",
}


def calibrate(request: Request) -> Calibrated:
    """Return the integers of the form that the options name.

    Without a name it is binary, or polynomial where the budget has no delta.
    """
    options = dict(request.options)
    form = options.pop("form", None) or ("binary" if request.budget.delta else "polynomial")
    require.one_of(form, "form", FORMS)
    require.protects(request, WithinL1, "retrieval-l1")
    _check_hash(form, request.decode, request.family)
    require.no_tables(request, "retrieval-l1")
    slope = noise.exact(request.budget.epsilon) / noise.exact(require.l1_distance(request.unit))
    if form == "polynomial":
        channel, symbols = _polynomial(request, slope, options)
    else:
        channel, symbols = _hashed(request, form, slope, options)
    require.none_left(options, f"retrieval-l1 {form}")
    weights = {name: getattr(channel, name) for name in ("marked", "plus", "minus")}
    parameters = {"form": form, "field": channel.order, **weights, "symbols": symbols}
    return Calibrated(parameters=parameters, hashing=Hashing(family=FAMILY[form]))


def _check_hash(form: str, decode: str, family: str | None) -> None:
    if decode != "direct":
        raise BoundDoesNotApply(
            "retrieval-l1 needs rows that are independent but for a probability delta, and public "
            "maps are not: there values that move from 0 to 0.001 evict ones, a loss of ln 2 each "
            "at L = 1, epsilon 1 (2.08 for three); use --decode direct"
        )
    if family in (None, FAMILY[form]):
        return
    if form == "polynomial":
        raise InvalidPlan(f"the polynomial form hashes nothing; leave the family out, not {family}")
    raise BoundDoesNotApply(
        "the delta of retrieval-l1 is a probability over the hash, so it needs keyed BLAKE2s "
        f"under a fresh seed, not {family}; use --family blake2s"
    )


def _hashed(
    request: Request, form: str, slope: Fraction, options: dict[str, Any]
) -> tuple[Channel, int]:
    """Return the channel, and the number of symbols: forty spare bits, or more for delta."""
    if request.budget.delta == 0:
        raise BoundDoesNotApply(
            f"the {form} form holds except with a probability over seeds, so it needs delta above "
            f"0; give --delta (for example {LEAST_DELTA}), or use form polynomial, which is pure"
        )
    field = options.pop("field", None)
    if form == "binary":
        if field not in (None, 2):
            raise InvalidPlan(f"the binary form has the field of 2 elements, got {field}")
        channel = best_marked(2, slope)
    else:
        channel = _ternary_channel(field, slope)
    _check_gain(channel)
    k, delta = request.sparsity, require.seeds_delta(request.budget.delta)
    symbols = k
    while failure(channel.order, k, symbols) > delta:
        symbols += 1
    spare = math.ceil(SPARE_BITS / math.log2(channel.order))
    sent = options.pop("symbols", max(symbols, k + spare))
    if isinstance(sent, int) and sent < symbols:
        raise BoundDoesNotApply(
            f"{sent} symbols for {k} items are dependent too often for delta "
            f"{request.budget.delta:g}; use at least {symbols}"
        )
    return channel, _check_symbols(sent, channel.order, k)


def _ternary_channel(field: Any, slope: Fraction) -> Channel:
    if field is not None:
        return best_marked(require.one_of(field, "field", TERNARY_FIELDS), slope)
    made = [best_marked(order, slope) for order in TERNARY_FIELDS]
    least = min(_moment(channel) for channel in made)
    if least * WORTH > _moment(best_marked(2, slope)):
        raise InvalidPlan(
            "the ternary form gains nothing where the distance is more than about ten times "
            "epsilon; use form binary"
        )
    return next(channel for channel in made if _moment(channel) <= least * WORTH)


def _moment(channel: Channel) -> float:
    return channel.absent_moment if channel.gain > 0 else float("inf")


def _polynomial(request: Request, slope: Fraction, options: dict[str, Any]) -> tuple[Channel, int]:
    size = request.universe.size
    if size is None or size > 2**galois.MAX_BITS:
        raise BoundDoesNotApply(
            f"the polynomial form gives every key its own point, so it needs at most "
            f"{2**galois.MAX_BITS} keys; give --delta (for example {LEAST_DELTA}) for form binary"
        )
    own = point_bits(size)
    bits = options.pop("symbol_bits", max(own, USEFUL_BITS))
    require.integer(bits, "symbol_bits", own, galois.MAX_BITS)
    channel = best_marked(2**bits, slope)
    _check_gain(channel)
    # One spare coefficient keeps every key that is not held exactly uniform.
    symbols = min(request.sparsity + 1, 2**bits)
    return channel, _check_symbols(symbols, 2**bits, request.sparsity)


def point_bits(size: int) -> int:
    """Return the bits that number `size` keys."""
    return max(1, (size - 1).bit_length())


def _check_gain(channel: Channel) -> None:
    if channel.gain <= 0:
        raise BoundDoesNotApply(
            "epsilon over the distance is too small for 32-bit thresholds: every answer would be "
            "uniform; use at least 0.00000001 for each unit of distance"
        )


def _check_symbols(symbols: Any, order: int, sparsity: int) -> int:
    most = MAX_BINARY_SYMBOLS if order == 2 else MAX_SYMBOLS
    if isinstance(symbols, int) and symbols > most:
        nearest = max(1, most - (symbols - sparsity))
        raise InvalidPlan(
            f"a report has at most {most} symbols, {symbols} are needed; "
            f"use sparsity {nearest} or less"
        )
    return require.integer(symbols, "symbols", 1, most)


def failure(order: int, sparsity: int, symbols: int) -> Fraction:
    """Return a bound on how often, of two vectors of k items, one has dependent rows.

    2·(q^k - 1)/((q-1)·q^t), times what hashing may add; one seed at least.
    """
    spanned = Fraction(order**sparsity - 1, (order - 1) * order**symbols)
    return max(require.ONE_SEED, 2 * spanned * hash_excess(order, symbols))


def hash_excess(order: int, symbols: int) -> Fraction:
    """Return how many times likelier than q^-t a hashed row can be: 1 for powers of two.

    A word of 2^32 values is mapped to m digits; no string of digits gets more than
    2^32/q^m + 1 of the values.
    """
    if order & (order - 1) == 0:
        return Fraction(1)
    each = word_digits(order)
    full, rest = divmod(symbols, each)
    return (1 + Fraction(order**each, FULL)) ** full * (1 + Fraction(order**rest, FULL))


def drop_chance(order: int, sparsity: int, symbols: int) -> float:
    """Return the chance that the last of k rows is in the span of the others, and is dropped."""
    inside = float(order) ** np.maximum(np.arange(min(sparsity, symbols) + 1) - symbols, -250.0)
    ranks = np.zeros(len(inside))
    ranks[0] = 1.0
    for _ in range(sparsity - 1):
        ranks = with_one_more(ranks, inside)
    return float(ranks @ inside) * float(hash_excess(order, symbols))


def checked(plan: Plan) -> dict[str, Any]:
    """Return form, channel and symbols of a plan, or refuse parameters that break a rule."""
    given = require.named(plan, NAMES)
    form = require.one_of(given["form"], "form", FORMS)
    require.protects(plan, WithinL1, "retrieval-l1")
    require.direct(plan, f"retrieval-l1 {form}", FAMILY[form])
    order = _check_field(form, given["field"], plan.universe.size)
    marked = require.integer(given["marked"], "marked", 1, order // 2)
    plus = require.integer(given["plus"], "plus", 1, FULL - 1)
    minus = require.integer(given["minus"], "minus", 1, FULL - plus)
    channel = Channel(order=order, marked=marked, plus=plus, minus=minus)
    if (channel.silent == 0) != (plus + minus == FULL) or plus <= minus:
        raise InvalidPlan("plus must exceed minus, and the silent symbols get what they leave")
    symbols = _check_symbols(given["symbols"], order, plan.sparsity)
    if symbols < min(plan.sparsity, order if form == "polynomial" else plan.sparsity):
        raise BoundDoesNotApply(
            f"{symbols} symbols cannot hold {plan.sparsity} items; use at least {plan.sparsity}"
        )
    return {"form": form, "channel": channel, "symbols": symbols}


def _check_field(form: str, field: Any, size: int | None) -> int:
    orders = {"binary": (2,), "ternary": TERNARY_FIELDS}.get(form)
    if orders is None:
        orders = tuple(2**bits for bits in range(1, galois.MAX_BITS + 1))
        if size is None or (isinstance(field, int) and size > field):
            raise InvalidPlan("the polynomial form needs a point of the field for every key")
    if isinstance(field, bool) or field not in orders:
        raise InvalidPlan(f"the {form} form does not have a field of {field!r} elements")
    return int(field)


def conditions(form: str, sparsity: int) -> tuple[str, ...]:
    """Return what a form's theorem needs of clients, in words."""
    hashed = () if form == "polynomial" else require.SEED_CONDITIONS
    return (*hashed, require.few_items(sparsity))
