"""Projection choice with bins, in plain integers: projection-choice-v1.md, section 9.

In the form unsigned every sign is +1.
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
    mask,
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


def signed(plan: Document) -> bool:
    """Return whether bins have signs."""
    return bool(plan["parameters"]["form"] == "bins")


def row_of(plan: Document, seed: int, group: int) -> int:
    """Return the row of a group in the linear family."""
    return mix(seed, group, GROUP) % 2 ** sizes(plan)[1]


def place_in(plan: Document, row: int, item: int, j: int) -> tuple[int, int]:
    """Return the bin and the sign of an id in a row of the linear family."""
    width, degree = sizes(plan)
    own = code(plan, item, j)
    where, low = own >> degree, own % 2**degree
    for bit in range(width):
        where ^= parity(row & low) << bit
        row <<= 1
        if row >> degree:
            row ^= POLYNOMIALS[degree]
    return where, (1 - 2 * parity(row & low)) * mask(plan, item, j) if signed(plan) else 1


def place(plan: Document, seed: int, item: int, group: int) -> tuple[int, int]:
    """Return the bin and the sign of an id in a group."""
    if plan["hashing"]["family"] == "prf":
        word = hash_word(seed, item, PROJECTION, group)
        return below(word, plan["parameters"]["bins"]), 1 - 2 * (word & signed(plan))
    return place_in(plan, row_of(plan, seed, group), item, map_of(plan, seed))


def loads(
    plan: Document, seed: int, held: Sequence[tuple[int, int]], words: Iterator[int]
) -> list[int]:
    """Return the sum of the signs of tokens and dummies in each bin of each group."""
    groups, bins = plan["parameters"]["groups"], plan["parameters"]["bins"]
    out = [0] * (groups * bins)
    for item, own in held:
        for group in range(groups):
            where, sign = place(plan, seed, item, group)
            out[group * bins + where] += own * sign
    drawn = (plan["parameters"]["tokens"] - len(held)) * groups
    first = [next(words) for _ in range(drawn)]
    places = bins << signed(plan)
    whole = FULL - FULL % places
    for number, word in enumerate(first):
        chosen = word % places if word < whole else uniform(places, words)
        where, odd = divmod(chosen, 2) if signed(plan) else (chosen, 0)
        out[number % groups * bins + where] += 1 - 2 * odd
    return out


def fields_of(plan: Document, seed: int, slot: int) -> list[int]:
    """Return the fields of a report: the slot, or the sign of signed bins, the cell and the map."""
    if plan["decode"] == "direct":
        return [slot]
    group, where = divmod(slot >> signed(plan), plan["parameters"]["bins"])
    cell = row_of(plan, seed, group) * plan["parameters"]["bins"] + where
    own = [slot % 2] if signed(plan) else []
    return [*own, cell] + [map_of(plan, seed)] * (plan["hashing"]["maps"] > 1)


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report: seed and slot, or a cell alone."""
    hashing, given = plan["hashing"], plan["parameters"]
    if plan["decode"] == "direct":
        width = ((given["groups"] * given["bins"] << signed(plan)) - 1).bit_length()
        return packed(seed, SEED_BYTES[hashing["family"]], fields, [width])
    map_bits = hashing["maps"].bit_length() - 1
    widths = [1] * signed(plan) + [hashing["bits"]] + [map_bits] * (map_bits > 0)
    return packed(seed, 0, fields, widths)


def said(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> list[int]:
    """Return what each report that has the bin of an id says of it: 1, or -1 with other signs."""
    bins, found = plan["parameters"]["bins"], []
    for seed, fields in reports:
        if plan["decode"] == "direct":
            minus = fields[0] & signed(plan)
            first, where = divmod(fields[0] >> signed(plan), bins)
            own, sign = place(plan, seed, item, first)
        else:
            minus = fields[0] if signed(plan) else 0
            cell, j = [*fields[signed(plan) :], 0][:2]
            first, where = divmod(cell, bins)
            own, sign = place_in(plan, first, item, j)
        if own == where:
            found.append(sign * (1 - 2 * minus))
    return found


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return the sum of what reports say; unsigned, b times their number less all reports."""
    spoken = said(plan, reports, item)
    if signed(plan):
        return sum(spoken)
    return plan["parameters"]["bins"] * len(spoken) - len(reports)


def best_sum(plan: Document) -> Fraction:
    """Return S: the mean of the sum of the N highest scores of k tokens in b bins of each group."""
    given = plan["parameters"]
    k, groups, bins, top = (given[name] for name in ("tokens", "groups", "bins", "top"))
    one: Counter[tuple[int, ...]] = Counter()
    signs = (1, -1) if signed(plan) else (1,)
    for fallen in itertools.product(itertools.product(range(bins), signs), repeat=k):
        sums = [sum(sign for own, sign in fallen if own == where) for where in range(bins)]
        one[tuple(sorted(map(abs, sums), reverse=True))] += 1
    answer = Fraction(0)
    for drawn in itertools.product(one, repeat=groups):
        ways = math.prod(one[load] for load in drawn)
        best = sorted(itertools.chain(*drawn), reverse=True)[:top]
        answer += Fraction(ways * sum(best), (bins * len(signs)) ** (k * groups))
    return answer


def estimate(plan: Document, integer: int, reports: int, hits: int = 0) -> tuple[float, float]:
    """Return the mean and its standard error; `hits` are the reports in the bin of the id."""
    given = plan["parameters"]
    k, groups, bins, top = (given[name] for name in ("tokens", "groups", "bins", "top"))
    share, slots = Fraction(given["threshold"], FULL), groups * bins << signed(plan)
    gap = share / top - (1 - share) / (slots - top)
    if signed(plan):
        shrink = gap * best_sum(plan) / k
        mean = float(integer / shrink / reports)
        often = max(1 / bins, hits / reports)
        return mean, math.sqrt((often / float(shrink) ** 2 - min(mean**2, 1.0)) / reports)
    shrink = gap * (best_sum(plan) / k - Fraction(top, bins))
    mean = float(integer / (bins * shrink) / reports)
    hit = 1 / bins + min(max(mean, 0.0), 1.0) * float(shrink)
    return mean, math.sqrt(hit * (1 - hit) / float(shrink) ** 2 / reports)
