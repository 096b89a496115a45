"""Version 1 of a sketch file; spec/wire-v1.md has the byte table.

magic 4 · version 1 · header length 4 · header JSON · zeros · arrays · BLAKE2b-128 of all before.
The header carries the whole plan, so a sketch file answers questions by itself. The arrays begin
at a multiple of 64 bytes, so that a file can be mapped into memory and used without a copy.
"""

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from faintly.core import AnyArray, Plan, Sketch, SketchShape
from faintly.core.sketch import MOST_REPORTS, in_order, table_type
from faintly.core.strict_json import canonical_json
from faintly.errors import FaintlyError, InvalidPlan, Reject, SketchRejected

MAGIC = b"FNTS"
VERSION = 1
PREFIX = struct.Struct("<4sBI")
CHECKSUM_BYTES = 16
ALIGNMENT = 64  # a cache line, and a multiple of every vector register
MAX_HEADER_BYTES = 2**28  # a named universe of several million names
PIECE = 2**18  # entries or reports that are read, checked or written at a time
LIMIT = 2**63  # what the mass of 64-bit tables stays below


def write_sketch(sketch: Sketch, stream: BinaryIO) -> None:
    """Write the sketch as a file, a piece at a time; one sketch always gives the same bytes."""
    digest = hashlib.blake2b(digest_size=CHECKSUM_BYTES)
    for piece in _pieces(sketch):
        digest.update(piece)
        stream.write(piece)
    stream.write(digest.digest())


def _pieces(sketch: Sketch) -> Iterator[bytes]:
    text = canonical_json(
        {
            "mass": str(sketch.mass),
            "plan": sketch.plan.document(),
            "reports": sketch.reports.tolist(),
            "squares": str(sketch.squares),
        }
    )
    yield PREFIX.pack(MAGIC, VERSION, len(text)) + text + bytes(_padding(len(text)))
    if sketch.tables is not None:
        yield from _portions(sketch.tables.reshape(-1), _table_format(sketch.mass))
        return
    assert sketch.hash_seeds is not None and sketch.fields is not None
    yield from _portions(sketch.hash_seeds, "<u8")
    yield from _portions(sketch.fields, "<u4")


def _padding(header_bytes: int) -> int:
    return -(PREFIX.size + header_bytes) % ALIGNMENT


def _table_format(mass: int) -> str:
    return "<i4" if table_type(mass) is np.int32 else "<i8"


def _portions(array: AnyArray, layout: str) -> Iterator[bytes]:
    for start in range(0, len(array), PIECE):
        yield array[start : start + PIECE].astype(layout, copy=False).tobytes()


def decode_sketch(data: bytes | AnyArray, shape_of: Callable[[Plan], SketchShape]) -> Sketch:
    """Return the sketch in `data`, or raise `SketchRejected` with the reason.

    Args:
        data: the whole file, as bytes or as an array of bytes that may be mapped from a disk.
            The arrays of the sketch are views of `data`, if byte order and alignment allow.
        shape_of: a function from the plan to what its sketch holds.
    """
    if len(data) < PREFIX.size + CHECKSUM_BYTES:
        raise SketchRejected(Reject.TRUNCATED, f"{len(data)} bytes cannot hold a sketch")
    whole = np.frombuffer(data, dtype=np.uint8)
    magic, version, length = PREFIX.unpack(whole[: PREFIX.size].tobytes())
    if magic != MAGIC:
        raise SketchRejected(Reject.BAD_MAGIC, "this is not a faintly sketch")
    if version != VERSION:
        raise SketchRejected(
            Reject.BAD_VERSION, f"version {version} is not known here; this reads {VERSION}"
        )
    body = _checked_body(whole)
    if length > min(MAX_HEADER_BYTES, len(body) - PREFIX.size):
        raise SketchRejected(Reject.BAD_HEADER, "the header is longer than the file")
    start = PREFIX.size + length
    counted = _header(body[PREFIX.size : start].tobytes())
    try:
        shape = shape_of(counted.plan)
    except FaintlyError as error:
        raise SketchRejected(Reject.BAD_HEADER, f"its plan is invalid: {error}") from None
    return _arrays(body[start:], _padding(length), counted, shape)


def _checked_body(whole: AnyArray) -> AnyArray:
    """Return all but the digest, having checked it."""
    body, checksum = whole[:-CHECKSUM_BYTES], whole[-CHECKSUM_BYTES:].tobytes()
    if hashlib.blake2b(body.data, digest_size=CHECKSUM_BYTES).digest() != checksum:
        raise SketchRejected(
            Reject.BAD_CHECKSUM, "the sketch was damaged or cut short; aggregate the reports again"
        )
    return body


