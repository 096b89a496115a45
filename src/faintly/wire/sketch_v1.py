"""Version 1 of a sketch file; spec/wire-v1.md has the byte table.

magic 4 · version 1 · header length 4 · header JSON · arrays · BLAKE2b-128 of all before.
The header carries the whole plan, so a sketch file answers questions by itself.
"""

import hashlib
import json
import re
import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from faintly.core import Plan, Sketch, SketchShape
from faintly.errors import FaintlyError, InvalidPlan, Reject, SketchRejected

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


def decode_sketch(data: bytes, shape_of: Callable[[Plan], SketchShape]) -> Sketch:
    """Return the sketch that `data` is, or raise `SketchRejected` with the reason.

    Args:
        data: the whole file.
        shape_of: a function from the plan to what its sketch holds.
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
        shape = shape_of(plan)
    except FaintlyError as error:
        raise SketchRejected(Reject.BAD_HEADER, f"its plan is invalid: {error}") from None
    return _arrays(body[start:], Sketch(plan, reports, squares), shape)


def _header(text: bytes) -> tuple[Plan, np.ndarray, int]:
    try:
        header = json.loads(text.decode("utf-8"))
        plan = Plan.from_json(json.dumps(header["plan"], ensure_ascii=False))
    except InvalidPlan as error:
        raise SketchRejected(Reject.BAD_HEADER, f"its plan is invalid: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SketchRejected(Reject.BAD_HEADER, "the header is not what a sketch has") from None
    if set(header) != {"plan", "reports", "squares"}:
        raise SketchRejected(Reject.BAD_HEADER, "the header has other fields than a sketch's")
    return plan, _counts(header["reports"], plan), _squares(header["squares"])


def _counts(reports: object, plan: Plan) -> np.ndarray:
    wanted = max(1, plan.hashing.maps)
    if (
        isinstance(reports, list)
        and len(reports) == wanted
        and all(type(count) is int and 0 <= count < 2**62 for count in reports)
    ):
        return np.array(reports, dtype=np.int64)
    raise SketchRejected(Reject.BAD_HEADER, f"reports must be {wanted} counts")


def _squares(squares: object) -> int:
    # A string, since it may exceed what JSON readers keep of a number.
    if isinstance(squares, str) and re.fullmatch(r"0|[1-9][0-9]{0,99}", squares):
        return int(squares)
    raise SketchRejected(Reject.BAD_HEADER, "squares must be a decimal string")


def _arrays(body: bytes, counted: Sketch, shape: SketchShape) -> Sketch:
    if shape.tables is not None:
        _expect(body, 8 * shape.tables[0] * shape.tables[1])
        tables = np.frombuffer(body, dtype="<i8").reshape(shape.tables).astype(np.int64)
        return replace(counted, tables=tables)
    count, width = counted.count, len(shape.limits)
    _expect(body, count * (8 + 4 * width))
    seeds = np.frombuffer(body, dtype="<u8", count=count).astype(np.uint64)
    fields = np.frombuffer(body, dtype="<u4", offset=8 * count).reshape(count, width)
    outside = fields >= np.array(shape.limits, dtype=np.uint64)
    if outside.any():
        position = int(np.argmax(outside.any(axis=1)))
        raise SketchRejected(Reject.OUT_OF_RANGE, f"a field of report {position} is out of range")
    return replace(counted, hash_seeds=seeds, fields=fields.astype(np.uint32))


def _expect(body: bytes, size: int) -> None:
    if len(body) < size:
        raise SketchRejected(Reject.TRUNCATED, f"{size} bytes of arrays expected, got {len(body)}")
    if len(body) > size:
        raise SketchRejected(Reject.TRAILING_BYTES, f"{len(body) - size} bytes after the arrays")
