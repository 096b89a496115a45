"""What reports cost, unit by unit, in exact numbers.

A charge is one report: the unit that its plan protects, its epsilon and delta, and the bound k
on its items where the mechanism enforces one. Its cost in the account of another unit follows from
group privacy: count the steps of a walk between any two vectors that differ by that other unit,
each step a change that the charge protects.

charge   in account event   in account l1:M         in account user
event    1 step             2k, if k is enforced    2k, if k is enforced
l1:L     ⌈2/L⌉              ⌈M/L⌉                   ⌈2k/L⌉, if k is enforced
user     1                  1                       1

m steps cost m·ε and δ·(1 + e^ε + … + e^((m−1)ε)). Reports add up, which also holds where later
plans are chosen after earlier reports were seen. Every walk first takes items away, then changes
the common ones, then adds: so it never visits a vector with more items than its two ends have.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from faintly.core.arguments import shown
from faintly.core.privacy import Budget, EventLevel, Unit, UserLevel, WithinL1, parse_unit
from faintly.errors import BudgetSpent, InvalidInput, PlanRefused

Number = int | float | str | Fraction

_EXP_LIMIT = 1000  # beyond e^1000 every delta that a float can hold becomes 1
_UP = Context(prec=60, rounding=ROUND_CEILING)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)


def exact(number: Number) -> Fraction:
    """Return the decimal number that the argument spells, so that 0.1 means one tenth."""
    try:
        value = Fraction(repr(number) if isinstance(number, float) else number)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"an amount must be a plain number, got {shown(number)}") from None
    if value < 0:
        raise InvalidInput(f"an amount must not be negative, got {shown(number)}")
    return value


def decimal_of(value: Fraction) -> str:
    """Return the exact decimal of a number, or its first 12 digits where it does not end.

    >>> decimal_of(Fraction(5, 4)), decimal_of(Fraction(3)), decimal_of(Fraction(1, 3))
    ('1.25', '3', '0.333333333333')
    """
    places = value.denominator.bit_length()  # enough, unless the decimal never ends
    digits, rest = divmod(value.numerator * 10**places, value.denominator)
    if rest:
        return f"{float(value):.12g}"
    text = str(digits).rjust(places + 1, "0")
    return f"{text[:-places]}.{text[-places:].rstrip('0')}".rstrip(".")


@dataclass(frozen=True, slots=True)
class Loss:
    """An exact amount of epsilon and delta: spent, allowed or left."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, amount: "Limit") -> "Loss":
        """Return the loss that an epsilon, a pair (epsilon, delta) or a budget names."""
        if isinstance(amount, Loss):
            return amount
        if isinstance(amount, Budget):
            return cls(exact(amount.epsilon), exact(amount.delta))
        if isinstance(amount, tuple) and len(amount) == 2:
            epsilon, delta = amount
            return cls(exact(epsilon), exact(delta))
        return cls(exact(amount))

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(self.epsilon + other.epsilon, self.delta + other.delta)

    def times(self, count: int) -> "Loss":
        """Return the sum of `count` such losses."""
        return Loss(self.epsilon * count, self.delta * count)

    def covers(self, other: "Loss") -> bool:
        """Return whether `other` is no more than this in both numbers (a partial order)."""
        return other.epsilon <= self.epsilon and other.delta <= self.delta

    def over(self, steps: int) -> "Loss":
        """Return the loss over a walk of `steps` changes (group privacy), rounded up."""
        return Loss(self.epsilon * steps, min(Fraction(1), self.delta * self._growth(steps)))

    def _growth(self, steps: int) -> Fraction:
        """Return an upper bound on 1 + e^ε + … + e^((steps−1)ε) = (e^(steps·ε)−1)/(e^ε−1)."""
        if steps == 1 or self.delta == 0:
            return Fraction(1)
        most = self.epsilon * steps
        if most <= _EXP_LIMIT:
            # Decimal's exp is off by less than one unit of its last digit, hence the next one.
            top = _divide(most, _UP).exp(_UP).next_plus(_UP)
            bottom = _divide(self.epsilon, _DOWN).exp(_DOWN).next_minus(_DOWN)
            if bottom > 1:
                return (Fraction(top) - 1) / (Fraction(bottom) - 1)
        return 1 / self.delta  # nothing useful is left: delta becomes 1

    def __str__(self) -> str:
        text = f"epsilon {decimal_of(self.epsilon)}"
        return text if self.delta == 0 else f"{text}, delta {float(self.delta):.6g}"


