"""Retrieval in plain integers: retrieval-v1.md, section by section."""

import math
from collections.abc import Iterator, Sequence

from spec.independent.hashing import (
    FULL,
    SEED_BYTES,
    Document,
    code,
    hash_word,
    map_of,
    mask,
    met,
    packed,
    parity,
)

EQUATION, COIN, ORDER = (ord(letter) for letter in "aco")
Equation = tuple[int, int]  # a row, and the parity that its product with the report must have


def words_of_cell(bits: int) -> list[int]:
    """Return how many bits of a cell each of its words holds."""
    return [32] * (bits // 32) + [bits % 32] * (bits % 32 > 0)


def place(plan: Document, item: int, seed: int, j: int) -> tuple[int, int, int]:
    """Return the block, the row and the sign bit of an id; the linear family ignores the seed."""
    bits, blocks = plan["parameters"]["bits"], plan["parameters"]["blocks"]
    if plan["hashing"]["family"] == "linear":
        number = code(plan, item, j)
        inside = number // blocks % 2 ** (bits - 1)
        return number % blocks, 2 * inside + 1, (1 - mask(plan, item, j)) // 2
    row = 0
    for word in range(len(words_of_cell(bits))):
        row |= hash_word(seed, item, EQUATION, word) << 32 * word
    return 0, row % 2**bits, hash_word(seed, item, COIN, 0) & 1


def answers(values: Sequence[float], keep: int, words: Iterator[int]) -> list[int]:
    """Return 1 for each item that answers -1, in three rounds of words."""
    certain = met([abs(value) for value in values], words)
    coins = [next(words) & 1 for _ in values]
    flips = [next(words) >= keep for _ in values]
    return [
        (int(value < 0) if sure else coin) ^ flip
        for value, sure, coin, flip in zip(values, certain, coins, flips, strict=True)
    ]


def basis(equations: Sequence[Equation]) -> list[tuple[int, int, int]]:
    """Return (pivot, row, parity) of the equations that do not follow from those before."""
    kept: list[tuple[int, int, int]] = []
    for equation in equations:
        row, said = equation
        for pivot, known, known_said in kept:
            if row & pivot:
                row, said = row ^ known, said ^ known_said
        if row:
            kept.append((row & -row, row, said))
    return kept


def solution(equations: Sequence[Equation], free: int) -> int:
    """Return the cell that keeps the free bits except the pivots, which solve the equations."""
    cell = free
    for pivot, row, said in reversed(basis(equations)):
        if parity(row & cell) != said:
            cell ^= pivot
    return cell


def randomize(
    plan: Document, items: Sequence[tuple[int, float]], seed: int, words: Iterator[int]
) -> list[int]:
    """Return the fields of one report of (id, value) pairs."""
    given, j = plan["parameters"], map_of(plan, seed)
    held = sorted((item, value) for item, value in items if value != 0)
    said = answers([value for _, value in held], given["keep"], words)
    order = sorted(
        range(len(held)), key=lambda at: (hash_word(seed, held[at][0], ORDER, 0), held[at][0])
    )
    cells: list[list[Equation]] = [[] for _ in range(given["blocks"])]
    for at in order:
        block, row, sign = place(plan, held[at][0], seed, j)
        cells[block].append((row, said[at] ^ sign))
    fields = []
    for equations in cells:
        widths = words_of_cell(given["bits"])
        drawn = [next(words) % 2**width for width in widths]
        cell = solution(equations, sum(word << 32 * at for at, word in enumerate(drawn)))
        fields += [cell >> 32 * at & 0xFFFFFFFF for at in range(len(widths))]
    return fields + [j] * (plan["hashing"]["maps"] > 1)


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report: with public maps no seed is sent."""
    maps = plan["hashing"]["maps"]
    widths = words_of_cell(plan["parameters"]["bits"]) * plan["parameters"]["blocks"]
    widths += [maps.bit_length() - 1] * (maps > 1)
    return packed(seed, 0 if maps else SEED_BYTES["prf"], fields, widths)


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return the integer behind the estimate of an id, over (seed, fields) pairs."""
    maps, size = plan["hashing"]["maps"], len(words_of_cell(plan["parameters"]["bits"]))
    answer = 0
    for seed, fields in reports:
        block, row, sign = place(plan, item, seed, fields[-1] if maps > 1 else 0)
        cell = sum(
            word << 32 * at for at, word in enumerate(fields[block * size : (block + 1) * size])
        )
        answer += 1 - 2 * (parity(row & cell) ^ sign)
    return answer


def estimate(plan: Document, integer: int, reports: int) -> tuple[float, float]:
    """Return the mean and its standard error."""
    scale = FULL / (2 * plan["parameters"]["keep"] - FULL)
    mean = scale * integer / reports
    return mean, math.sqrt(max(scale**2 - mean**2, scale**2 - 1) / reports)