def _header(text: bytes) -> Sketch:
    """Return a sketch that has everything but its arrays."""
    try:
        header = json.loads(text.decode("utf-8"))
        plan = Plan.from_json(json.dumps(header["plan"], ensure_ascii=False))
        canonical = canonical_json(header) == text
    except InvalidPlan as error:
        raise SketchRejected(Reject.BAD_HEADER, f"its plan is invalid: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SketchRejected(Reject.BAD_HEADER, "the header is not that of a sketch") from None
    if set(header) != {"mass", "plan", "reports", "squares"}:
        raise SketchRejected(Reject.BAD_HEADER, "the header's fields are not those of a sketch")
    mass, squares = (_number(header[name], name) for name in ("mass", "squares"))
    if mass >= (LIMIT if plan.decode == "table" else 1):
        raise SketchRejected(Reject.BAD_HEADER, "mass is more than such a sketch can have")
    if not canonical:
        raise SketchRejected(Reject.BAD_HEADER, "the header is not written canonically")
    return Sketch(plan, _counts(header["reports"], plan), squares, mass)


def _counts(reports: object, plan: Plan) -> np.ndarray:
    expected = max(1, plan.hashing.maps)
    if (
        isinstance(reports, list)
        and len(reports) == expected
        and all(type(count) is int and count >= 0 for count in reports)
        and sum(reports) < MOST_REPORTS
    ):
        return np.array(reports, dtype=np.int64)
    raise SketchRejected(
        Reject.BAD_HEADER, f"reports must be {expected} counts, below 2^62 together"
    )


def _number(text: object, name: str) -> int:
    # A string: JSON readers may round so large a number.
    if isinstance(text, str) and re.fullmatch(r"0|[1-9][0-9]{0,99}", text):
        return int(text)
    raise SketchRejected(Reject.BAD_HEADER, f"{name} must be a decimal string")


def _arrays(body: AnyArray, padding: int, counted: Sketch, shape: SketchShape) -> Sketch:
    if shape.tables is not None:
        layout = np.dtype(_table_format(counted.mass))
        arrays = _expected(body, padding, layout.itemsize * shape.tables[0] * shape.tables[1])
        tables = _typed(arrays, layout).reshape(shape.tables)
        _check_mass(tables.reshape(-1), counted.mass)
        return replace(counted, tables=tables)
    count, width = counted.count, len(shape.limits)
    arrays = _expected(body, padding, count * (8 + 4 * width))
    seeds = _typed(arrays[: 8 * count], np.dtype("<u8"))
    fields = _typed(arrays[8 * count :], np.dtype("<u4")).reshape(count, width)
    _check_columns(seeds, fields, shape.limits)
    return replace(counted, hash_seeds=seeds, fields=fields)


def _expected(body: AnyArray, padding: int, size: int) -> AnyArray:
    """Return the bytes of the arrays, having checked the padding and the size."""
    size += padding
    if len(body) < size:
        raise SketchRejected(Reject.TRUNCATED, f"{size} bytes of arrays expected, got {len(body)}")
    if len(body) > size:
        raise SketchRejected(Reject.TRAILING_BYTES, f"{len(body) - size} bytes after the arrays")
    if body[:padding].any():
        raise SketchRejected(Reject.UNUSED_BITS, "the bytes between header and arrays must be 0")
    return body[padding:]


def _typed(data: AnyArray, layout: np.dtype[Any]) -> AnyArray:
    """Return bytes as integers, copied only for another byte order or alignment."""
    return np.require(data.view(layout), layout.newbyteorder("="), "A")


def _check_mass(entries: AnyArray, mass: int) -> None:
    """Refuse tables whose entries outweigh the stated mass: a transform could overflow."""
    total = 0
    for start in range(0, len(entries), PIECE):
        # Unsigned, because the magnitude of the least integer does not fit a signed one.
        magnitude = np.abs(entries[start : start + PIECE].astype(np.int64)).view(np.uint64)
        low = int((magnitude & np.uint64(2**32 - 1)).sum())
        total += (int((magnitude >> np.uint64(32)).sum()) << 32) + low
    if total > mass:
        raise SketchRejected(Reject.OUT_OF_RANGE, f"the tables hold more than the mass {mass}")


def _check_columns(seeds: AnyArray, fields: AnyArray, limits: tuple[int, ...]) -> None:
    """Refuse fields at or above their limits, and reports out of order."""
    most = np.array(limits, dtype=np.uint64)
    for start in range(0, len(seeds), PIECE):
        outside = (fields[start : start + PIECE] >= most).any(axis=1)
        if outside.any():
            position = start + int(np.argmax(outside))
            raise SketchRejected(
                Reject.OUT_OF_RANGE, f"a field of report {position} is out of range"
            )
    for start in range(0, len(seeds), PIECE):
        # Pieces overlap by one report, so that their borders are compared, too.
        piece = slice(start, start + PIECE + 1)
        if not in_order(seeds[piece], fields[piece]):
            raise SketchRejected(Reject.OUT_OF_ORDER, f"reports from {start} on are not sorted")
