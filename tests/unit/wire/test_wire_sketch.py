"""Sketch files: strict, checksummed, and whole or not at all."""

import json
from dataclasses import replace

import numpy as np
import pytest

from faintly.core.sketch import table_type
from faintly.errors import FaintlyError, Reject, SketchRejected
from faintly.mechanisms import mechanism_of
from faintly.wire import sketch_v1
from spec.generator import cases, refusals, vectors
from spec.generator.vectors import plan_of
from tests.every import every

SKETCH = vectors.some_sketch("event-coarse")
GOOD = vectors.sketch_bytes(SKETCH)


def decode(data):
    return sketch_v1.decode_sketch(data, lambda plan: mechanism_of(plan).tables.sketch_shape)


def code_of(data):
    with pytest.raises(SketchRejected) as caught:
        decode(data)
    return caught.value.code


@pytest.mark.parametrize("name", sorted(cases.PLANS))
@every("count", [0, 1, 7])
def test_round_trip(name, count):
    sketch = vectors.some_sketch(name, count)
    data = vectors.sketch_bytes(sketch)
    assert decode(data) == sketch
    assert vectors.sketch_bytes(decode(data)) == data


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


@every(("why", "data", "code"), list(refusals.sketches(GOOD)))
def test_refusals(why, data, code):
    assert code_of(data) == code, why


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("a count with a fraction", {"reports": [3.7]}),
        ("a count as text", {"reports": ["3"]}),
        ("a truth value as a count", {"reports": [True]}),
        ("an unknown field", {"comment": "hello"}),
        ("mass as a number", {"mass": 17}),
        ("mass with a leading zero", {"mass": "017"}),
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


@pytest.mark.parametrize("place", ["reports", "mass", "plan", "comment"])
def test_half_a_surrogate_pair_in_a_header_is_refused(place):
    """It can be escaped in JSON and read, but not be written as UTF-8 to be compared."""
    half = "\ud800"
    value = {"reports": [half], "plan": {**SKETCH.plan.document(), "mechanism": half}}
    header = refusals.header_of(GOOD) | {place: value.get(place, half)}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")
    assert b"\\ud800" in text
    head = sketch_v1.PREFIX.pack(b"FNTS", 1, len(text)) + text
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
    data = vectors.sketch_bytes(vectors.some_sketch("event-prf"))
    assert code_of(refusals.sealed_sketch(data[:-20])) == Reject.TRUNCATED
    assert code_of(refusals.sealed_sketch(data[:-16] + bytes(4))) == Reject.TRAILING_BYTES


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_columns_are_checked_across_pieces(piece, monkeypatch):
    """Whatever the size of a piece, no two neighbouring reports escape the comparison."""
    monkeypatch.setattr(sketch_v1, "PIECE", piece)
    sketch = vectors.some_sketch("event-prf", 6)
    data = vectors.sketch_bytes(sketch)
    assert decode(data) == sketch
    header, arrays = refusals.header_of(data), refusals.arrays_of(data)
    for first in range(5):
        seeds = sketch.hash_seeds.copy()
        seeds[[first, first + 1]] = seeds[[first + 1, first]]
        swapped = refusals.made_of(header, seeds.tobytes() + arrays[48:])
        assert code_of(swapped) == Reject.OUT_OF_ORDER
    tables = vectors.sketch_bytes(SKETCH)
    assert decode(tables) == SKETCH
    assert tables == GOOD


@pytest.mark.parametrize("mass", [2**31 - 1, 2**31])
def test_the_mass_says_how_wide_the_tables_are(mass):
    wide = replace(SKETCH, mass=mass, tables=SKETCH.tables.astype(table_type(mass)))
    data = vectors.sketch_bytes(wide)
    assert decode(data) == wide
    assert decode(data).tables.dtype == (np.int32 if mass < 2**31 else np.int64)
    assert len(refusals.arrays_of(data)) == SKETCH.tables.size * (4 if mass < 2**31 else 8)


def test_arrays_begin_at_a_multiple_of_64_bytes():
    for name in cases.PLANS:
        data = vectors.sketch_bytes(vectors.some_sketch(name))
        assert (len(data) - 16 - len(refusals.arrays_of(data))) % 64 == 0


def test_a_sketch_carries_its_whole_plan():
    plan = plan_of("event-two-bins")
    back = decode(vectors.sketch_bytes(vectors.some_sketch("event-two-bins")))
    assert back.plan.canonical == plan.canonical


def test_a_plan_too_large_for_memory_is_truncated_not_allocated():
    def changed(header):
        hashing = {"family": "linear", "bits": 31, "maps": 2}
        return {**header, "plan": {**header["plan"], "hashing": hashing}, "reports": [0, 0]}

    assert code_of(refusals.with_header(GOOD, changed)) == Reject.TRUNCATED
