"""faintly ledger: what a device has spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from faintly.cli.options import argument
from faintly.cli.output import Json, emit, say, table

if TYPE_CHECKING:
    from faintly.client.ledger import Book
    from faintly.core import Unit


def ledger(
    file: Annotated[Path, argument("The ledger of a client.")],
    as_json: Json = False,
) -> None:
    """Show what a client's ledger has spent in each account, and its latest epochs.

    An event plan without an enforced number of items has no bound at user level; such an
    account shows "unbounded". Limits are the application's, so they are not in the file.
    """
    from faintly.client.ledger import read_book

    book = read_book(file)
    accounts = [_account(book, unit) for unit in _units(book)]
    plans: list[dict[str, Any]] = [
        {"digest": digest.hex(), "last_epoch": epoch, "report_kept": (digest, epoch) in book.kept}
        for digest, epoch in sorted(book.last.items())
    ]
    charges = sum(book.spending.counts.values())
    if as_json:
        emit({"charges": charges, "accounts": accounts, "plans": plans})
        return
    say(f"{charges:,} charges")
    table(
        ["account", "epsilon", "delta"],
        [[row["account"], row["epsilon"], row["delta"]] for row in accounts],
    )
    if plans:
        table(
            ["plan", "last epoch", "report"],
            [
                [row["digest"], str(row["last_epoch"]), "kept" if row["report_kept"] else "none"]
                for row in plans
            ],
        )


def _units(book: "Book") -> "list[Unit]":
    from faintly.core import EventLevel, UserLevel, WithinL1

    seen = {charge.unit for charge in book.spending.counts}
    distances = sorted(unit.distance for unit in seen if isinstance(unit, WithinL1))
    return [EventLevel(), UserLevel(), *(WithinL1(distance) for distance in distances)]


def _account(book: "Book", unit: "Unit") -> dict[str, Any]:
    from faintly.core.spending import decimal_of

    spent = book.spending.spent(unit)
    if spent is None:
        return {"account": str(unit), "epsilon": "unbounded", "delta": "unbounded"}
    delta = "0" if spent.delta == 0 else f"{float(spent.delta):.6g}"
    return {"account": str(unit), "epsilon": decimal_of(spent.epsilon), "delta": delta}
