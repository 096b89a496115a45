"""Counting the reports of a batch accepts and refuses exactly what decoding does."""

import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import samples
from faintly.errors import ReportRejected
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1

PLANS = {
    "one cell": samples.one_cell_plan(1000, 1000),
    "16 bins": samples.binning_plan(1000, 1000),
    "user": samples.projection_plan(1000, 1000),
    "direct": samples.retrieval_plan(1000, 1000, 8, "direct"),
}


def count_batch(body, plan_digest, layout):
    return report_v1.BatchCounter(plan_digest, layout).count(body)


def outcome(function, body, plan):
    try:
        return function(body, plan.digest, mechanism_of(plan).layout)
    except ReportRejected as error:
        return error.code, str(error)


@pytest.mark.parametrize("name", PLANS)
@given(
    count=st.integers(0, 2),
    record=st.binary(min_size=70, max_size=70),
    place=st.integers(0, 200),
    flip=st.integers(0, 255),
    cut=st.integers(-2, 2),
    summed=st.booleans(),
)
@example(count=1, record=bytes(70), place=0, flip=0, cut=0, summed=True)
@example(count=1, record=b"\xff" * 70, place=0, flip=0, cut=0, summed=True)
def test_counting_agrees_with_decoding(name, count, record, place, flip, cut, summed):
    plan = PLANS[name]
    size = mechanism_of(plan).layout.record_bytes
    head = report_v1.HEADER.pack(b"FNTR", 1, plan.digest, size, count)
    body = bytearray(head + (record[:size] * count))
    if flip:
        body[place % len(body)] ^= flip
    body += (zlib.crc32(body) if summed else 0).to_bytes(4, "little")
    made = bytes(body[:cut] if cut < 0 else body + bytes(cut))
    decoded = outcome(report_v1.decode_batch, made, plan)
    counted = outcome(count_batch, made, plan)
    assert counted == (decoded if isinstance(decoded, tuple) else len(decoded))
