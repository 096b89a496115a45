"""Projection choice in plain integers: projection-choice-v1.md, section by section.

The dense form is here, and what the other two share with it; `bins` has the rest of them.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from spec.independent import bins
from spec.independent.hashing import (
    FULL,
    SEED_BYTES,
    Document,
    code,
    hash_word,
    map_of,
    mask,
    met,
    mix,
    packed,
    parity,
    uniform,
)

PROJECTION, GROUP = (ord(letter) for letter in "pq")


def dense(plan: Document) -> bool:
    """Return whether there is one bin."""
    return bool(plan["parameters"]["form"] == "dense")


def hits(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return how many reports have the bin of an id: all of them where there is one bin."""
    return len(reports) if dense(plan) else len(bins.said(plan, reports, item))


def row(plan: Document, seed: int, group: int) -> int:
    """Return the row of a group in the linear family."""
    return mix(seed, group, GROUP) % 2 ** plan["hashing"]["bits"]


def sign(plan: Document, seed: int, item: int, group: int) -> int:
    """Return the sign of an id in a group."""
    if plan["hashing"]["family"] == "prf":
        return 1 - 2 * (hash_word(seed, item, PROJECTION, group // 32) >> group % 32 & 1)
    j = map_of(plan, seed)
    return (1 - 2 * parity(row(plan, seed, group) & code(plan, item, j))) * mask(plan, item, j)


def tokens(
    plan: Document, held: Sequence[tuple[int, float]], words: Iterator[int]
) -> list[tuple[int, int]]:
    """Return the (id, sign of the value) of the items that were rounded up, at most k of them."""
    given = plan["parameters"]
    sizes = [abs(value) for _, value in held]
    systematic = given["rounding"] == "systematic"
    taken = met_by_steps(sizes, words) if systematic else met(sizes, words)
    up = [
        (item, -1 if value < 0 else 1)
        for (item, value), token in zip(held, taken, strict=True)
        if token
    ]
    if len(up) <= given["tokens"]:
        return up
    kept: list[tuple[int, int]] = []
    for position, token in enumerate(up):
        if uniform(len(up) - position, words) < given["tokens"] - len(kept):
            kept.append(token)
    return kept


def met_by_steps(sizes: Sequence[float], words: Iterator[int]) -> list[bool]:
    """Return which of the sizes, laid end to end, steps of 1 from a uniform start fall into."""
    lows = [math.floor(size * FULL) for size in sizes]
    ups = met([size * FULL - low for size, low in zip(sizes, lows, strict=True)], words)
    place, out = -next(words), []
    for low, up in zip(lows, ups, strict=True):
        end = place + low + up
        out.append(-(-end // FULL) > -(-place // FULL))
        place = end
    return out


def sums(
    plan: Document, seed: int, held: Sequence[tuple[int, int]], words: Iterator[int]
) -> list[int]:
    """Return the score of each group: signs of the tokens, and of dummies up to k."""
    groups, k = plan["parameters"]["groups"], plan["parameters"]["tokens"]
    dummies = k - len(held)
    out = [
        sum(own * sign(plan, seed, item, group) for item, own in held) for group in range(groups)
    ]
    for start in range(0, k, 32):
        used = min(max(dummies - start, 0), 32)
        for group in range(groups):
            out[group] += used - 2 * (next(words) % 2**used).bit_count()
    return out


def choose(plan: Document, scores: Sequence[int], words: Iterator[int]) -> int:
    """Return one slot: of the N best with the chance T/2^32, else one of the others."""
    top, slots = plan["parameters"]["top"], [one for score in scores for one in (score, -score)]
    if plan["parameters"]["form"] == "unsigned":
        slots = list(scores)
    border = sorted(slots, reverse=True)[top - 1]
    above = sum(score > border for score in slots)
    tied = sum(score == border for score in slots)
    if next(words) < plan["parameters"]["threshold"]:
        side = 1 if uniform(top, words) < above else 0
    else:
        side = 0 if uniform(len(slots) - top, words) < above + tied - top else -1
    alike = [
        slot for slot, score in enumerate(slots) if (score > border) - (score < border) == side
    ]
    return alike[uniform(len(alike), words)]


def randomize(
    plan: Document, items: Sequence[tuple[int, float]], seed: int, words: Iterator[int]
) -> list[int]:
    """Return the fields of one report of (id, value) pairs."""
    held = sorted((item, value) for item, value in items if value != 0)
    score = sums if dense(plan) else bins.loads
    slot = choose(plan, score(plan, seed, tokens(plan, held, words), words), words)
    if not dense(plan):
        return bins.fields_of(plan, seed, slot)
    if plan["decode"] == "direct":
        return [slot]
    maps = plan["hashing"]["maps"]
    return [slot % 2, row(plan, seed, slot // 2)] + [map_of(plan, seed)] * (maps > 1)


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report: seed and slot, or a cell alone."""
    if not dense(plan):
        return bins.record(plan, seed, fields)
    hashing = plan["hashing"]
    if plan["decode"] == "direct":
        width = plan["parameters"]["groups"].bit_length()
        return packed(seed, SEED_BYTES[hashing["family"]], fields, [width])
    map_bits = hashing["maps"].bit_length() - 1
    return packed(seed, 0, fields, [1, hashing["bits"]] + [map_bits] * (map_bits > 0))


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return the integer behind the estimate of an id, over (seed, fields) pairs."""
    if not dense(plan):
        return bins.total(plan, reports, item)
    answer = 0
    for seed, fields in reports:
        if plan["decode"] == "direct":
            slot = fields[0]
            answer += (1 - 2 * (slot % 2)) * sign(plan, seed, item, slot // 2)
            continue
        minus, cell, j = [*fields, 0][:3]
        odd = parity(cell & code(plan, item, j)) ^ minus
        answer += (1 - 2 * odd) * mask(plan, item, j)
    return answer


def best_sum(k: int, groups: int, top: int) -> Fraction:
    """Return S: the mean of the sum of the N highest scores of k fair signs in each group."""
    answer = Fraction(0)
    for level in range(1, k + 1):
        ways = sum(math.comb(k, ones) for ones in range(k + 1) if abs(k - 2 * ones) >= level)
        chance = Fraction(ways, 2**k)
        for count in range(groups + 1):
            likely = math.comb(groups, count) * chance**count * (1 - chance) ** (groups - count)
            answer += min(top, count) * likely
    return answer


def estimate(plan: Document, integer: int, reports: int, hits: int = 0) -> tuple[float, float]:
    """Return the mean and its standard error; `hits` are the reports in the bin of the id."""
    if not dense(plan):
        return bins.estimate(plan, integer, reports, hits)
    given = plan["parameters"]
    k, groups, top = given["tokens"], given["groups"], given["top"]
    share, best = Fraction(given["threshold"], FULL), best_sum(k, groups, top)
    shrink = (share / top - (1 - share) / (2 * groups - top)) * best / k
    mean = float(integer / shrink / reports)
    return mean, math.sqrt((float(1 / shrink**2) - min(mean**2, 1.0)) / reports)
