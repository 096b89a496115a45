"""What a preview found, in sentences that need no statistics to be read."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faintly.simulate.preview import Preview

KINDS = {
    "set": "Each person holds a key or does not",
    "nonnegative": "Each person holds keys with values from 0 to 1",
    "signed": "Each person holds keys with values from -1 to 1",
}


def describe(seen: "Preview") -> list[str]:
    """Return the sentences, in the order in which people ask."""
    return [
        _who(seen),
        _promise(seen),
        _found(seen),
        _smallest(seen),
        _more(seen),
        *filter(None, [_bias(seen)]),
    ]


def _who(seen: "Preview") -> str:
    held = seen.held
    again = f" Of the rows, {held.repeated:,} repeat a key of their person." * bool(held.repeated)
    return (
        f"{_count(held.clients, 'person', 'people')}, {_count(held.keys, 'key', 'keys')}, "
        f"{_count(held.rows, 'row', 'rows')}. {KINDS[held.values]}; "
        f"half of them hold {held.half:,} or fewer, the most {held.most:,}.{again}"
    )


def _promise(seen: "Preview") -> str:
    items = "1 item" if seen.plan.sparsity == 1 else f"{seen.plan.sparsity:,} items"
    return (
        f"Each sends one report of {seen.bytes:,} bytes, made for people of up to {items}. "
        f"{seen.guarantee.short()}"
    )


def _found(seen: "Preview") -> str:
    rows = len(seen.truth)
    right = round(seen.recall * rows)
    return (
        f"Keys that stand out of the noise: {seen.found:,} of {seen.held.keys:,}. Of the true top "
        f"{rows:,}, {right:,} are in the list. Of all 95 % intervals, {seen.coverage:.0%} hold the "
        "truth."
    )


def _smallest(seen: "Preview") -> str:
    clients = seen.held.clients
    if seen.visible > 1:
        return (
            "Not even a key that everybody holds would surely stand out: these people are too few "
            "for this epsilon."
        )
    people = f", {round(seen.visible * clients):,} of {clients:,} people"
    return (
        f"The smallest {_mean(seen)} that stands out is about {seen.visible:.3g}"
        f"{people if seen.held.values == 'set' else ''}; {seen.large:,} "
        f"{'key has' if seen.large == 1 else 'keys have'} one as large."
    )


def _more(seen: "Preview") -> str:
    more = seen.more
    what = (
        f"the true top {more.wanted:,}, down to {more.target:.2g}"
        if more.wanted
        else f"{_mean(seen)}s half as small, {more.target:.2g}"
    )
    budget = (
        f"epsilon {more.epsilon:.3g} instead of {seen.plan.budget.epsilon:g}"
        if more.epsilon is not None
        else "no epsilon that still protects people"
    )
    crowd = f"{_count(more.clients, 'person', 'people')} instead of {seen.held.clients:,}"
    return f"To find {what}, it would take {crowd}, or {budget}."


def _bias(seen: "Preview") -> str:
    return seen.excess.describe() if seen.excess.over else ""


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _mean(seen: "Preview") -> str:
    return "share" if seen.held.values == "set" else "mean"
