"""Plans, reports and sketches on disk. Nothing is ever half written."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from faintly import durable
from faintly.core import AnyArray, Plan, ReportBatch, Sketch, SketchShape
from faintly.errors import InvalidInput, InvalidPlan, Reject, Rejected, SketchRejected
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1, sketch_v1

HEAD_BYTES = 64  # that identify a file: a magic number, or the space before a plan's brace
# What to do with a file of one kind where another was expected.
INSTEAD = {
    ("sketch", "reports"): "these are reports; aggregate them first: faintly aggregate",
    ("sketch", "plan"): "this is a plan; a sketch is what faintly aggregate makes of reports",
    ("reports", "sketch"): "this is a sketch already; query it, or merge sketches: faintly merge",
    ("reports", "plan"): "this is a plan; reports are what faintly encode makes of data",
    ("plan", "reports"): "these are reports; give the plan that they were made for",
    ("plan", "sketch"): "this is a sketch; give the plan that it was made for",
}
CHECKED = 2**20  # reports of a direct sketch that are checked together


@contextmanager
def atomic_write(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Yield a stream that becomes `path` only if everything was written and reached the disk.

    Args:
        path: an existing file keeps its mode.
        private: nobody but the owner may read it, whatever the mode of an existing file.
    """
    path = path.resolve()  # a symbolic link stays, and its target is replaced
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"cannot write {path}: it is not an ordinary file")
    # Several processes may write the same file: each uses a name of its own until it is done.
    part = path.with_name(f".{path.name}.{secrets.token_urlsafe(6)}")
    kept = None if private or not path.exists() else path.stat().st_mode & 0o777
    shared = not private and kept is None
    try:
        with durable.replacing(path, part, 0o666 if shared else durable.PRIVATE) as stream:
            yield stream
            if kept is not None:
                part.chmod(kept)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in errors about it."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    except InvalidPlan as error:
        raise InvalidPlan(f"{path}: {error}") from None
    except Rejected as error:
        error.add_place(path)
        raise


def read_bytes(path: Path) -> bytes:
    """Return the file's bytes, or raise with the reason why it cannot be read."""
    with _reading(path):
        return path.read_bytes()


def kind_of(path: Path) -> str:
    """Return what a file claims to be: plan, reports, sketch, or other."""
    with _reading(path), path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith(report_v1.MAGIC):
        return "reports"
    if head.startswith(sketch_v1.MAGIC):
        return "sketch"
    return "plan" if head.lstrip().startswith(b"{") else "other"


def expect(path: Path, wanted: str) -> None:
    """Raise if a file is clearly of another kind, with what to do instead."""
    if not path.is_file():
        return  # a pipe can be read only once; its reader reports what is wrong with it
    found = kind_of(path)
    if (wanted, found) in INSTEAD:
        raise InvalidInput(f"{path}: {INSTEAD[wanted, found]}")


def load_plan(path: Path) -> Plan:
    """Return the plan in a file, having checked that its integers keep its promise."""
    plan = parse_plan(path)
    with _reading(path):
        mechanism_of(plan)
    return plan


def parse_plan(path: Path) -> Plan:
    """Return the plan in a file, whether or not its integers keep its promise."""
    expect(path, "plan")
    with _reading(path):
        return Plan.from_json(path.read_bytes())


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan, indented for people; its digest does not depend on the indentation."""
    with atomic_write(path) as stream:
        stream.write(plan.to_json().encode("utf-8"))


def read_reports(plan: Plan, path: Path) -> Iterator[ReportBatch]:
    """Yield the batches of a file of reports; errors name the file."""
    expect(path, "reports")
    layout = mechanism_of(plan).layout
    with _reading(path), path.open("rb") as stream:
        yield from report_v1.read_batches(stream, plan.digest, layout)


def save_sketch(sketch: Sketch, path: Path) -> None:
    """Write a sketch file, a piece at a time: its arrays are never copied as a whole."""
    with atomic_write(path) as stream:
        sketch_v1.write_sketch(sketch, stream)


def load_sketch(path: Path) -> Sketch:
    """Return the sketch in a file, checked from end to end.

    Its arrays stay on the disk and are mapped into memory, read-only. The file may be replaced
    by another in the meantime, as `save_sketch` does, but must not be changed in place.
    """
    expect(path, "sketch")
    with _reading(path):
        sketch = sketch_v1.decode_sketch(_mapped(path), sketch_shape)
        if sketch.tables is None:
            _check_counts(sketch)
    return sketch


def _check_counts(sketch: Sketch) -> None:
    """Refuse counts and squares that are not those of the reports themselves."""
    mechanism = mechanism_of(sketch.plan)
    reports, squares = np.zeros_like(sketch.reports), 0
    for batch in sketch.batches(CHECKED):
        reports += np.bincount(mechanism.tables.map_of(batch), minlength=len(reports))
        squares += mechanism.tables.squares(batch)
    if squares != sketch.squares or not np.array_equal(reports, sketch.reports):
        raise SketchRejected(
            Reject.BAD_HEADER, "its counts are not those of its reports; aggregate them again"
        )


def _mapped(path: Path) -> bytes | AnyArray:
    if path.is_file() and path.stat().st_size:
        return np.memmap(path, np.uint8, "r")
    return path.read_bytes()  # pipes have no size, and an empty file cannot be mapped


def sketch_shape(plan: Plan) -> SketchShape:
    """Return what a sketch of the plan holds."""
    return mechanism_of(plan).tables.sketch_shape
