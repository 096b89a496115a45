"""Projection choice with bins in plain integers: projection-choice-v1.md, section 9.

Of form bins this is the client; what a server makes of it the text does not define yet.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from spec.independent.hashing import (
    FULL,
    SEED_BYTES,
    Document,
    below,
    code,
    hash_word,
    map_of,
    mix,
    packed,
    parity,
    uniform,
)

PROJECTION, GROUP = (ord(letter) for letter in "pq")
POLYNOMIALS = {
    8: 0x11B,
    9: 0x203,
    10: 0x409,
    11: 0x805,
    12: 0x1009,
    13: 0x201B,
    14: 0x4021,
    15: 0x8003,
    16: 0x1002B,
    17: 0x20009,
    18: 0x40009,
    19: 0x80027,
    20: 0x100009,
    21: 0x200005,
    22: 0x400003,
    23: 0x800021,
    24: 0x100001B,
}


def sizes(plan: Document) -> tuple[int, int]:
    """Return e and s: the bits of a bin and of a row."""
    width = plan["parameters"]["bins"].bit_length() - 1
    return width, plan["hashing"]["bits"] - width


def row_of(plan: Document, seed: int, group: int) -> int:
    """Return the row of a group in the linear family."""
    return mix(seed, group, GROUP) % 2 ** sizes(plan)[1]


def bin_of(plan: Document, row: int, item: int, j: int) -> int:
    """Return the bin of an id in a row of the linear family."""
    width, degree = sizes(plan)
    own = code(plan, item, j)
    where, low = own >> degree, own % 2**degree
    for bit in range(width):
        where ^= parity(row & low) << bit
        row <<= 1
        if row >> degree:
            row ^= POLYNOMIALS[degree]
    return where


def signed(plan: Document) -> bool:
    """Return whether bins have signs."""
    return bool(plan["parameters"]["form"] == "bins")


def place(plan: Document, seed: int, item: int, group: int) -> int:
    """Return the bin of an id in a group; with signs, twice that and 1 for the sign −."""
    if plan["hashing"]["family"] == "prf":
        word = hash_word(seed, item, PROJECTION, group)
        where = below(word, plan["parameters"]["bins"])
        return 2 * where + word % 2 if signed(plan) else where
    return bin_of(plan, row_of(plan, seed, group), item, map_of(plan, seed))


def loads(
    plan: Document, seed: int, held: Sequence[tuple[int, int]], words: Iterator[int]
) -> list[int]:
    """Return how many tokens and dummies each bin of each group has; with signs, their sum."""
    groups, bins = plan["parameters"]["groups"], plan["parameters"]["bins"]
    choices = 2 * bins if signed(plan) else bins
    out = [0] * (groups * bins)

    def add(group: int, number: int, own: int = 1) -> None:
        if signed(plan):
            out[group * bins + number // 2] += own * (1 - 2 * (number % 2))
        else:
            out[group * bins + number] += 1

    for item, own in held:
        for group in range(groups):
            add(group, place(plan, seed, item, group), own)
    drawn = (plan["parameters"]["tokens"] - len(held)) * groups
    first = [next(words) for _ in range(drawn)]
    whole = FULL - FULL % choices
    for number, word in enumerate(first):
        chosen = word % choices if word < whole else uniform(choices, words)
        add(number % groups, chosen)
    return out


def fields_of(plan: Document, seed: int, slot: int) -> list[int]:
    """Return the fields of a report: the slot, or the cell and the map."""
    if plan["decode"] == "direct":
        return [slot]
    group, where = divmod(slot, plan["parameters"]["bins"])
    cell = row_of(plan, seed, group) * plan["parameters"]["bins"] + where
    return [cell] + [map_of(plan, seed)] * (plan["hashing"]["maps"] > 1)


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report: seed and slot, or a cell alone."""
    hashing, given = plan["hashing"], plan["parameters"]
    if plan["decode"] == "direct":
        slots = given["groups"] * given["bins"] * (2 if signed(plan) else 1)
        width = (slots - 1).bit_length()
        return packed(seed, SEED_BYTES[hashing["family"]], fields, [width])
    map_bits = hashing["maps"].bit_length() - 1
    return packed(seed, 0, fields, [hashing["bits"]] + [map_bits] * (map_bits > 0))


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return b times the reports that have the bin of an id, less the number of reports."""
    bins, hits = plan["parameters"]["bins"], 0
    for seed, fields in reports:
        first, where = divmod(fields[0], bins)
        if plan["decode"] == "direct":
            hits += place(plan, seed, item, first) == where
        else:
            hits += bin_of(plan, first, item, [*fields, 0][1]) == where
    return bins * hits - len(reports)


def best_sum(k: int, groups: int, bins: int, top: int) -> Fraction:
    """Return S: the mean of the sum of the N highest loads of k tokens in b bins of each group."""
    one: Counter[tuple[int, ...]] = Counter()
    for fallen in itertools.product(range(bins), repeat=k):
        one[tuple(sorted((fallen.count(where) for where in range(bins)), reverse=True))] += 1
    answer = Fraction(0)
    for drawn in itertools.product(one, repeat=groups):
        ways = math.prod(one[load] for load in drawn)
        best = sorted(itertools.chain(*drawn), reverse=True)[:top]
        answer += Fraction(ways * sum(best), bins ** (k * groups))
    return answer


def estimate(plan: Document, integer: int, reports: int) -> tuple[float, float]:
    """Return the mean and its standard error."""
    given = plan["parameters"]
    k, groups, bins, top = (given[name] for name in ("tokens", "groups", "bins", "top"))
    share = Fraction(given["threshold"], FULL)
    gap = share / top - (1 - share) / (groups * bins - top)
    shrink = gap * (best_sum(k, groups, bins, top) / k - Fraction(top, bins))
    mean = float(integer / (bins * shrink) / reports)
    hit = 1 / bins + min(max(mean, 0.0), 1.0) * float(shrink)
    return mean, math.sqrt(hit * (1 - hit) / float(shrink) ** 2 / reports)
