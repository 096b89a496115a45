"""Bytes that must be refused, made from good ones by one change each."""

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from faintly.errors import Reject
from faintly.wire import report_v1, sketch_v1

BATCH_HEAD = report_v1.HEADER.size
SKETCH_HEAD = sketch_v1.PREFIX.size
Refusal = tuple[str, bytes, Reject]


def sealed_batch(body: bytes) -> bytes:
    """Return a batch's bytes before the checksum, with the right checksum."""
    return body + struct.pack("<I", zlib.crc32(body))


def sealed_sketch(body: bytes) -> bytes:
    """Return a sketch's bytes before the checksum, with the right checksum."""
    return body + hashlib.blake2b(body, digest_size=sketch_v1.CHECKSUM_BYTES).digest()


def replaced(data: bytes, start: int, new: bytes) -> bytes:
    """Return the data with some bytes overwritten."""
    return data[:start] + new + data[start + len(new) :]


def batches(good: bytes, other_digest: bytes) -> Iterator[Refusal]:
    """Yield refusals made of a batch of two 7-byte reports with ten-bit fields below 911."""
    body = good[:-4]
    record = BATCH_HEAD + 5  # where the first report's field begins
    flipped = replaced(good, BATCH_HEAD, bytes([good[BATCH_HEAD] ^ 1]))
    too_much = replaced(body, record, struct.pack("<H", 911))
    yield "nothing at all", b"", Reject.TRUNCATED
    yield "a header cut short", good[: BATCH_HEAD - 1], Reject.TRUNCATED
    yield "a header and nothing else", good[:BATCH_HEAD], Reject.TRUNCATED
    yield "the checksum cut short", good[:-1], Reject.TRUNCATED
    count = struct.pack("<I", 2**32 - 1)
    yield "more reports promised than sent", replaced(good, 23, count), Reject.TRUNCATED
    yield "another kind of file", replaced(good, 0, b"FNTS"), Reject.BAD_MAGIC
    yield "magic in small letters", replaced(good, 0, b"fntr"), Reject.BAD_MAGIC
    yield "version 0", replaced(good, 4, b"\0"), Reject.BAD_VERSION
    yield "version 2", replaced(good, 4, b"\2"), Reject.BAD_VERSION
    yield "reports of another plan", replaced(good, 5, other_digest), Reject.OTHER_PLAN
    yield "records of another length", replaced(good, 21, b"\x08\0"), Reject.BAD_HEADER
    yield "a bit lost in the first report", flipped, Reject.BAD_CHECKSUM
    yield "a wrong checksum", good[:-1] + bytes([good[-1] ^ 128]), Reject.BAD_CHECKSUM
    yield "one byte too many", good + b"\0", Reject.TRAILING_BYTES
    yield "a second batch after the first", good + good, Reject.TRAILING_BYTES
    fewer = replaced(good, 23, struct.pack("<I", 1))
    yield "fewer reports promised than sent", fewer, Reject.TRAILING_BYTES
    yield "a field at its limit", sealed_batch(too_much), Reject.OUT_OF_RANGE
    yield "a field of ones", sealed_batch(replaced(body, record, b"\xff\x03")), Reject.OUT_OF_RANGE
    for bit in (2, 7):
        unused = replaced(body, record, bytes([0, 1 << bit]))
        yield f"unused bit {bit} of the last byte is set", sealed_batch(unused), Reject.UNUSED_BITS
    yield (
        "the second report sets an unused bit",
        sealed_batch(replaced(body, record + 7, b"\0\x04")),
        Reject.UNUSED_BITS,
    )
    yield from _first_of_two(good, body, record, other_digest)


def _first_of_two(good: bytes, body: bytes, record: int, other_digest: bytes) -> Iterator[Refusal]:
    """Yield batches that break two rules, of which the earlier check speaks."""
    yield "magic before version", replaced(good, 0, b"FNTX\2"), Reject.BAD_MAGIC
    yield "version before plan", replaced(good, 4, b"\2" + other_digest), Reject.BAD_VERSION
    strange = replaced(good, 5, other_digest + b"\x08\0")
    yield "plan before record length", strange, Reject.OTHER_PLAN
    yield "plan before length of the batch", strange[:-1], Reject.OTHER_PLAN
    yield "length before checksum", good[:-4] + bytes(5), Reject.TRAILING_BYTES
    both = replaced(body, record, b"\xff\xff")
    yield "checksum before fields", both + bytes(4), Reject.BAD_CHECKSUM
    yield "range before unused bits", sealed_batch(both), Reject.OUT_OF_RANGE
    later = replaced(replaced(body, record, b"\0\x04"), record + 7, b"\xff\x03")
    yield "the range of all reports before unused bits", sealed_batch(later), Reject.OUT_OF_RANGE


