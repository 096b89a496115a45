"""What is hidden, how well, and what has been proven.

A unit says which change of a client's data must not show; a budget says how much
may show; a guarantee is a budget backed by a theorem and its conditions.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from faintly.core.arguments import real
from faintly.errors import InvalidPlan

# Rounded up: a bound is never shown smaller than it is.
_SHOWN, _FACTOR = (Context(prec=digits, rounding=ROUND_CEILING) for digits in (6, 3))
WEAK_EPSILON = 3.0  # from here on even odds may become 95 % or more
VOID_EPSILON = 7.0  # from here on 99.9 %, practically certainty


def decimal_text(number: float) -> str:
    """Return the one decimal spelling of `number` that plans use: no exponent, no padding.

    >>> decimal_text(1.0), decimal_text(1e-05), decimal_text(0.25)
    ('1', '0.00001', '0.25')
    """
    text = format(Decimal(repr(float(number))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True)
class EventLevel:
    """Hide any change of one coordinate: one site visited or not, one rating changed."""

    def __str__(self) -> str:
        return "event"


@dataclass(frozen=True, slots=True)
class UserLevel:
    """Hide any change of the whole vector: everything one person sends."""

    def __str__(self) -> str:
        return "user"


@dataclass(frozen=True, slots=True)
class WithinL1:
    """Hide any change of the vector by at most `distance` in the L1 norm."""

    distance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", real(self.distance, "the distance of l1"))
        if not 0 < self.distance < math.inf:
            raise InvalidPlan("the distance of l1 must be positive and finite")

    def __str__(self) -> str:
        return f"l1:{decimal_text(self.distance)}"


Unit = EventLevel | UserLevel | WithinL1


def parse_unit(text: str | Unit) -> Unit:
    """Return the unit that `text` names, event, user or l1:DISTANCE; return a unit as it is."""
    if isinstance(text, Unit):
        return text
    if not isinstance(text, str):
        raise InvalidPlan("protect must be event, user or l1:DISTANCE, or one of these units")
    if text == "event":
        return EventLevel()
    if text == "user":
        return UserLevel()
    kind, _, distance = text.partition(":")
    if kind == "l1" and distance:
        try:
            return WithinL1(float(distance))
        except ValueError:
            pass
    raise InvalidPlan(
        f"protect must be event, user or l1:DISTANCE (for example l1:4), got {text!r}"
    )


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a report may reveal: epsilon, and delta where a theorem needs one."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", real(self.delta, "delta"))
        if not 0 < self.epsilon < math.inf:
            raise InvalidPlan(f"epsilon must be above 0 and finite, got {self.epsilon:g}")
        if not 0 <= self.delta < 1:
            raise InvalidPlan(f"delta must be at least 0 and below 1, got {self.delta:g}")

    @classmethod
    def at_least(cls, epsilon: Fraction, delta: Fraction = Fraction(0)) -> "Budget":
        """Return the smallest budget whose decimals are no less than these exact amounts.

        >>> Budget.at_least(Fraction(1, 10)), Budget.at_least(Fraction(1, 10) + Fraction(1, 10**30))
        (Budget(epsilon=0.1, delta=0.0), Budget(epsilon=0.10000000000000002, delta=0.0))
        """
        return cls(_float_at_least(epsilon), _float_at_least(delta))

    def covers(self, other: "Budget") -> bool:
        """Return whether `other` spends no more than this in both numbers (a partial order)."""
        return other.epsilon <= self.epsilon and other.delta <= self.delta

    def __str__(self) -> str:
        text = f"epsilon {_shown(self.epsilon)}"
        return text if self.delta == 0 else f"{text}, delta {_shown(self.delta)}"


def _float_at_least(number: Fraction) -> float:
    near = float(number)
    return near if Fraction(repr(near)) >= number else math.nextafter(near, math.inf)


def _shown(number: float) -> str:
    return f"{float(_SHOWN.create_decimal(repr(number))):g}"


_VERDICTS = {
    "sound": "",
    "weak": f"Weak protection, as always from epsilon {WEAK_EPSILON:g} on. ",
    "none": f"No protection to speak of, as always from epsilon {VOID_EPSILON:g} on. ",
}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What is proven about one report, and under which conditions."""

    unit: Unit
    budget: Budget
    theorem: str
    conditions: tuple[str, ...] = ()

    @property
    def belief(self) -> float:
        """Return the largest posterior probability of an observer whose prior was one half.

        With a delta: the largest share of all reports about which that observer is right.
        """
        return (1 + self.budget.delta * math.exp(-self.budget.epsilon)) / (
            1 + math.exp(-self.budget.epsilon)
        )

    @property
    def strength(self) -> str:
        """Return how strong the guarantee is, by epsilon alone: sound, weak or none."""
        # Integers prove a little less than the round number requested.
        requested = self.budget.epsilon * (1 + 1e-6)
        if requested >= VOID_EPSILON:
            return "none"
        return "weak" if requested >= WEAK_EPSILON else "sound"

    @property
    def _hides(self) -> str:
        return "hardly hides" if self.strength == "none" else "hides"

    def short(self) -> str:
        """Return the guarantee as one sentence, without its conditions.

        >>> Guarantee(EventLevel(), Budget(1.0), "a theorem").short().partition(":")[0]
        'A report hides any one item of its sender'
        """
        hidden = {EventLevel: "any one item of its sender", UserLevel: "all that its sender holds"}
        changes = f"changes of up to {getattr(self.unit, 'distance', 0):g} in its sender's values"
        sure = f"is at most {_percent(self.belief)} sure of it"
        if self.budget.delta:
            sure = f"is right about it in at most {_percent(self.belief)} of all cases"
        what = hidden.get(type(self.unit), changes)
        return (
            f"{_VERDICTS[self.strength]}A report {self._hides} {what}: an observer who gave it "
            f"50 % {sure} afterwards ({self.budget})."
        )

    def describe(self) -> str:
        """Return the guarantee as one paragraph for people."""
        hidden = {
            EventLevel: "any one item a person holds, added, removed or changed",
            UserLevel: "everything a person holds, exchanged for anything else",
            WithinL1: "any change of a person's values that adds up to at most "
            f"{getattr(self.unit, 'distance', 0):g}",
        }[type(self.unit)]
        times = float(_FACTOR.create_decimal(repr(math.exp(self.budget.epsilon))))
        factor = f"{times:,.0f}" if times >= 1000 else f"{times:g}"
        bound = f"no report is more than {factor} times as likely"
        if self.budget.delta:
            bound = (
                f"no set of reports is, but for a difference of {self.budget.delta:g} in its "
                f"probability, more than {factor} times as likely"
            )
        sure = f"can be at most {_percent(self.belief)} sure of it afterwards"
        if self.budget.delta:
            sure = f"is afterwards right in at most {_percent(self.belief)} of all cases"
        text = (
            f"{_VERDICTS[self.strength]}A report {self._hides} {hidden}. An observer who thought "
            f"it as likely as not (50 %), knows everything else and sees the report {sure}: "
            f"{bound} with it as without it ({self.budget}, local differential privacy, "
            f"{self.unit} level)."
        )
        if self.conditions:
            text += " It holds provided that " + "; ".join(self.conditions) + "."
        return text


def _percent(share: float) -> str:
    """Return a share in per cent, rounded up, with two digits of its distance from 100 %.

    >>> _percent(0.7310585), _percent(0.99999988)
    ('73.2 %', '99.999988 %')
    """
    doubt = 100 * (1 - share)
    digits = max(1, 1 - math.floor(math.log10(doubt))) if doubt > 0 else 0
    return f"{100 - math.floor(doubt * 10**digits) / 10**digits:.{digits}f} %"