Limit = Number | tuple[Number, Number] | Budget | Loss


def _divide(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def steps_between(
    unit: Unit, coordinates: int | None, distance: Fraction | int | None
) -> int | None:
    """Return how many changes of a unit suffice between any two vectors that are this close.

    Args:
        unit: what one step may change.
        coordinates: the most that the two vectors differ in; None: no bound.
        distance: the most that they differ by in the L1 norm; None: no bound.
    """
    if isinstance(unit, UserLevel):
        return 1
    if isinstance(unit, EventLevel):
        return coordinates
    return None if distance is None else math.ceil(distance / exact(unit.distance))


@dataclass(frozen=True, slots=True)
class Charge:
    """One report as the ledger sees it."""

    unit: Unit
    loss: Loss
    items: int | None = None  # the enforced bound k on a vector's items; None: not enforced

    def steps(self, account: Unit) -> int | None:
        """Return how many protected changes one change of the account's unit can take.

        None: there is no bound, so the charge says nothing about that unit.
        """
        if isinstance(account, EventLevel):
            return steps_between(self.unit, 1, 2)
        both = None if self.items is None else 2 * self.items
        if isinstance(account, UserLevel):
            return steps_between(self.unit, both, both)
        distance = exact(account.distance)
        if both is not None:
            distance = min(distance, Fraction(both))
        return steps_between(self.unit, both, distance)

    def cost(self, account: Unit) -> Loss | None:
        """Return what the charge costs in an account; None where there is no bound."""
        steps = self.steps(account)
        return None if steps is None else self.loss.over(steps)


@dataclass(frozen=True, slots=True)
class Spending:
    """How often each charge was made so far; the accounts of all units follow from it."""

    counts: Mapping[Charge, int] = field(default_factory=dict)

    def plus(self, charge: Charge, count: int = 1) -> "Spending":
        """Return the spending with `count` more of a charge."""
        return Spending({**self.counts, charge: self.counts.get(charge, 0) + count})

    def spent(self, account: Unit) -> Loss | None:
        """Return what an account has spent; None where some charge has no bound there."""
        total = Loss()
        for charge, count in self.counts.items():
            cost = charge.cost(account)
            if cost is None:
                return None
            total += cost.times(count)
        return total


@dataclass(frozen=True, slots=True)
class Limits:
    """What each account may spend in all, set by the application."""

    accounts: Mapping[Unit, Loss]

    @classmethod
    def of(cls, limits: Mapping[str, Limit] | Mapping[Unit, Limit]) -> "Limits":
        """Return the limits that a mapping names, such as {"event": 4, "user": (8, "1e-6")}."""
        if not isinstance(limits, Mapping) or not limits:
            raise InvalidInput("a ledger needs at least one limit, on event, user or l1:DISTANCE")
        return cls({parse_unit(unit): Loss.of(limit) for unit, limit in limits.items()})

    def accept(self, charge: Charge) -> None:
        """Raise `PlanRefused` where a charge has no bound in a limited account."""
        for account in self.accounts:
            if charge.cost(account) is None:
                raise PlanRefused(
                    f"the plan protects {charge.unit} and its mechanism takes any number of items, "
                    f"so it has no bound at {account} level, which the ledger limits; use a plan "
                    f"that protects {account}"
                )

    def admit(self, spending: Spending, charge: Charge) -> Spending:
        """Return the spending after a charge, or raise where an account cannot pay for it."""
        self.accept(charge)
        after = spending.plus(charge)
        for account, limit in self.accounts.items():
            before, total = spending.spent(account), after.spent(account)
            if total is None or not limit.covers(total):
                used = "an unbounded amount" if before is None else str(before)
                raise BudgetSpent(
                    f"the {account} account allows {limit} and has spent {used}; "
                    f"this report would cost {charge.cost(account)}"
                )
        return after

    def left(self, spending: Spending, account: Unit) -> Loss:
        """Return what an account has left, which is nothing where its spending has no bound."""
        limit, spent = self.accounts[account], spending.spent(account)
        if spent is None:
            return Loss()
        return Loss(
            max(Fraction(0), limit.epsilon - spent.epsilon),
            max(Fraction(0), limit.delta - spent.delta),
        )


def at_least(unit: Unit, required: Unit) -> bool:
    """Return whether `unit` is of the required kind and, for l1, hides at least its distance."""
    if isinstance(unit, WithinL1) and isinstance(required, WithinL1):
        return unit.distance >= required.distance
    return unit == required
