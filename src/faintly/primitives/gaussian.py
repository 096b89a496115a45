"""Exact discrete Gaussian noise, and its delta.

The sampler is Canonne, Kamath and Steinke's: a discrete Laplace draw, kept with probability
e^-γ for a rational γ. Such a coin is made from coins with rational odds alone (by the
alternating series of e^-γ). So nothing is rounded: the plan's one integer determines the law.

δ comes from the continuous Gaussian (gaussian.proof.md, Lemma 2): noise of variance V on
integers is, within a factor e^±η, what randomized rounding makes of N(0, V - SMOOTHED), and the
continuous mechanism has  δ(ε, μ) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ)  at distance μ.
"""

import math
from functools import lru_cache

import numpy as np

from faintly.core import AnyArray, FloatArray, IntArray
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng

SMOOTHED = 2  # variance given to randomized rounding: e^(-2π²·2) is 7·10^-18
# Twice the sum over m ≥ 1 of e^(-2π²·2·m²), rounded up: how far a Gaussian's sum over integers
# depends on where its centre lies.
RIPPLE = 1.5e-17
MAX_VARIANCE = 2**26  # squares of draws stay below 2^63
FLOAT_SLACK = 1e-8  # more than the errors of erfc, a few operations and the tolerance below


def gaussian_delta(epsilon: float, reach: float) -> float:
    """Return δ of the continuous Gaussian of variance 1 at distance √reach, rounded up."""
    root = math.sqrt(reach)
    upper, lower = root / 2 - epsilon / root, -root / 2 - epsilon / root
    tail = _normal(upper) - math.exp(epsilon) * _normal(lower)
    return max(tail, 0.0) + FLOAT_SLACK * _normal(upper)


def _normal(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def delta_at(epsilon: float, square: float, variance: int, coordinates: int) -> float:
    """Return δ of integer noise on all coordinates, for a change of squared length `square`."""
    ripple = 2 * coordinates * RIPPLE / (1 - RIPPLE) * (1 + FLOAT_SLACK)
    reach = square / (variance - SMOOTHED)
    return math.exp(ripple) * gaussian_delta(epsilon - 2 * ripple, reach)


def growth(epsilon: float, square: float, variance: int) -> float:
    """Return d ln δ/d(square) at `square`: how fast δ grows with the squared change."""
    spread = variance - SMOOTHED
    reach = square / spread
    root = math.sqrt(reach)
    density = math.exp(-((root / 2 - epsilon / root) ** 2) / 2) / math.sqrt(2 * math.pi)
    return density / (2 * root) / gaussian_delta(epsilon, reach) / spread


def rounding_is_free(rate: float, most: int) -> bool:
    """Return whether randomized rounding costs no δ beyond moves of `most` whole steps.

    A coordinate that moves i + b steps moves i or i + 1 whole ones, and Lemma 3 needs
    λi² + ln(1 + b(e^(λ(2i+1)) - 1)) ≤ most·λ(i + b) for each i below `most` and b in [0, 1].
    The left side is concave in b, so its excess is largest at one place.
    """
    for whole in range(most):
        jump = math.expm1(rate * (2 * whole + 1))
        part = min(1.0, max(0.0, 1 / (most * rate) - 1 / jump))
        excess = rate * whole**2 + math.log1p(part * jump) - most * rate * (whole + part)
        if excess > 1e-12:  # both sides are equal at the largest move
            return False
    return True


def draw(variance: int, count: int, rng: Rng) -> IntArray:
    """Return `count` draws with P(z) proportional to e^(-z²/(2·variance)), exactly."""
    scale = math.isqrt(variance) + 1
    out = np.zeros(count, dtype=np.int64)
    open_ = np.arange(count)
    while len(open_):
        tried, valid = _laplace(scale, len(open_), rng)
        gap = np.where(valid, np.abs(tried), 0) * scale - variance
        kept = np.zeros(len(open_), dtype=bool)
        kept[valid] = _exponential_coins(gap[valid] ** 2, 2 * variance * scale**2, rng)
        out[open_[kept]] = tried[kept]
        open_ = open_[~kept]
    return out


def _laplace(scale: int, count: int, rng: Rng) -> tuple[IntArray, AnyArray]:
    """Return candidates for discrete Laplace draws of ratio e^(-1/scale), and which to accept."""
    low = uniform_below(np.full(count, scale), rng)
    valid = _exponential_coins(low, scale, rng)
    high = np.zeros(count, dtype=np.int64)
    alive = np.nonzero(valid)[0]
    while len(alive):
        alive = alive[_exponential_coins(np.ones(len(alive), dtype=np.int64), 1, rng)]
        high[alive] += 1
    size = low + scale * high
    negative = (rng.words(count) & np.uint32(1)).astype(bool)
    return np.where(negative, -size, size), valid & ~(negative & (size == 0))


def _exponential_coins(numerators: IntArray, denominator: int, rng: Rng) -> AnyArray:
    """Return True with probability e^(-numerator/denominator), for each numerator."""
    whole, rest = np.divmod(numerators, denominator)
    alive = _coins_up_to_one(rest, denominator, rng)
    left = np.nonzero(alive & (whole > 0))[0]
    while len(left):
        one = _coins_up_to_one(np.ones(len(left), dtype=np.int64), 1, rng)
        alive[left[~one]] = False
        whole[left] -= 1
        left = left[one & (whole[left] > 0)]
    return alive


def _coins_up_to_one(numerators: IntArray, denominator: int, rng: Rng) -> AnyArray:
    """Return True with probability e^-γ, γ = numerator/denominator at most 1.

    The number of heads in a row from coins of odds γ, γ/2, γ/3, … is even with that probability.
    """
    even = np.ones(len(numerators), dtype=bool)
    going, place = np.arange(len(numerators)), 1
    while len(going):
        going = going[_rational_coins(numerators[going], denominator, rng)]
        if place > 1:
            going = going[uniform_below(np.full(len(going), place), rng) == 0]
        even[going] ^= True
        place += 1
    return even


def _rational_coins(numerators: IntArray, denominator: int, rng: Rng) -> AnyArray:
    """Return True with probability numerator/denominator (below 2^63), by rejection."""
    limit = np.uint64(2**64 // denominator * denominator - 1)
    out = np.zeros(len(numerators), dtype=bool)
    open_ = np.arange(len(numerators))
    while len(open_):
        words = rng.words(2 * len(open_)).astype(np.uint64)
        wide = words[0::2] | (words[1::2] << np.uint64(32))
        done = wide <= limit
        hit = wide[done] % np.uint64(denominator) < numerators[open_[done]].astype(np.uint64)
        out[open_[done]] = hit
        open_ = open_[~done]
    return out


@lru_cache(maxsize=16)  # enumeration needs one law thousands of times
def law(variance: int, reach: int) -> FloatArray:
    """Return P(z) for z in -reach..reach; normalized by the sum over all integers."""
    far = max(reach, math.ceil(40 * math.sqrt(variance)))
    shape: FloatArray = np.exp(-(np.arange(-far, far + 1, dtype=np.float64) ** 2) / (2 * variance))
    return (shape / math.fsum(shape))[far - reach : far + reach + 1]
