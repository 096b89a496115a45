"""Exact integer Laplace noise from 32-bit threshold coins.

A geometric variable g has independent binary digits: digit i is 1 with odds q^(2^i), and
what lies above the digits is again geometric, with ratio q^(2^m). So m coins draw the digits,
and one more coin, which seldom succeeds, draws the rest. The difference of two such variables
is discrete Laplace with ratio q per step.

Thresholds are integers out of 2^32. Rounding them changes the law, so privacy is read off
the rounded ones: g+1 follows g with ratio  o_i / (o_0·…·o_(i-1)), where i is the digit that
the carry reaches, and a difference of two such variables changes by at most the largest of
these ratios when it is shifted by one step. `laplace_thresholds` picks the smallest
thresholds for which no ratio leaves [bound, 1/bound].
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from faintly.core import AnyArray, FloatArray, IntArray
from faintly.errors import BoundDoesNotApply
from faintly.primitives.entropy import Rng

FULL = 2**32
CONTINUE_AT_MOST = Fraction(1, 16)  # how often a draw needs words beyond its digits
TOO_FINE = "the noise is too fine for 32-bit thresholds; use fewer steps or a larger epsilon"
_EXACT = Context(prec=60)


def exp_at_least(exponent: Fraction) -> Fraction:
    """Return a fraction not below e^exponent, and above it by less than one part in 10^50."""
    value = _EXACT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    # Division and exp are each correct to 60 digits; 10^-55 covers both for |exponent| < 100.
    return Fraction(_EXACT.exp(value)) * (1 + Fraction(1, 10**55))


def log_at_least(ratio: Fraction) -> Fraction:
    """Return a fraction not below ln(ratio) for a ratio of at least 1, and above it by 10^-58.

    That is less than `exp_at_least` gives away, so noise made with the one is within its
    budget by the other.
    """
    value = _EXACT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    return Fraction(_EXACT.ln(value)) + Fraction(1, 10**58)


def exact(number: float) -> Fraction:
    """Return the decimal number that a float spells, so that 0.1 means one tenth."""
    return Fraction(repr(float(number)))


def growth_at_most(epsilon: float) -> Fraction:
    """Return a fraction not above e^ε, and below it by less than one part in 10^50."""
    return 1 / exp_at_least(-exact(epsilon))


def response_threshold(epsilon: Fraction, likely: int = 1, outcomes: int = 2) -> int:
    """Return ⌊2^32·N·e^ε/(N·e^ε+M-N)⌋: the threshold for any of N likely outcomes of M.

    Rounding down keeps epsilon: each of the N is at most e^ε times as likely as any other.
    """
    others = (outcomes - likely) * exp_at_least(-epsilon)
    threshold = math.floor(FULL * likely / (likely + others))
    if threshold * outcomes <= likely * FULL:
        raise BoundDoesNotApply(
            f"epsilon {float(epsilon):g} is too small for 32-bit thresholds over {outcomes} "
            "outcomes; use a larger epsilon"
        )
    return threshold


def laplace_thresholds(bound: Fraction) -> list[int]:
    """Return the coin thresholds of noise whose law changes by at most 1/bound per step.

    Args:
        bound: the smallest allowed ratio of neighbouring probabilities, in (0, 1).

    Returns:
        The threshold of each binary digit, then the threshold of continuing.
    """
    thresholds: list[int] = []
    product = Fraction(1)  # odds of all digits so far being one
    while bound * product > CONTINUE_AT_MOST:
        odds = bound * product
        threshold = math.ceil(FULL * odds / (1 + odds))
        odds = Fraction(threshold, FULL - threshold)
        _check_ratio(odds, product, bound)
        if odds >= 1:  # rounded up to a fair coin: there would be no last digit
            raise BoundDoesNotApply(TOO_FINE)
        thresholds.append(threshold)
        product *= odds
    continuing = math.ceil(FULL * bound * product)
    _check_ratio(Fraction(continuing, FULL), product, bound)
    return [*thresholds, continuing]


def _check_ratio(odds: Fraction, product: Fraction, bound: Fraction) -> None:
    if odds * bound > product:
        raise BoundDoesNotApply(TOO_FINE)


def carry_ratios(thresholds: Sequence[int]) -> list[Fraction]:
    """Return P(g+1)/P(g) of one geometric variable, for each digit that the carry may reach."""
    ratios, product = [], Fraction(1)
    for threshold in thresholds[:-1]:
        odds = Fraction(threshold, FULL - threshold)
        ratios.append(odds / product)
        product *= odds
    return [*ratios, Fraction(thresholds[-1], FULL) / product]


def step_ratio(thresholds: Sequence[int]) -> Fraction:
    """Return the largest factor by which a shift of one step changes any probability."""
    return max(max(ratio, 1 / ratio) for ratio in carry_ratios(thresholds))


def laplace_variance(thresholds: Sequence[int]) -> float:
    """Return the exact variance of the noise, in steps squared."""
    total = 0.0
    for digit, threshold in enumerate(thresholds[:-1]):
        share = threshold / FULL
        total += 4.0**digit * share * (1 - share)
    ratio = thresholds[-1] / FULL
    total += 4.0 ** (len(thresholds) - 1) * ratio / (1 - ratio) ** 2
    return 2 * total


def laplace(thresholds: Sequence[int], count: int, rng: Rng) -> IntArray:
    """Return `count` independent draws of the noise.

    Words are taken digit by digit: all 2·count first digits, then all second ones, and so
    on; then one word for every draw that is still going, until none is.
    """
    drawn = _geometric(thresholds, 2 * count, rng)
    return drawn[:count] - drawn[count:]


def _geometric(thresholds: Sequence[int], count: int, rng: Rng) -> IntArray:
    digits = len(thresholds) - 1
    total = np.zeros(count, dtype=np.int64)
    for first in range(0, digits, 8):
        some = thresholds[first : min(first + 8, digits)]
        total += _octets(some, count, rng).astype(np.int64) << first
    alive = np.flatnonzero(rng.words(count) < thresholds[-1])
    while len(alive):
        total[alive] += 1 << digits
        alive = alive[rng.words(len(alive)) < thresholds[-1]]
    return total


def _octets(thresholds: Sequence[int], count: int, rng: Rng) -> AnyArray:
    """Return `count` bytes with a binary digit for each of at most eight thresholds."""
    octets = np.zeros(count, dtype=np.uint8)  # passes over bytes are cheap beside drawing
    for digit, threshold in enumerate(thresholds):
        octets |= (rng.words(count) < threshold).view(np.uint8) << digit
    return octets


@lru_cache(maxsize=16)  # enumeration needs one law thousands of times
def laplace_law(thresholds: tuple[int, ...], reach: int) -> FloatArray:
    """Return P(noise = z) for z in -reach..reach, each to full relative precision.

    Terms are positive, so summing them loses nothing; the geometric law is cut where it
    no longer shows in a 64-bit float. Meant for small cases: the cost is quadratic.
    """
    decay = -math.log(float(carry_ratios(thresholds)[0]))
    single = geometric_law(thresholds, reach + math.ceil(60 / decay))
    middle = len(single) - 1
    return np.correlate(single, single, "full")[middle - reach : middle + reach + 1]


def geometric_law(thresholds: Sequence[int], count: int) -> FloatArray:
    """Return P(g) for g below `count`; `laplace` draws the difference of two such variables."""
    values = np.arange(count)
    law = np.ones(count)
    for digit, threshold in enumerate(thresholds[:-1]):
        share = threshold / FULL
        law *= np.where(values >> digit & 1, share, 1 - share)
    ratio = thresholds[-1] / FULL
    return law * (1 - ratio) * ratio ** (values >> (len(thresholds) - 1))
