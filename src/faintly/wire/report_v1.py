"""Version 1 of a report record and of a batch of them; spec/wire-v1.md has the byte tables.

A batch is   magic 4 · version 1 · plan digest 16 · record bytes 2 · count 4 ·
records count×record bytes · CRC-32 of all before 4,   little-endian.
A file of reports is one batch after another.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from faintly import kernels
from faintly.core import AnyArray, Layout, Report, ReportBatch
from faintly.errors import InvalidPlan, Reject, ReportRejected

MAGIC = b"FNTR"
VERSION = 1
HEADER = struct.Struct("<4sB16sHI")
CHECKSUM_BYTES = 4
CHECKED = 0x2144DF1C  # the CRC-32 of any data followed by its own CRC-32
MAX_RECORD_BYTES = 2**16 - 1
MOST_PLAIN_BITS = 256  # of all fields, up to which one report is checked as one integer
BATCH_REPORTS = 65_536  # what encoders put into one batch: a few megabytes of short reports


class Head(NamedTuple):
    """What the header of a batch says."""

    plan_digest: bytes
    record_bytes: int
    reports: int

    @property
    def size(self) -> int:
        """Return the bytes of the whole batch."""
        return HEADER.size + self.reports * self.record_bytes + CHECKSUM_BYTES


def pack(batch: ReportBatch, layout: Layout) -> AnyArray:
    """Return the records of a batch as an array (reports, record bytes) of bytes."""
    return kernels.pack_records(batch.hash_seeds, batch.fields, layout.seed_bytes, layout.widths)


def unpack(records: AnyArray, plan_digest: bytes, layout: Layout) -> ReportBatch:
    """Return the reports that the records hold, or say which record breaks which rule."""
    found = kernels.unpack_records(records, layout.seed_bytes, layout.widths, layout.limits)
    if found.outside is not None:
        column, report = found.outside
        raise ReportRejected(
            Reject.OUT_OF_RANGE,
            f"field {column} of report {report} is not below {layout.limits[column]}",
        )
    if found.unused is not None:
        raise ReportRejected(
            Reject.UNUSED_BITS, f"report {found.unused} sets bits that no field uses"
        )
    return ReportBatch(plan_digest, found.seeds, found.fields)


def encode_report(report: Report, layout: Layout) -> bytes:
    """Return one report's record."""
    return pack(ReportBatch.of([report]), layout).tobytes()


def encode_batch(batch: ReportBatch, layout: Layout) -> bytes:
    """Return the batch as bytes, header and checksum included."""
    if layout.record_bytes > MAX_RECORD_BYTES:
        raise InvalidPlan(
            f"a report of this plan has {layout.record_bytes} bytes, and at most "
            f"{MAX_RECORD_BYTES} can be sent; such a plan is for simulation"
        )
    head = Head(batch.plan_digest, layout.record_bytes, len(batch))
    return _framed(head, pack(batch, layout).tobytes())


def decode_batch(data: bytes, plan_digest: bytes, layout: Layout) -> ReportBatch:
    """Return the one batch in `data`, or raise `ReportRejected` with the reason."""
    head = read_head(data[: HEADER.size])
    _check_plan(head, plan_digest, layout)
    if len(data) < head.size:
        raise ReportRejected(
            Reject.TRUNCATED, f"the batch needs {head.size} bytes, got {len(data)}"
        )
    if len(data) > head.size:
        raise ReportRejected(
            Reject.TRAILING_BYTES, f"{len(data) - head.size} bytes after the batch"
        )
    return _decode_body(data, plan_digest, layout)


class BatchCounter:
    """Counts the reports of batches of one plan, and refuses what `decode_batch` refuses.

    Most batches that a collector receives hold a single report. Checking one as a plain integer is
    several times as fast as with arrays.
    """

    def __init__(self, plan_digest: bytes, layout: Layout) -> None:
        """Precompute what batches of one report share."""
        self._digest, self._layout = plan_digest, layout
        self._head, self._size = b"", -1  # match nothing: `decode_batch` checks all
        self._fields = slice(HEADER.size + layout.seed_bytes, -CHECKSUM_BYTES)
        self._end = 1 << layout.payload_bits
        self._limited: list[tuple[int, int, int]] = []  # shift, mask and limit
        # A header cannot state every record's size, and large integers are slower than arrays.
        if layout.payload_bits <= MOST_PLAIN_BITS:
            self._head = HEADER.pack(MAGIC, VERSION, plan_digest, layout.record_bytes, 1)
            self._size = len(self._head) + layout.record_bytes + CHECKSUM_BYTES
        shift = 0
        for width, limit in zip(layout.widths, layout.limits, strict=True):
            if limit < 1 << width:
                self._limited.append((shift, (1 << width) - 1, limit))
            shift += width

    def count(self, data: bytes) -> int:
        """Return how many reports the one batch has, or raise as `decode_batch` does."""
        if self._is_one_report(data):
            return 1
        return len(decode_batch(data, self._digest, self._layout))

    def _is_one_report(self, data: bytes) -> bool:
        """Return whether this is a valid batch of one report; `decode_batch` says why not."""
        if len(data) != self._size or not data.startswith(self._head):
            return False
        if zlib.crc32(data) != CHECKED:
            return False
        fields = int.from_bytes(data[self._fields], "little")
        for shift, mask, limit in self._limited:  # a generator would take as long as the rest
            if fields >> shift & mask >= limit:
                return False
        return fields < self._end


