"""faintly inspect, ledger and version: what a file is, what a device spent, what is installed."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from faintly.cli.options import argument
from faintly.cli.output import Json, emit, say, table
from faintly.errors import InvalidInput

if TYPE_CHECKING:
    from faintly.client.ledger import Book
    from faintly.core import Unit


def inspect(
    file: Annotated[Path, argument("A plan, a file of reports or a sketch.")],
    as_json: Json = False,
) -> None:
    """Say what a file is and whether it is intact."""
    from faintly.engine.files import kind_of

    read = {"reports": _reports, "sketch": _sketch, "plan": _plan}.get(kind_of(file))
    if read is None:
        raise InvalidInput(f"{file} is neither a plan, a file of reports nor a sketch")
    document = read(file)
    if as_json:
        emit(document)
        return
    for name, value in document.items():
        if name != "plan":  # a whole document
            say(f"{name:<16} {value}")


def _plan(file: Path) -> dict[str, Any]:
    from faintly.engine.files import load_plan
    from faintly.mechanisms import mechanism_of

    plan = load_plan(file)
    mechanism = mechanism_of(plan)
    return {
        "kind": "plan",
        "digest": plan.digest.hex(),
        "protect": str(plan.unit),
        "epsilon": plan.budget.epsilon,
        "delta": plan.budget.delta,
        "mechanism": plan.mechanism,
        "values": plan.values,
        "universe": plan.universe.kind,
        "decode": plan.decode,
        "clients": plan.clients,
        "sparsity": plan.sparsity,
        "bytes": mechanism.layout.record_bytes,
        "guarantee": mechanism.guarantee().describe(),
        "plan": plan.document(),
    }


def _sketch(file: Path) -> dict[str, Any]:
    from faintly.engine.files import load_sketch

    sketch = load_sketch(file)
    return {
        "kind": "sketch",
        "digest": sketch.plan.digest.hex(),
        "reports": sketch.count,
        "reports_per_map": sketch.reports.tolist(),
        "mass": str(sketch.mass),
        "decode": sketch.plan.decode,
        "file_bytes": file.stat().st_size,
        "plan": sketch.plan.document(),
    }


def _reports(file: Path) -> dict[str, Any]:
    """Walk the batches of a file of reports; of the plan they hold only the digest."""
    from faintly.wire.report_v1 import scan_batches

    batches, reports, digest, record_bytes = 0, 0, b"", 0
    with file.open("rb") as stream:
        for head in scan_batches(stream):
            batches += 1
            reports += head.reports
            digest, record_bytes = head.plan_digest, head.record_bytes
    return {
        "kind": "reports",
        "digest": digest.hex(),
        "reports": reports,
        "batches": batches,
        "bytes": record_bytes,
        "file_bytes": file.stat().st_size,
    }


def ledger(
    file: Annotated[Path, argument("The ledger of a client.")],
    as_json: Json = False,
) -> None:
    """Show what a client's ledger has spent in each account, and its latest epochs.

    An event plan without an enforced number of items has no bound at user level; such an
    account shows "unbounded". Limits are the application's, so they are not in the file.
    """
    from faintly.client.ledger import read_book
    from faintly.core import EventLevel, UserLevel, WithinL1

    book = read_book(file)
    seen = {charge.unit for charge in book.spending.counts}
    distances = sorted(unit.distance for unit in seen if isinstance(unit, WithinL1))
    units: list[Unit] = [EventLevel(), UserLevel(), *map(WithinL1, distances)]
    accounts = [_account(book, unit) for unit in units]
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


def _account(book: "Book", unit: "Unit") -> dict[str, Any]:
    from faintly.core.spending import decimal_of

    spent = book.spending.spent(unit)
    if spent is None:
        return {"account": str(unit), "epsilon": "unbounded", "delta": "unbounded"}
    delta = "0" if spent.delta == 0 else f"{float(spent.delta):.6g}"
    return {"account": str(unit), "epsilon": decimal_of(spent.epsilon), "delta": delta}


def version(as_json: Json = False) -> None:
    """Show the version, and whether the compiled kernels are active."""
    import numpy

    import faintly
    from faintly import kernels

    document = {
        "faintly": faintly.__version__,
        "kernel": kernels.active,
        "instructions": kernels.instructions(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
    }
    if as_json:
        emit(document)
        return
    reason = (
        f"compiled C, {kernels.instructions()}"
        if kernels.active == "c"
        else "numpy; no compiler at installation, or by choice"
    )
    say(f"faintly {faintly.__version__}, kernel {kernels.active} ({reason})")
    say(f"Python {document['python']}, numpy {document['numpy']}")
