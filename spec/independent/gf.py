"""Retrieval-gf, form span-safe, in plain integers: other-mechanisms-v1.md, sections 1 and 2."""

from collections.abc import Iterator, Sequence

from spec.independent.hashing import SEED_BYTES, SIGN, Document, hash_word, met, mix, packed

ORDER, SYMBOL = (ord(letter) for letter in "oy")
POLYNOMIALS = {1: 0x3, 2: 0x7, 3: 0xB, 4: 0x13, 5: 0x25, 6: 0x43, 7: 0x83, 8: 0x11D}
Kept = tuple[int, list[int], int]  # pivot, row (1 at the pivot), answer


def times(left: int, right: int, bits: int) -> int:
    """Return the product of two elements of GF(2^bits)."""
    answer = 0
    while right:
        answer ^= left * (right & 1)
        left, right = left << 1, right >> 1
        if left >> bits:
            left ^= POLYNOMIALS[bits]
    return answer


def inner(left: Sequence[int], right: Sequence[int], bits: int) -> int:
    """Return the inner product of two vectors over the field."""
    answer = 0
    for a, b in zip(left, right, strict=True):
        answer ^= times(a, b, bits)
    return answer


def symbols_of(words: Sequence[int], count: int, bits: int) -> list[int]:
    """Return symbols from words, as many from each as fit, lowest bits first."""
    found = [word >> bits * place & 2**bits - 1 for word in words for place in range(32 // bits)]
    return found[:count]


def channel(plan: Document) -> tuple[list[int], list[int]]:
    """Return the weight of each symbol for content +1, and the mirror of each."""
    given = plan["parameters"]
    weights: list[int] = []
    mirror: list[int] = []
    for pairs, plus, minus in zip(given["pairs"], given["plus"], given["minus"], strict=True):
        start = len(weights)
        weights += [plus] * pairs + [minus] * pairs
        mirror += [*range(start + pairs, start + 2 * pairs), *range(start, start + pairs)]
    return weights, mirror


def answer(plan: Document, content: int, word: int) -> int:
    """Return the symbol that an item answers."""
    weights, mirror = channel(plan)
    if content == 0:
        return word >> 32 - int(plan["parameters"]["symbol_bits"])
    drawn = next(symbol for symbol in range(len(weights)) if sum(weights[: symbol + 1]) > word)
    return drawn if content > 0 else mirror[drawn]


def basis(equations: Sequence[tuple[list[int], int]], bits: int) -> list[Kept]:
    """Return the equations that do not follow from those before, with 1 at their pivots."""
    kept: list[Kept] = []
    for given, asked in equations:
        row, said = list(given), asked
        for pivot, known, known_said in kept:
            factor = row[pivot]
            row = [a ^ times(factor, b, bits) for a, b in zip(row, known, strict=True)]
            said ^= times(factor, known_said, bits)
        if not any(row):
            continue
        first = next(place for place, symbol in enumerate(row) if symbol)
        inverse = next(each for each in range(2**bits) if times(each, row[first], bits) == 1)
        kept.append((first, [times(inverse, a, bits) for a in row], times(inverse, said, bits)))
    return kept


def randomize(
    plan: Document, items: Sequence[tuple[int, float]], seed: int, words: Iterator[int]
) -> list[int]:
    """Return the symbols of one report of (id, value) pairs."""
    count, bits = plan["parameters"]["symbols"], plan["parameters"]["symbol_bits"]
    length = -(-count // (32 // bits))
    held = sorted((item, value) for item, value in items if value != 0)
    certain = met([abs(value) for _, value in held], words)
    equations = []
    for (item, value), sure in zip(held, certain, strict=True):
        sign = 1 - 2 * (mix(seed, item, SIGN) & 1)
        content = sign * (-1 if value < 0 else 1) if sure else 0
        row = symbols_of([hash_word(seed, item, SYMBOL, w) for w in range(length)], count, bits)
        order = hash_word(seed, item, ORDER, 0), item
        equations.append((order, row, answer(plan, content, next(words))))
    report = symbols_of([next(words) for _ in range(length)], count, bits)
    taken = [(row, said) for _, row, said in sorted(equations)]
    for pivot, row, said in reversed(basis(taken, bits)):
        report[pivot] ^= said ^ inner(report, row, bits)
    return report


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report: the seed and the symbols."""
    widths = [plan["parameters"]["symbol_bits"]] * plan["parameters"]["symbols"]
    return packed(seed, SEED_BYTES[plan["hashing"]["family"]], fields, widths)


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return the integer behind the estimate of an id, over (seed, symbols) pairs."""
    given = plan["parameters"]
    count, bits = given["symbols"], given["symbol_bits"]
    length = -(-count // (32 // bits))
    reading: list[int] = []
    for pairs, each in zip(given["pairs"], given["readings"], strict=True):
        reading += [each] * pairs + [-each] * pairs
    answer = 0
    for seed, symbols in reports:
        row = symbols_of([hash_word(seed, item, SYMBOL, w) for w in range(length)], count, bits)
        answer += (1 - 2 * (mix(seed, item, SIGN) & 1)) * reading[inner(symbols, row, bits)]
    return answer
