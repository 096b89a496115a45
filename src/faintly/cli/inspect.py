"""faintly inspect: what a file is."""

from pathlib import Path
from typing import Annotated, Any

from faintly.cli.options import argument
from faintly.cli.output import Json, emit, say
from faintly.errors import InvalidInput


def inspect(
    file: Annotated[Path, argument("A plan, a file of reports or a sketch.")],
    as_json: Json = False,
) -> None:
    """Say what a file is and whether it is whole."""
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
    """Walk the batches of a file of reports, which says nothing about a plan but its digest."""
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
