"""Signed binning in plain integers: randomize-v1.md, section by section."""

import math
from collections.abc import Iterator, Sequence

from spec.independent.hashing import (
    BIN,
    MATRIX,
    ROW,
    SEED_BYTES,
    SIGN,
    Document,
    below,
    code,
    map_of,
    mask,
    met,
    mix,
    mix_blake2s,
    packed,
    parity,
)


def row_and_matrix(plan: Document, seed: int) -> tuple[int, list[int]]:
    """Return r and the rows of A that a seed draws."""
    low = 2 ** plan["hashing"]["bits"] - 1
    width = plan["parameters"]["bins"].bit_length() - 1
    return mix(seed, 0, ROW) & low, [mix(seed, bit, MATRIX) & low for bit in range(width)]


def place(plan: Document, seed: int, item: int) -> tuple[int, int]:
    """Return the bin and the sign of an id under a seed."""
    bins, family = plan["parameters"]["bins"], plan["hashing"]["family"]
    if family != "linear":
        hashed = mix if family == "prf" else mix_blake2s
        where = below(hashed(seed, item, BIN), bins) if bins > 1 else 0
        return where, 1 - 2 * (hashed(seed, item, SIGN) & 1)
    j = map_of(plan, seed)
    value = code(plan, item, j)
    row, matrix = row_and_matrix(plan, seed)
    where = sum(parity(line & value) << bit for bit, line in enumerate(matrix))
    return where, (1 - 2 * parity(row & value)) * mask(plan, item, j)


def rounded(values: Sequence[float], steps: int, words: Iterator[int]) -> list[int]:
    """Return the values of one vector in grid steps; tie words follow the first words."""
    scaled = [abs(value) * steps for value in values]
    floors = [math.floor(number) for number in scaled]
    ups = met([number - low for number, low in zip(scaled, floors, strict=True)], words)
    sizes = [low + up for low, up in zip(floors, ups, strict=True)]
    return [-size if value < 0 else size for size, value in zip(sizes, values, strict=True)]


def noise(thresholds: Sequence[int], bins: int, words: Iterator[int]) -> list[int]:
    """Return one noise value per bin: a difference of two geometric variables."""
    *digits, going_on = thresholds
    drawn = [0] * (2 * bins)
    for digit, threshold in enumerate(digits):
        for position in range(2 * bins):
            drawn[position] += (next(words) < threshold) << digit
    alive = list(range(2 * bins))
    while alive:
        alive = [position for position in alive if next(words) < going_on]
        for position in alive:
            drawn[position] += 1 << len(digits)
    return [drawn[position] - drawn[bins + position] for position in range(bins)]


def randomize(
    plan: Document, items: Sequence[tuple[int, float]], seed: int, words: Iterator[int]
) -> list[int]:
    """Return the fields of one report of (id, value) pairs, by signed binning."""
    given = plan["parameters"]
    held = sorted((item, value) for item, value in items if value != 0)
    steps = rounded([value for _, value in held], given["steps"], words)
    raw = [0] * given["bins"]
    for (item, _), count in zip(held, steps, strict=True):
        where, sign = place(plan, seed, item)
        raw[where] += sign * count
    if given["clip"] is not None:
        raw = [max(-given["clip"], min(given["clip"], value)) for value in raw]
    added = noise(given["noise"], given["bins"], words)
    reach = given["range"]
    return [
        max(-reach, min(reach, value + extra)) + reach
        for value, extra in zip(raw, added, strict=True)
    ]


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report."""
    width = (2 * plan["parameters"]["range"]).bit_length()
    return packed(seed, SEED_BYTES[plan["hashing"]["family"]], fields, [width] * len(fields))


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return the integer behind the estimate of an id, over (seed, fields) pairs."""
    given, answer = plan["parameters"], 0
    for seed, fields in reports:
        where, sign = place(plan, seed, item)
        answer += sign * (fields[where] - given["range"])
    return answer * (given["bins"] if plan["hashing"]["family"] == "linear" else 1)
