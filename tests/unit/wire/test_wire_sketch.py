"""Sketch files: strict, checksummed, and whole or not at all."""

import json

import pytest

from faintly.core import Plan
from faintly.errors import FaintlyError, Reject, SketchRejected
from faintly.mechanisms import mechanism_of
from faintly.testing import cases, refusals, vectors
from faintly.wire import sketch_v1

SKETCH = vectors.some_sketch("event-coarse")
GOOD = sketch_v1.encode_sketch(SKETCH)


def decode(data):
    return sketch_v1.decode_sketch(data, lambda plan: mechanism_of(plan).sketch_shape)


def code_of(data):
    with pytest.raises(SketchRejected) as caught:
        decode(data)
    return caught.value.code


@pytest.mark.parametrize("name", sorted(cases.PLANS))
@pytest.mark.parametrize("count", [0, 1, 7])
def test_round_trip(name, count):
    sketch = vectors.some_sketch(name, count)
    data = sketch_v1.encode_sketch(sketch)
    assert decode(data) == sketch
    assert sketch_v1.encode_sketch(decode(data)) == data


def test_truncation_at_every_byte():
    least = sketch_v1.PREFIX.size + sketch_v1.CHECKSUM_BYTES
    for size in range(len(GOOD)):
        assert code_of(GOOD[:size]) == (Reject.TRUNCATED if size < least else Reject.BAD_CHECKSUM)


def test_a_flip_in_every_byte_is_noticed():
    for position in range(len(GOOD)):
        wanted = Reject.BAD_CHECKSUM
        if position < 5:
            wanted = Reject.BAD_MAGIC if position < 4 else Reject.BAD_VERSION
        flipped = refusals.replaced(GOOD, position, bytes([GOOD[position] ^ 1 << position % 8]))
        assert code_of(flipped) == wanted


@pytest.mark.parametrize(("why", "data", "code"), list(refusals.sketches(GOOD)))
def test_refusals(why, data, code):
    assert code_of(data) == code, why


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("a count with a fraction", {"reports": [3.7]}),
        ("a count as text", {"reports": ["3"]}),
        ("a truth value as a count", {"reports": [True]}),
        ("an unknown field", {"comment": "hello"}),
        ("squares as a number", {"squares": 17}),
        ("squares with a fraction", {"squares": 1.5}),
        ("squares spelled loosely", {"squares": " 1_7 "}),
        ("squares with a leading zero", {"squares": "017"}),
    ],
)
def test_a_header_is_read_strictly(why, change):
    """Two readers that disagree about a header would merge to different integers."""
    assert code_of(refusals.with_header(GOOD, lambda header: {**header, **change})) == (
        Reject.BAD_HEADER
    ), why


def test_a_header_in_another_encoding_is_refused():
    start = sketch_v1.PREFIX.size
    length = sketch_v1.PREFIX.unpack_from(GOOD)[2]
    wide = GOOD[start : start + length].decode().encode("utf-16")
    head = sketch_v1.PREFIX.pack(b"FNTS", 1, len(wide)) + wide
    body = head + bytes(-len(head) % 64) + refusals.arrays_of(GOOD)
    assert code_of(refusals.sealed_sketch(body)) == Reject.BAD_HEADER


@pytest.mark.parametrize(
    "change",
    [{"mechanism": "telepathy"}, {"epsilon": "0.5"}, {"parameters": {}}],
    ids=["mechanism", "promise", "parameters"],
)
def test_a_plan_that_no_mechanism_can_honour_is_a_bad_header(change):
    def changed(header):
        return {**header, "plan": {**header["plan"], **change}}

    with pytest.raises(FaintlyError):
        decode(refusals.with_header(GOOD, changed))
    assert code_of(refusals.with_header(GOOD, changed)) == Reject.BAD_HEADER


def test_columns_cut_or_extended_are_noticed():
    data = sketch_v1.encode_sketch(vectors.some_sketch("event-prf"))
    assert code_of(refusals.sealed_sketch(data[:-20])) == Reject.TRUNCATED
    assert code_of(refusals.sealed_sketch(data[:-16] + bytes(4))) == Reject.TRAILING_BYTES


def test_a_sketch_carries_its_whole_plan():
    plan = Plan.from_json(json.dumps(cases.document("event-two-bins")))
    back = decode(sketch_v1.encode_sketch(vectors.some_sketch("event-two-bins")))
    assert back.plan.canonical == plan.canonical


def test_a_plan_too_large_for_memory_is_truncated_not_allocated():
    def changed(header):
        hashing = {"family": "linear", "bits": 31, "maps": 2}
        return {**header, "plan": {**header["plan"], "hashing": hashing}, "reports": [0, 0]}

    assert code_of(refusals.with_header(GOOD, changed)) == Reject.TRUNCATED
