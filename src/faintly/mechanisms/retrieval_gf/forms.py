"""The three forms of retrieval-gf: what each needs, chooses and proves.

form        field      symbols sent           seed      items    loss
span-safe   2^2..2^4   k + ⌈16/w⌉             5 bytes   any      ε, always
polynomial  2^8..2^16  k, or k+1 if seedless  0..5      up to k  ε, always
full        2^2..2^8   least t for δ          8 bytes   up to k  ε except with probability δ,
                                                                 and then still at most 2ε
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from faintly.core import EventLevel, Hashing, Plan, WordArray
from faintly.core.plan import SEED_BYTES
from faintly.core.report import fields_below
from faintly.errors import BoundDoesNotApply, InvalidPlan
from faintly.mechanisms import parameters as require
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.retrieval_gf.channel import Channel, full_channel, span_safe_channel
from faintly.primitives import galois, hashing
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL

FORMS = ("span-safe", "polynomial", "full")
FAMILY = {"span-safe": "prf", "polynomial": "prf", "full": "blake2s"}
CHOICES = {"span-safe": (2, 4), "polynomial": (2, 16), "full": (2, 8)}  # allowed symbol_bits
SPARE_BITS = 16  # in a span-safe report: at most one item in 2^16 is dropped
USEFUL_BITS = 8  # with fewer, points of a polynomial collide too often for a default
SHORT_SEED = 2  # bytes; 65,536 hash functions are enough for collisions to average out
WORTH = 1.01  # a larger span-safe field must gain 1 % to be the default
MAX_WORDS = 256  # hashed words for one item
MAX_COEFFICIENTS = 4096  # interpolation takes time quadratic in them
MAX_RECORD = 2**16 - 1  # bytes of one report
MAX_CLASSES = 8  # the search needs five
MAX_READING = 2**16
LISTS = {"pairs": (1, FULL), "plus": (1, FULL), "minus": (1, FULL), "readings": (0, MAX_READING)}
NAMES = ("form", "symbol_bits", "symbols", "seed_bytes", *LISTS)
THEOREMS = {
    "span-safe": "retrieval_gf.proof.md, Theorem 1 (a basis changes by at most one exchange)",
    "polynomial": "retrieval_gf.proof.md, Theorem 2 (distinct points are independent)",
    "full": "retrieval_gf.proof.md, Theorem 3 (independent rows; twice epsilon at the very most)",
}


class Shape(NamedTuple):
    """Sizes of one report."""

    symbol_bits: int
    symbols: int
    seed_bytes: int

    @property
    def record_bytes(self) -> int:
        """Return the bytes of a report."""
        return fields_below(2**self.symbol_bits, self.symbols, self.seed_bytes).record_bytes


def calibrate(request: Request) -> Calibrated:
    """Return the integers of the form that the options name; span-safe by default."""
    options = dict(request.options)
    form = options.pop("form", "span-safe")
    require.one_of(form, "form", FORMS)
    require.protects(request, EventLevel, "retrieval-gf")
    if request.decode != "direct":
        raise InvalidPlan("retrieval-gf is read report by report; use --decode direct")
    _check_family(form, request.family)
    require.no_tables(request, "retrieval-gf")
    forms = {"span-safe": _span_safe, "polynomial": _polynomial, "full": _full}
    shape = forms[form](request, options)
    require.none_left(options, f"retrieval-gf {form}")
    make = span_safe_channel if form == "span-safe" else full_channel
    channel = make(shape.symbol_bits, request.budget.epsilon)
    lists = {name: list(getattr(channel, name)) for name in LISTS}
    parameters = {"form": form, **shape._asdict(), **lists}
    return Calibrated(parameters=parameters, hashing=Hashing(family=FAMILY[form]))


def _check_family(form: str, family: str | None) -> None:
    if family in (None, FAMILY[form]):
        return
    if form == "full":
        raise BoundDoesNotApply(
            "the delta of the full form is a probability over the hash, so it needs keyed BLAKE2s "
            f"under a fresh seed (linear codes of dependent keys lose up to 2ε), not {family}; "
            "use --family blake2s"
        )
    raise InvalidPlan(f"retrieval-gf {form} hashes by the prf family, not {family}")


def _bits(options: dict[str, Any], form: str, default: int) -> int:
    least, most = CHOICES[form]
    return require.integer(options.pop("symbol_bits", default), "symbol_bits", least, most)


def _span_safe(request: Request, options: dict[str, Any]) -> Shape:
    bits = _bits(options, "span-safe", default_span_bits(request.budget.epsilon))
    symbols = options.pop("symbols", request.sparsity - (-SPARE_BITS // bits))
    return Shape(bits, _hashed_symbols(symbols, bits), SEED_BYTES["prf"])


def default_span_bits(epsilon: float) -> int:
    """Return the bits of the smallest field worth its size; two where none gains (ε up to 1.1)."""
    least, most = CHOICES["span-safe"]
    variance = {
        bits: span_safe_channel(bits, epsilon).absent_moment for bits in range(least, most + 1)
    }
    good = WORTH * min(variance.values())
    return min(bits for bits, value in variance.items() if value <= good)


def _full(request: Request, options: dict[str, Any]) -> Shape:
    if request.budget.delta == 0:
        raise BoundDoesNotApply(
            "the full form needs delta above 0 (and then loses at most 2ε with probability "
            "delta); give --delta, or use form span-safe or polynomial, which are pure"
        )
    delta = require.seeds_delta(request.budget.delta)
    bits = _bits(options, "full", 4)
    least = request.sparsity
    while failure(bits, request.sparsity, least) > delta:
        least += 1
    symbols = _hashed_symbols(options.pop("symbols", least), bits)
    if symbols < least:
        raise BoundDoesNotApply(
            f"{request.sparsity} items and delta {request.budget.delta:g} need {least} symbols "
            f"of {bits} bits, got {symbols}; use {least}"
        )
    return Shape(bits, symbols, SEED_BYTES["blake2s"])


def failure(bits: int, sparsity: int, symbols: int) -> Fraction:
    """Return q^(k-t)/(q-1), one seed at least: how often k random rows of t symbols depend."""
    size = Fraction(2**bits)
    return max(require.ONE_SEED, size ** (sparsity - symbols) / (size - 1))


def _hashed_symbols(symbols: Any, bits: int) -> int:
    most = MAX_WORDS * (32 // bits)
    if isinstance(symbols, int) and symbols > most:
        raise InvalidPlan(
            f"rows of GF({2**bits}) have at most {most} symbols, got {symbols}; use fewer "
            f"symbol_bits, form polynomial, or a sparsity of at most {most - SPARE_BITS}"
        )
    return require.integer(symbols, "symbols", 1, most)


def _polynomial(request: Request, options: dict[str, Any]) -> Shape:
    limit = require.integer(options.pop("max_bytes", MAX_RECORD), "max_bytes", 1, MAX_RECORD)
    fixed = [options.pop(name, None) for name in Shape._fields]
    shapes = [
        shape
        for shape in _polynomial_shapes(request, fixed[1])
        if all(value in (None, own) for value, own in zip(fixed, shape, strict=True))
    ]
    if not shapes:
        default = (USEFUL_BITS, max(2, request.sparsity + (fixed[2] == 0)), SEED_BYTES["prf"])
        pairs = zip(fixed, default, strict=True)
        shapes = [Shape(*(own if value is None else value for value, own in pairs))]
    for shape in shapes:
        _check_polynomial(shape, request.sparsity, request.universe.size)
        if shape.record_bytes <= limit:
            return shape
    least = min(shape.record_bytes for shape in shapes)
    raise InvalidPlan(
        f"a polynomial report of {request.sparsity} items needs {least} bytes, more than "
        f"{limit}; allow {least}, or use form span-safe"
    )


def _polynomial_shapes(request: Request, symbols: int | None) -> Iterator[Shape]:
    """Yield shapes, best first: a point for each key, else the largest field that fits."""
    size, most = request.universe.size, CHOICES["polynomial"][1]
    if size is not None and size <= 2**most:
        own = max(USEFUL_BITS, (size - 1).bit_length())
        # One spare coefficient keeps every key that is not held exactly uniform.
        yield Shape(own, max(2, request.sparsity + 1) if symbols is None else symbols, 0)
    sent = max(2, request.sparsity) if symbols is None else symbols
    for bits in range(most, USEFUL_BITS - 1, -1):
        for seed_bytes in range(SEED_BYTES["prf"], SHORT_SEED - 1, -1):
            yield Shape(bits, sent, seed_bytes)


def _check_polynomial(shape: Shape, sparsity: int, size: int | None) -> None:
    bits = require.integer(shape.symbol_bits, "symbol_bits", *CHOICES["polynomial"])
    seed_bytes = require.integer(shape.seed_bytes, "seed_bytes", 0, SEED_BYTES["prf"])
    symbols = require.integer(shape.symbols, "symbols", 2, MAX_COEFFICIENTS)
    if symbols < sparsity:
        raise BoundDoesNotApply(
            f"a polynomial of {symbols} coefficients cannot hold {sparsity} items; "
            f"use {sparsity} symbols"
        )
    if seed_bytes == 0 and (size is None or size > 2**bits):
        needs = "a universe that is not open" if size is None else f"{(size - 1).bit_length()} bits"
        raise InvalidPlan(
            f"without a seed every key needs its own point of the field ({needs}); "
            f"use seed_bytes {SHORT_SEED} or more"
        )


def checked(plan: Plan) -> dict[str, Any]:
    """Return form, sizes and channel of a plan, or refuse parameters that break a rule."""
    given = require.named(plan, NAMES)
    form = require.one_of(given["form"], "form", FORMS)
    require.protects(plan, EventLevel, "retrieval-gf")
    require.direct(plan, f"retrieval-gf {form}", FAMILY[form])
    if form == "polynomial":
        shape = Shape(*(given[name] for name in Shape._fields))
        _check_polynomial(shape, plan.sparsity, plan.universe.size)
    else:
        bits = require.integer(given["symbol_bits"], "symbol_bits", 1, 8)
        if _hashed_symbols(given["symbols"], bits) < plan.sparsity:
            raise InvalidPlan(
                f"{given['symbols']} symbols cannot hold {plan.sparsity} items; "
                f"use at least {plan.sparsity}"
            )
        if given["seed_bytes"] != plan.hashing.seed_bytes:
            raise InvalidPlan(f"{form} sends seeds of {plan.hashing.seed_bytes} bytes")
    if form == "full" and failure(given["symbol_bits"], plan.sparsity, given["symbols"]) >= 1:
        raise BoundDoesNotApply(
            f"{given['symbols']} symbols cannot hold {plan.sparsity} items independently"
        )
    channel, seed_size = _channel(given), given["seed_bytes"]
    return {"form": form, "symbols": given["symbols"], "seed_size": seed_size, "channel": channel}


def _channel(given: dict[str, Any]) -> Channel:
    many = range(1, MAX_CLASSES + 1)
    lists = {name: require.integers(given[name], name, many, *LISTS[name]) for name in LISTS}
    if len({len(values) for values in lists.values()}) != 1:
        raise InvalidPlan("pairs, plus, minus and readings must list the same classes")
    channel = Channel(bits=given["symbol_bits"], **lists)
    if 2 * sum(channel.pairs) != channel.order:
        raise InvalidPlan(f"pairs must add up to {channel.order // 2}, half of the symbols")
    if any(a < b for a, b in zip(channel.plus, channel.minus, strict=True)):
        raise InvalidPlan("plus must not be below minus in any class")
    total = sum(
        n * (a + b) for n, a, b in zip(channel.pairs, channel.plus, channel.minus, strict=True)
    )
    if total != FULL:
        raise InvalidPlan("the weights of all symbols must add up to 2^32")
    if channel.gain <= 0:
        raise InvalidPlan("at least one class must have plus above minus and a reading above 0")
    return channel


def conditions(form: str, sparsity: int, epsilon: Fraction) -> tuple[str, ...]:
    """Return what a form's theorem needs of clients, in words."""
    if form == "span-safe":
        return ()
    if form == "polynomial":
        return (require.few_items(sparsity),)
    twice = f"{2 * float(epsilon):.6g}"
    return (
        *require.SEED_CONDITIONS,
        require.few_items(sparsity),
        f"where it fails, a cap of twice epsilon ({twice}) on the loss is acceptable",
    )


def payload(clients: int, symbols: int, bits: int, rng: Rng) -> WordArray:
    """Return uniform words (clients, words), each with as many of the symbols as fit."""
    words = hashing.symbol_words(symbols, bits)
    return rng.words(clients * words).reshape(clients, words)


assert CHOICES["polynomial"][1] == galois.MAX_BITS
