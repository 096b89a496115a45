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
    held, rows = seen.held, len(seen.truth)
    again = f" Of the rows, {held.repeated:,} repeat a key of their person." * bool(held.repeated)
    who = (
        f"{_count(held.clients, 'person', 'people')}, {_count(held.keys, 'key', 'keys')}, "
        f"{_count(held.rows, 'row', 'rows')}. {KINDS[held.values]}; "
        f"half of them hold {held.half:,} or fewer, the most {held.most:,}.{again}"
    )
    promise = (
        f"Each sends one report of {seen.bytes:,} bytes, made for people of up to "
        f"{_count(seen.plan.sparsity, 'item', 'items')}. {seen.guarantee.short()}"
    )
    found = (
        f"Keys that stand out from the noise: {seen.found:,} of {held.keys:,}. Of the true top "
        f"{rows:,}, {round(seen.recall * rows):,} are in the list. Of all 95 % intervals, "
        f"{seen.coverage:.0%} hold the truth."
    )
    beyond = [seen.excess.describe()] if seen.excess.over else []
    return [who, promise, found, _smallest(seen), _more(seen), *beyond]


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


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _mean(seen: "Preview") -> str:
    return "share" if seen.held.values == "set" else "mean"
