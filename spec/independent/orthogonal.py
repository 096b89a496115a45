"""Orthogonal in plain integers: orthogonal-v1.md, section by section."""

import itertools
import math
from collections.abc import Iterator, Sequence

from spec.independent.bins import POLYNOMIALS
from spec.independent.hashing import (
    FULL,
    Document,
    code,
    hash_word,
    map_of,
    map_words,
    met,
    packed,
    parity,
)
from spec.independent.retrieval import solution, words_of_cell

EQUATION = ord("a")
SMALL_POLYNOMIALS = {1: 0x3, 2: 0x7, 3: 0xB, 4: 0x13, 5: 0x25, 6: 0x43, 7: 0x83}


def most_rows(plan: Document) -> int:
    """Return M, the most rows that an item asks for."""
    most: int = plan["parameters"]["rows"] + len(plan["parameters"]["speak"]) - 1
    return most


def times(left: int, right: int, bits: int) -> int:
    """Return the product of two elements of GF(2^bits)."""
    product = 0
    for bit in reversed(range(bits)):
        product <<= 1
        if product >> bits:
            product ^= POLYNOMIALS.get(bits) or SMALL_POLYNOMIALS[bits]
        if right >> bit & 1:
            product ^= left
    return product


def place(plan: Document, item: int, j: int) -> tuple[int, list[int]]:
    """Return the block and the rows of an id in map j."""
    given, most = plan["parameters"], most_rows(plan)
    if plan["decode"] == "table":
        bits = given["bits"] - most
        number = code(plan, item, j)
        element = number // given["blocks"] % 2**bits
        leading = [1 << bits + at for at in range(most)]
        own = [times(constant, element, bits) for constant in given["constants"]]
        return number % given["blocks"], [a | b for a, b in zip(leading, own, strict=True)]
    keys = map_words(bytes.fromhex(plan["salt"]), j, b"fntlykey")
    key, size = keys[2] | keys[3] << 32, len(words_of_cell(given["bits"]))
    rows = []
    for at in range(most):
        words = [hash_word(key, item, EQUATION, at * size + word) for word in range(size)]
        rows.append(sum(w << 32 * n for n, w in enumerate(words)) % 2 ** given["bits"])
    return 0, rows


def asked(plan: Document, word: int) -> int:
    """Return how many rows an item asks for at this word."""
    ends = itertools.accumulate(plan["parameters"]["speak"])
    levels = [plan["parameters"]["rows"] + at for at, end in enumerate(ends) if word < end]
    return min(levels, default=0)


def randomize(
    plan: Document, items: Sequence[tuple[int, float]], seed: int, words: Iterator[int]
) -> list[int]:
    """Return the fields of one report of (id, value) pairs."""
    given, j = plan["parameters"], map_of(plan, seed)
    held = sorted((item, value) for item, value in items if value != 0)
    kept = met([value for _, value in held], words)
    many = [asked(plan, next(words)) for _ in held]
    cells: list[list[tuple[int, int]]] = [[] for _ in range(given["blocks"])]
    for (item, _), stays, count in zip(held, kept, many, strict=True):
        block, rows = place(plan, item, j)
        cells[block] += [(row, 0) for row in rows[: count if stays else 0]]
    fields = [j] * (plan["hashing"]["maps"] > 1)
    for equations in cells:
        widths = words_of_cell(given["bits"])
        drawn = [next(words) % 2**width for width in widths]
        cell = solution(equations, sum(word << 32 * at for at, word in enumerate(drawn)))
        fields += [cell >> 32 * at & 0xFFFFFFFF for at in range(len(widths))]
    return fields


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report, which has no seed."""
    maps = plan["hashing"]["maps"]
    widths = [maps.bit_length() - 1] * (maps > 1)
    widths += words_of_cell(plan["parameters"]["bits"]) * plan["parameters"]["blocks"]
    return packed(seed, 0, fields, widths)


def weights(plan: Document) -> tuple[int, int]:
    """Return w_1 and w_2, the smallest that lose less than a thousandth."""
    speak = plan["parameters"]["speak"]
    if len(speak) == 1:
        return 1, 0
    share = speak[1] / sum(speak)
    for first in range(1, 17):
        second = max(1, round(first * share))
        if variance(plan, first, second) <= 1.001 * variance(plan, 1, share):
            break
    return first, second


def shape(plan: Document, first: float, second: float) -> tuple[float, float]:
    """Return Σ w·f and Σ w² over the sets of rows."""
    rows, speak = plan["parameters"]["rows"], plan["parameters"]["speak"]
    low, high = 2**rows - 1, 2**rows * (len(speak) - 1)
    last = speak[-1] / FULL * high * second
    return low * first * sum(speak) / FULL + last, low * first**2 + high * second**2


def variance(plan: Document, first: float, second: float) -> float:
    """Return n·Var at a key that nobody holds."""
    mean, square = shape(plan, first, second)
    return square / mean**2


def reading(plan: Document, cell: int, rows: Sequence[int]) -> int:
    """Return what one cell reads at a key of these rows."""
    if cell == 0:
        return 0
    first, second = weights(plan)
    total = 0
    for u in range(1, 2 ** len(rows)):
        together = 0
        for at, row in enumerate(rows):
            together ^= row if u >> at & 1 else 0
        weight = first if u < 2 ** plan["parameters"]["rows"] else second
        total += weight * (1 - 2 * parity(cell & together))
    return total


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return the integer behind the estimate of an id, over (seed, fields) pairs."""
    many = plan["hashing"]["maps"] > 1
    size, answer = len(words_of_cell(plan["parameters"]["bits"])), 0
    for _, fields in reports:
        block, rows = place(plan, item, fields[0] if many else 0)
        own = fields[many + block * size : many + (block + 1) * size]
        answer += reading(plan, sum(word << 32 * at for at, word in enumerate(own)), rows)
    return answer


def estimate(plan: Document, integer: int, reports: int) -> tuple[float, float]:
    """Return the mean and its standard error."""
    first, second = weights(plan)
    rows, speak = plan["parameters"]["rows"], plan["parameters"]["speak"]
    scale = 1 / shape(plan, first, second)[0]
    mean = scale * integer / reports
    # Readings off the first rows, orthogonal to them alone, and to all; and how likely each is.
    low = 2**rows * (first - second)
    values = [-first, low - first, low - first + second * 2 ** most_rows(plan)]
    every, near = 2.0 ** -most_rows(plan), 2.0**-rows
    spoken = [0.0, speak[0] / 2 if len(speak) == 2 else 0.0]
    spoken.append(sum(speak) - spoken[1])
    silent = 1 - sum(speak) / FULL
    absent = (1 - near, near - every, every)
    chances = [silent * p + s / FULL for p, s in zip(absent, spoken, strict=True)]
    held = scale**2 * sum(p * v * v for p, v in zip(chances, values, strict=True)) - 1
    quiet, share = variance(plan, first, second), min(1.0, max(0.0, mean))
    square = share if plan["values"] == "set" else share**2
    return mean, math.sqrt((quiet + share * (held + 1 - quiet) - square) / reports)
