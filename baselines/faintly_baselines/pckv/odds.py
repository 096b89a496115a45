"""The coins of PCKV: how often the sampled key and its sign stay what they are.

keep   a: the sampled key shows, out of 2^32
other  b: any other key shows instead; of grr (2^32-keep)/(d'-1), of ue a coin of its own
sign   p: a shown key that was sampled has its true sign, out of 2^32; others have a fair one

grr  one of d' = d + ℓ keys. A key is sampled with a chance of at most 1/ℓ, so a report's odds lie
     between b/2 (or the odds of a flipped sign) and (a·p + (ℓ-1)·b/2)/ℓ, whatever the vector.
     Gu et al.: 2a/b = X+2 and p = (X+1)/(X+2) for X = ℓ·(e^ε-1).
ue   every key answers. Against the odds that nothing was sampled, a report is p/b', (1-p)/b' or
     ½/(1-b) times as likely (a = ½, b' = b) if the sampled key shows its true sign, the other, or
     none.
     Gu et al.: b = 2/(e^ε+3) and p = e^ε/(e^ε+1).
"""

from dataclasses import dataclass
from fractions import Fraction

from faintly.errors import BoundDoesNotApply
from faintly.primitives.noise import FULL, exact, growth_at_most, response_threshold

FORMS = ("grr", "ue")
FEW_STEPS = 16  # most steps of correction after rounding; more mean that epsilon is too small


@dataclass(frozen=True, slots=True)
class Odds:
    """The integers of one form, and what follows from them."""

    form: str
    keys: int  # d
    padding: int  # ℓ
    keep: int
    other: int  # of ue; grr follows from keep, and has 0 here
    sign: int

    @property
    def a(self) -> Fraction:
        """Return how often the sampled key shows."""
        return Fraction(self.keep, FULL)

    @property
    def b(self) -> Fraction:
        """Return how often any one other key shows."""
        if self.form == "ue":
            return Fraction(self.other, FULL)
        return (1 - self.a) / (self.keys + self.padding - 1)

    @property
    def p(self) -> Fraction:
        """Return how often a sampled key that shows has its true sign."""
        return Fraction(self.sign, FULL)

    @property
    def ratio(self) -> Fraction:
        """Return how much likelier any report can be under one vector than under another."""
        a, b, p = self.a, self.b, self.p
        if self.form == "ue":
            factors = (2 * a * p / b, 2 * a * (1 - p) / b, (1 - a) / (1 - b), Fraction(1))
            return max(factors) / min(factors)
        rest = (self.padding - 1) * b / 2
        odds = [b / 2, *((a * shown + rest) / self.padding for shown in (p, 1 - p))]
        return max(odds) / min(odds)

    @property
    def attenuation(self) -> float:
        """Return the mean sign that a sampled key of value +1 shows."""
        return float(self.a * (2 * self.p - 1))

    @property
    def shown(self) -> tuple[float, float]:
        """Return how often a key shows that a client does not hold, and that it holds."""
        return float(self.b), float(self.b + (self.a - self.b) / self.padding)


def best(form: str, keys: int, padding: int, epsilon: float) -> Odds:
    """Return the published odds for a budget, rounded toward privacy."""
    allowed = growth_at_most(epsilon)
    made = _grr(keys, padding, allowed) if form == "grr" else _ue(keys, padding, epsilon)
    if made.attenuation <= 0 or made.ratio > allowed:
        raise BoundDoesNotApply(
            f"epsilon {epsilon:g} is too small for 32-bit thresholds over {keys} keys; "
            "use a larger epsilon"
        )
    return made


def _grr(keys: int, padding: int, allowed: Fraction) -> Odds:
    excess = padding * (allowed - 1)
    sign = int(FULL * (excess + 1) / (excess + 2))
    keep = int(FULL * (excess + 2) / (excess + 2 * (keys + padding)))
    made = Odds("grr", keys, padding, keep, 0, sign)
    # Both are rounded down, and the ratio may still exceed the budget by a step or two of `keep`.
    for _ in range(FEW_STEPS):
        if made.ratio <= allowed or keep == 1:
            break
        keep -= 1
        made = Odds("grr", keys, padding, keep, 0, sign)
    return made


def _ue(keys: int, padding: int, epsilon: float) -> Odds:
    allowed, sign = growth_at_most(epsilon), response_threshold(exact(epsilon))
    other = int(2 * FULL / (allowed + 3)) + 1
    for _ in range(FEW_STEPS):
        made = Odds("ue", keys, padding, FULL // 2, other, sign)
        if made.ratio <= allowed:
            break
        other += 1
    return made