def records_of(data: bytes) -> memoryview:
    """Return the records of a valid batch, without a copy."""
    return memoryview(data)[HEADER.size : -CHECKSUM_BYTES]


def read_head(data: bytes) -> Head:
    """Return what a batch header says, or raise `ReportRejected` with the reason."""
    if len(data) < HEADER.size:
        raise ReportRejected(Reject.TRUNCATED, f"{len(data)} bytes cannot hold a batch header")
    magic, version, digest, record_bytes, count = HEADER.unpack(data)
    if magic != MAGIC:
        raise ReportRejected(Reject.BAD_MAGIC, "this is not a batch of faintly reports")
    if version != VERSION:
        raise ReportRejected(
            Reject.BAD_VERSION, f"version {version} is not known here; this reads {VERSION}"
        )
    return Head(digest, record_bytes, count)


def _check_plan(head: Head, plan_digest: bytes, layout: Layout) -> None:
    if head.plan_digest != plan_digest:
        raise ReportRejected(
            Reject.OTHER_PLAN,
            f"the batch belongs to plan {head.plan_digest.hex()}, not {plan_digest.hex()}",
        )
    if head.record_bytes != layout.record_bytes:
        raise ReportRejected(
            Reject.BAD_HEADER,
            f"records of {head.record_bytes} bytes, but the plan's have {layout.record_bytes}",
        )


def _check_sum(data: bytes) -> None:
    if zlib.crc32(data) != CHECKED:
        raise ReportRejected(Reject.BAD_CHECKSUM, "the batch was damaged on its way; send it again")


def _decode_body(data: bytes, plan_digest: bytes, layout: Layout) -> ReportBatch:
    _check_sum(data)
    records = np.frombuffer(records_of(data), dtype=np.uint8)
    return unpack(records.reshape(-1, layout.record_bytes), plan_digest, layout)


def _raw_batches(stream: BinaryIO) -> Iterator[tuple[Head, bytes]]:
    empty = True
    while data := stream.read(HEADER.size):
        empty = False
        head = read_head(data)
        # A header that lies about its size must not make us allocate gigabytes at once.
        body = b"".join(_pieces(stream, head.size - HEADER.size))
        if HEADER.size + len(body) < head.size:
            raise ReportRejected(
                Reject.TRUNCATED,
                f"the last batch lacks {head.size - HEADER.size - len(body)} of its bytes",
            )
        yield head, data + body
    if empty:
        raise ReportRejected(
            Reject.TRUNCATED, "the file is empty; encode writes at least one batch"
        )


def _pieces(stream: BinaryIO, missing: int) -> Iterator[bytes]:
    while missing and (piece := stream.read(min(missing, 2**24))):
        missing -= len(piece)
        yield piece


def read_batches(stream: BinaryIO, plan_digest: bytes, layout: Layout) -> Iterator[ReportBatch]:
    """Yield the batches of a file of reports, one in memory at a time."""
    for number, (head, data) in enumerate(_raw_batches(stream), start=1):
        try:
            _check_plan(head, plan_digest, layout)
            batch = _decode_body(data, plan_digest, layout)
        except ReportRejected as error:
            error.add_place(f"batch {number}")
            raise
        yield batch


def scan_batches(stream: BinaryIO) -> Iterator[Head]:
    """Yield the header of each batch of a file, checking sizes and checksums but no plan."""
    for head, data in _raw_batches(stream):
        _check_framing(head, data)
        yield head


def _check_framing(head: Head, data: bytes) -> None:
    """Refuse a wrong checksum, and records of no bytes: any number of them would fit."""
    _check_sum(data)
    if not head.record_bytes:
        raise ReportRejected(Reject.BAD_HEADER, "records of 0 bytes hold no reports")


def resize_batches(stream: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the reports of a file, in order, as batches of `most` reports; the last may be smaller.

    Checks sizes, checksums and that all batches belong to one plan. Checking records would
    need the plan.
    """
    first: Head | None = None
    waiting = bytearray()
    for head, data in _raw_batches(stream):
        _check_framing(head, data)
        first = first or head
        if head[:2] != first[:2]:
            raise ReportRejected(Reject.OTHER_PLAN, "the file holds batches of several plans")
        waiting += records_of(data)
        size, start = most * first.record_bytes, 0
        while len(waiting) - start >= size:
            yield _framed(first._replace(reports=most), waiting[start : start + size])
            start += size
        del waiting[:start]
    if first is not None and waiting:
        yield _framed(first._replace(reports=len(waiting) // first.record_bytes), waiting)


def _framed(head: Head, records: bytes | bytearray) -> bytes:
    """Return records as a batch, with header and checksum."""
    body = HEADER.pack(MAGIC, VERSION, *head) + records
    return body + struct.pack("<I", zlib.crc32(body))
