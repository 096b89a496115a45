"""Bytes of reports: every damage is noticed, and each refusal has its own code."""

import io
import struct

import numpy as np
import pytest

from faintly.core import Layout, ReportBatch
from faintly.errors import Reject, ReportRejected
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from spec.generator import refusals, vectors
from spec.generator.vectors import plan_of
from tests.every import every

PLAN = plan_of("event-one-bin")
MECHANISM = mechanism_of(PLAN)
LAYOUT = MECHANISM.layout
BATCH = vectors.some_reports(MECHANISM, 2)
GOOD = report_v1.encode_batch(BATCH, LAYOUT)
HEADER_CODES = (
    [Reject.BAD_MAGIC] * 4
    + [Reject.BAD_VERSION]
    + [Reject.OTHER_PLAN] * 16
    + [Reject.BAD_HEADER] * 2
    + [None] * 4  # a changed count is too few or too many bytes
)


def decode(data):
    return report_v1.decode_batch(data, PLAN.digest, LAYOUT)


def read(data):
    return list(report_v1.read_batches(io.BytesIO(data), PLAN.digest, LAYOUT))


def code_of(call, data):
    with pytest.raises(ReportRejected) as caught:
        call(data)
    return caught.value.code


def same(left, right):
    return (
        left.plan_digest == right.plan_digest
        and np.array_equal(left.hash_seeds, right.hash_seeds)
        and np.array_equal(left.fields, right.fields)
    )


def test_the_header_is_where_the_specification_says():
    assert report_v1.HEADER.size == 27
    assert GOOD[:4] == b"FNTR"
    assert GOOD[4] == 1
    assert GOOD[5:21] == PLAN.digest
    assert struct.unpack_from("<HI", GOOD, 21) == (LAYOUT.record_bytes, 2)
    assert len(GOOD) == 27 + 2 * 7 + 4


def test_round_trip():
    assert same(decode(GOOD), BATCH)
    assert report_v1.encode_report(BATCH[0], LAYOUT) == GOOD[27:34]


def test_truncation_at_every_byte():
    for size in range(len(GOOD)):
        assert code_of(decode, GOOD[:size]) == Reject.TRUNCATED
        assert code_of(read, GOOD[:size]) == Reject.TRUNCATED
    for size in range(1, len(GOOD)):
        assert code_of(read, GOOD + GOOD[:size]) == Reject.TRUNCATED


def test_every_flipped_bit_is_noticed():
    for position in range(len(GOOD)):
        for bit in range(8):
            flipped = refusals.replaced(GOOD, position, bytes([GOOD[position] ^ 1 << bit]))
            code = code_of(decode, flipped)
            if position >= len(HEADER_CODES):
                assert code == Reject.BAD_CHECKSUM
            elif HEADER_CODES[position] is not None:
                assert code == HEADER_CODES[position]
            else:
                assert code in (Reject.TRUNCATED, Reject.TRAILING_BYTES)
            code_of(read, flipped)


@every(
    ("why", "data", "code"),
    list(refusals.batches(GOOD, plan_of("l1").digest)),
)
def test_refusals(why, data, code):
    assert code_of(decode, data) == code, why


def test_a_file_is_one_batch_after_another():
    none = report_v1.encode_batch(BATCH.take(slice(0)), LAYOUT)
    one = report_v1.encode_batch(BATCH.take(slice(1)), LAYOUT)
    batches = read(GOOD + none + one)
    assert [len(batch) for batch in batches] == [2, 0, 1]
    assert same(batches[0], BATCH)
    assert same(batches[2], BATCH.take(slice(1)))


def test_an_empty_file_is_refused_and_a_batch_of_none_is_not():
    assert code_of(read, b"") == Reject.TRUNCATED
    assert [len(batch) for batch in read(report_v1.encode_batch(BATCH.take(slice(0)), LAYOUT))] == [
        0
    ]


def test_good_batches_come_before_the_damage():
    source = report_v1.read_batches(io.BytesIO(GOOD + b"\0"), PLAN.digest, LAYOUT)
    assert len(next(source)) == 2
    with pytest.raises(ReportRejected):
        next(source)


def test_a_huge_count_asks_for_no_memory(tmp_path):
    path = tmp_path / "hostile.fnt"
    path.write_bytes(refusals.replaced(GOOD, 23, b"\xff\xff\xff\xff"))
    with path.open("rb") as stream, pytest.raises(ReportRejected, match="TRUNCATED"):
        list(report_v1.read_batches(stream, PLAN.digest, LAYOUT))


def test_messages_name_the_report_and_the_field():
    layout = Layout(seed_bytes=1, widths=(4, 4), limits=(16, 10))
    records = np.array([[0, 0x90], [0, 0xA0]], dtype=np.uint8)
    with pytest.raises(ReportRejected, match="field 1 of report 1 is not below 10"):
        report_v1.unpack(records, PLAN.digest, layout)
    layout = Layout(seed_bytes=0, widths=(3,), limits=(8,))
    with pytest.raises(ReportRejected, match="report 1 sets bits that no field uses"):
        report_v1.unpack(np.array([[7], [8]], dtype=np.uint8), PLAN.digest, layout)


@pytest.mark.parametrize(
    ("layout", "fields", "record"),
    [
        (Layout(seed_bytes=0, widths=(1,) * 9, limits=(2,) * 9), [1] + [0] * 7 + [1], "0101"),
        (Layout(seed_bytes=0, widths=(32,), limits=(2**32,)), [2**32 - 1], "ffffffff"),
        (
            Layout(seed_bytes=0, widths=(7, 32), limits=(128, 2**32)),
            [127, 2**32 - 1],
            "ff" * 4 + "7f",
        ),
        (Layout(seed_bytes=2, widths=(12,), limits=(4096,)), [0xABC], "0100bc0a"),
    ],
)
def test_fields_are_packed_low_bit_first(layout, fields, record):
    seeds = np.array([1 if layout.seed_bytes else 0], np.uint64)
    batch = ReportBatch(PLAN.digest, seeds, np.array([fields], dtype=np.uint32))
    packed = report_v1.pack(batch, layout)
    assert packed.tobytes().hex() == record
    assert same(report_v1.unpack(packed, PLAN.digest, layout), batch)


def test_counting_reports_too_large_for_a_header():
    layout = Layout(seed_bytes=8, widths=(32,) * 20_000, limits=(2**32,) * 20_000)
    size = report_v1.HEADER.size + layout.record_bytes + report_v1.CHECKSUM_BYTES
    with pytest.raises(ReportRejected):
        report_v1.BatchCounter(bytes(16), layout).count(bytes(size))
