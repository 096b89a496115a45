"""Version 1 of a sketch file; spec/wire-v1.md has the byte table.

magic 4 · version 1 · header length 4 · header JSON · arrays · BLAKE2b-128 of all before.
The header carries the whole plan, so a sketch file answers questions by itself.
"""

import hashlib
import json
import struct
from collections.abc import Callable

import numpy as np

from faintly.core import Plan, Sketch
from faintly.errors import InvalidPlan, Reject, SketchRejected

MAGIC = b"FNTS"
VERSION = 1
PREFIX = struct.Struct("<4sBI")
CHECKSUM_BYTES = 16
MAX_HEADER_BYTES = 2**28  # a named universe of some million names


def encode_sketch(sketch: Sketch) -> bytes:
    """Return the sketch as the bytes of a file; the same sketch always gives the same bytes."""
    header = {
        "plan": sketch.plan.document(),
        "reports": sketch.reports.tolist(),
        "squares": str(sketch.squares),
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    parts = [PREFIX.pack(MAGIC, VERSION, len(text)), text]
    if sketch.tables is not None:
        parts.append(sketch.tables.astype("<i8").tobytes())
    else:
        assert sketch.hash_seeds is not None and sketch.fields is not None
        parts.append(sketch.hash_seeds.astype("<u8").tobytes())
        parts.append(sketch.fields.astype("<u4").tobytes())
    body = b"".join(parts)
    return body + hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()


def decode_sketch(data: bytes, empty_of: Callable[[Plan], Sketch]) -> Sketch:
    """Return the sketch that `data` is, or raise `SketchRejected` with the reason.

    Args:
        data: the whole file.
        empty_of: a function from the plan to its empty sketch, which says what shape to expect.
    """
    if len(data) < PREFIX.size + CHECKSUM_BYTES:
        raise SketchRejected(Reject.TRUNCATED, f"{len(data)} bytes cannot hold a sketch")
    magic, version, length = PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise SketchRejected(Reject.BAD_MAGIC, "this is not a faintly sketch")
    if version != VERSION:
        raise SketchRejected(
            Reject.BAD_VERSION, f"version {version} is not known here; this reads {VERSION}"
        )
    body, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest() != checksum:
        raise SketchRejected(
            Reject.BAD_CHECKSUM, "the sketch was damaged or cut short; aggregate the reports again"
        )
    if length > min(MAX_HEADER_BYTES, len(body) - PREFIX.size):
        raise SketchRejected(Reject.BAD_HEADER, "the header is longer than the file")
    start = PREFIX.size + length
    plan, reports, squares = _header(body[PREFIX.size : start])
    try:
        empty = empty_of(plan)
    except InvalidPlan as error:
        raise SketchRejected(Reject.BAD_HEADER, f"its plan is invalid: {error}") from None
    return _arrays(body[start:], empty, reports, squares)


def _header(text: bytes) -> tuple[Plan, np.ndarray, int]:
    try:
        header = json.loads(text)
        plan = Plan.from_json(json.dumps(header["plan"]))
        reports = np.array(header["reports"], dtype=np.int64)
        squares = int(header["squares"])
    except InvalidPlan as error:
        raise SketchRejected(Reject.BAD_HEADER, f"its plan is invalid: {error}") from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise SketchRejected(Reject.BAD_HEADER, "the header is not what a sketch has") from None
    if reports.shape != (max(1, plan.hashing.maps),) or (reports < 0).any() or squares < 0:
        raise SketchRejected(Reject.BAD_HEADER, "the counts do not fit the plan")
    return plan, reports, squares


def _arrays(body: bytes, empty: Sketch, reports: np.ndarray, squares: int) -> Sketch:
    plan = empty.plan
    if empty.tables is not None:
        shape = empty.tables.shape
        _expect(body, 8 * shape[0] * shape[1])
        tables = np.frombuffer(body, dtype="<i8").reshape(shape).astype(np.int64)
        return Sketch(plan, reports, squares, tables=tables)
    assert empty.fields is not None
    count, width = int(reports.sum()), empty.fields.shape[1]
    _expect(body, count * (8 + 4 * width))
    seeds = np.frombuffer(body, dtype="<u8", count=count).astype(np.uint64)
    fields = np.frombuffer(body, dtype="<u4", offset=8 * count).reshape(count, width)
    return Sketch(plan, reports, squares, hash_seeds=seeds, fields=fields.astype(np.uint32))


def _expect(body: bytes, size: int) -> None:
    if len(body) < size:
        raise SketchRejected(Reject.TRUNCATED, f"{size} bytes of arrays expected, got {len(body)}")
    if len(body) > size:
        raise SketchRejected(Reject.TRAILING_BYTES, f"{len(body) - size} bytes after the arrays")