def sketches(good: bytes) -> Iterator[Refusal]:
    """Yield refusals made of a sketch of one map with two cells, 32 bits each."""
    body = good[:-16]
    yield "nothing at all", b"", Reject.TRUNCATED
    yield "shorter than any sketch", good[: SKETCH_HEAD + 15], Reject.TRUNCATED
    yield "a batch of reports", replaced(good, 0, b"FNTR"), Reject.BAD_MAGIC
    yield "version 2", replaced(good, 4, b"\2"), Reject.BAD_VERSION
    yield "the last byte lost", good[:-1], Reject.BAD_CHECKSUM
    yield "a bit lost in the tables", replaced(good, -24, b"\x55"), Reject.BAD_CHECKSUM
    long_header = sealed_sketch(replaced(body, 5, struct.pack("<I", len(body))))
    yield "a header longer than the file", long_header, Reject.BAD_HEADER
    yield "a table cut short, sealed again", sealed_sketch(body[:-1]), Reject.TRUNCATED
    yield "bytes after the tables, sealed again", sealed_sketch(body + b"\0"), Reject.TRAILING_BYTES
    changes: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
        ("a header that is a list", lambda header: [header]),
        ("no plan", lambda header: {**header, "plan": None}),
        ("an invalid plan", lambda header: {**header, "plan": {**header["plan"], "sparsity": 0}}),
        ("no counts", lambda header: {name: header[name] for name in ("mass", "plan", "squares")}),
        ("no mass", lambda header: {name: header[name] for name in ("plan", "reports", "squares")}),
        ("counts of two maps", lambda header: {**header, "reports": [1, 2]}),
        ("a negative count", lambda header: {**header, "reports": [-1]}),
        ("a count beyond 64 bits", lambda header: {**header, "reports": [2**64]}),
        ("negative squares", lambda header: {**header, "squares": "-1"}),
        ("squares that are no number", lambda header: {**header, "squares": "many"}),
        ("a mass that is no string", lambda header: {**header, "mass": 1}),
        ("a mass beyond 64 bits", lambda header: {**header, "mass": str(2**63)}),
    ]
    for why, change in changes:
        yield why, with_header(good, change), Reject.BAD_HEADER
    text = sealed_sketch(sketch_v1.PREFIX.pack(b"FNTS", 1, 4) + b"plan" + body[-16:])
    yield "a header that is not JSON", text, Reject.BAD_HEADER
    yield from _arrays(good)


def _arrays(good: bytes) -> Iterator[Refusal]:
    """Yield sketches whose tables are not what the header makes them."""
    header = header_of(good)
    text = json.dumps(header, sort_keys=True, ensure_ascii=False).encode()
    yield "a header with spaces", _made_of(text, arrays_of(good)), Reject.BAD_HEADER
    wide = {**header, "mass": str(2**31)}
    yield (
        "32-bit tables of a mass that needs 64",
        with_header(good, lambda _: wide),
        Reject.TRUNCATED,
    )
    tables = struct.unpack("<2i", arrays_of(good))
    long = struct.pack("<2q", *tables)
    yield "64-bit tables of a mass that needs 32", made_of(header, long), Reject.TRAILING_BYTES
    start = sketch_v1.PREFIX.size + struct.unpack_from("<I", good, 5)[0]
    padded = replaced(good[:-16], start, b"\1")
    yield "a byte between header and tables", sealed_sketch(padded), Reject.UNUSED_BITS
    less = {**header, "mass": str(sum(map(abs, tables)) - 1)}
    yield "tables heavier than the mass", with_header(good, lambda _: less), Reject.OUT_OF_RANGE
    least = made_of({**header, "mass": str(2**63 - 1)}, struct.pack("<2q", -(2**63), 0))
    yield "the least integer of 64 bits", least, Reject.OUT_OF_RANGE


def columns(good: bytes, limit: int) -> Iterator[Refusal]:
    """Yield refusals made of a direct sketch of three reports, each of one field below `limit`."""
    header, arrays = header_of(good), arrays_of(good)
    massive = made_of({**header, "mass": "1"}, arrays)
    yield "a mass where there are no tables", massive, Reject.BAD_HEADER
    seeds, fields = arrays[:24], arrays[24:]
    swapped = seeds[8:16] + seeds[:8] + seeds[16:]
    yield "reports out of order", made_of(header, swapped + fields), Reject.OUT_OF_ORDER
    twins = seeds[:8] + seeds[:8] + seeds[16:] + struct.pack("<3I", 1, 0, 0)
    yield "equal seeds, fields out of order", made_of(header, twins), Reject.OUT_OF_ORDER
    large = seeds + fields[:8] + struct.pack("<I", limit)
    yield "a field at its limit", made_of(header, large), Reject.OUT_OF_RANGE
    both = swapped + fields[:8] + struct.pack("<I", limit)
    yield "range before order", made_of(header, both), Reject.OUT_OF_RANGE


def header_of(good: bytes) -> dict[str, Any]:
    """Return the header of a sketch."""
    (length,) = struct.unpack_from("<I", good, 5)
    header: dict[str, Any] = json.loads(good[SKETCH_HEAD : SKETCH_HEAD + length])
    return header


def arrays_of(good: bytes) -> bytes:
    """Return the bytes of a sketch's arrays."""
    (length,) = struct.unpack_from("<I", good, 5)
    start = SKETCH_HEAD + length
    return good[start + -start % sketch_v1.ALIGNMENT : -16]


def made_of(header: Any, arrays: bytes) -> bytes:
    """Return a sketch of any header and arrays, with the right padding and checksum."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _made_of(text.encode(), arrays)


def _made_of(text: bytes, arrays: bytes) -> bytes:
    head = sketch_v1.PREFIX.pack(b"FNTS", 1, len(text)) + text
    return sealed_sketch(head + bytes(-len(head) % sketch_v1.ALIGNMENT) + arrays)


def with_header(good: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return a sketch with its header changed and the right checksum."""
    return made_of(change(header_of(good)), arrays_of(good))
