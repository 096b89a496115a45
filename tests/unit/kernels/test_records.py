"""Records: both kernels agree, round trips hold, the first breach is named, rows are shuffled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faintly.kernels import compiled, reference
from tests.every import every
from tests.unit.kernels.helpers import BOTH, needs_c, words


def independent_record(seed, fields, seed_bytes, widths):
    whole, position = seed & (2 ** (8 * seed_bytes) - 1), 8 * seed_bytes
    for field, width in zip(fields, widths, strict=True):
        whole |= field << position
        position += width
    return whole.to_bytes((position + 7) // 8, "little")


@st.composite
def reports(draw):
    widths = tuple(draw(st.lists(st.integers(1, 32), max_size=20)))
    limits = tuple(draw(st.integers(1, 2**width)) for width in widths)
    seed_bytes = draw(st.integers(0, 8))
    count = draw(st.integers(0, 12))
    generator = np.random.Generator(np.random.Philox(draw(st.integers(0, 2**32))))
    fields = np.zeros((count, len(widths)), dtype=np.uint32)
    for column, limit in enumerate(limits):
        fields[:, column] = generator.integers(0, limit, count)
    seeds = generator.integers(0, 2 ** (8 * seed_bytes), count, dtype=np.uint64, endpoint=False)
    return seeds, fields, seed_bytes, widths, limits


@BOTH
@given(case=reports())
def test_records_are_seed_and_fields_low_bit_first(kernels, case):
    seeds, fields, seed_bytes, widths, limits = case
    records = kernels.pack_records(seeds, fields, seed_bytes, widths)
    rows = zip(seeds.tolist(), fields.tolist(), strict=True)
    wanted = [independent_record(seed, row, seed_bytes, widths) for seed, row in rows]
    assert [record.tobytes() for record in records] == wanted
    found = kernels.unpack_records(records, seed_bytes, widths, limits)
    assert (found.outside, found.unused) == (None, None)
    np.testing.assert_array_equal(found.seeds, seeds)
    np.testing.assert_array_equal(found.fields, fields)
    assert (found.seeds.dtype, found.fields.dtype) == (np.uint64, np.uint32)


@needs_c
@given(case=reports(), noise=st.randoms(use_true_random=False))
def test_both_name_the_same_breach_of_any_bytes(case, noise):
    seeds, _, seed_bytes, widths, limits = case
    size = seed_bytes + (sum(widths) + 7) // 8
    records = np.frombuffer(noise.randbytes(len(seeds) * size), np.uint8).reshape(len(seeds), size)
    ours = compiled.unpack_records(records, seed_bytes, widths, limits)
    theirs = reference.unpack_records(records, seed_bytes, widths, limits)
    assert (ours.outside, ours.unused) == (theirs.outside, theirs.unused)
    np.testing.assert_array_equal(ours.seeds, theirs.seeds)
    np.testing.assert_array_equal(ours.fields, theirs.fields)


@BOTH
def test_the_least_field_and_then_the_first_record_are_named(kernels):
    fields = np.zeros((70, 3), dtype=np.uint32)
    fields[[5, 40], 2] = 7
    fields[[30, 60], 1] = 7
    records = kernels.pack_records(np.zeros(70, np.uint64), fields, 0, (3, 3, 3))
    assert kernels.unpack_records(records, 0, (3, 3, 3), (8, 8, 8)).outside is None
    assert kernels.unpack_records(records, 0, (3, 3, 3), (8, 8, 7)).outside == (2, 5)
    found = kernels.unpack_records(records, 0, (3, 3, 3), (8, 7, 7))
    assert (found.outside, found.unused) == ((1, 30), None)
    records[[12, 50], -1] |= 0x80
    assert kernels.unpack_records(records, 0, (3, 3, 3), (8, 8, 8)).unused == 12


@BOTH
def test_only_the_first_bytes_of_a_seed_are_sent(kernels):
    seeds = np.array([0x1122334455667788], dtype=np.uint64)
    records = kernels.pack_records(seeds, np.zeros((1, 0), np.uint32), 3, ())
    assert records.tobytes().hex() == "887766"
    assert kernels.unpack_records(records, 3, (), ()).seeds.tolist() == [0x667788]


@BOTH
def test_a_field_too_wide_is_refused(kernels):
    fields = np.array([[1, 1], [1, 4]], dtype=np.uint32)
    with pytest.raises(ValueError, match="does not fit"):
        kernels.pack_records(np.zeros(2, np.uint64), fields, 5, (2, 2))


@BOTH
def test_arguments_that_do_not_fit_are_refused(kernels):
    seeds, fields = np.zeros(2, np.uint64), np.zeros((2, 2), np.uint32)
    records = np.zeros((2, 6), np.uint8)
    refused = [
        lambda: kernels.pack_records(seeds[:1], fields, 5, (2, 2)),
        lambda: kernels.pack_records(seeds, fields, 9, (2, 2)),
        lambda: kernels.pack_records(seeds, fields, -1, (2, 2)),
        lambda: kernels.pack_records(seeds, fields, 5, (2, 2, 2)),
        lambda: kernels.pack_records(seeds, fields, 5, (2, 0)),
        lambda: kernels.pack_records(seeds, fields, 5, (2, 33)),
        lambda: kernels.pack_records(seeds, fields.astype(np.int64), 5, (2, 2)),
        lambda: kernels.unpack_records(records[:, :5], 5, (2, 2), (4, 4)),
        lambda: kernels.unpack_records(records, 4, (2, 2), (4, 4)),
        lambda: kernels.unpack_records(records, 5, (2, 2), (4,)),
        lambda: kernels.unpack_records(records, 5, (2, 2), (4, 5)),
        lambda: kernels.unpack_records(records, 5, (2, 2), (4, 0)),
        lambda: kernels.unpack_records(records[0], 5, (2, 2), (4, 4)),
    ]
    for call in refused:
        with pytest.raises(TypeError):
            call()


KEYS = {
    "any": lambda keys: keys,
    "few": lambda keys: keys % np.uint32(3) << np.uint32(23),
    "equal": lambda keys: keys * np.uint32(0),
    "low": lambda keys: keys >> np.uint32(24) | np.uint32(0x7F000000),
    "high": lambda keys: keys & np.uint32(0xFF000000) | np.uint32(5),
    "falling": lambda keys: ~np.arange(len(keys), dtype=np.uint32),
}


def independent_order(keys):
    return sorted(range(len(keys)), key=keys.tolist().__getitem__)  # equals stay as they came


@BOTH
@every("kind", KEYS)
@every("count", [0, 1, 2, 25, 1001, 32768, 32769])  # more are taken apart
def test_shuffle_rows(kernels, kind, count):
    keys = KEYS[kind](words("keys", count))
    records = words("records", count).view(np.uint8).reshape(count, 4)
    before = records.copy()
    found = kernels.shuffle_rows(records, keys)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, before[independent_order(keys)])
    np.testing.assert_array_equal(records, before)


@BOTH
@every("width", [*range(1, 19), 32, 33, 65535])
@every("count", [50, 33000])
def test_shuffle_rows_of_any_width(kernels, width, count):
    count = min(count, 2**22 // width)  # 4 MiB
    keys = words("keys", count) >> np.uint32(20) << np.uint32(17)  # many are equal
    records = (words("records", count * width) >> np.uint32(24)).astype(np.uint8)
    records = records.reshape(count, width)
    found = kernels.shuffle_rows(records, keys)
    np.testing.assert_array_equal(found, records[independent_order(keys)])


@BOTH
def test_shuffle_rows_without_a_byte(kernels):
    assert kernels.shuffle_rows(np.zeros((3, 0), np.uint8), words("keys", 3)).shape == (3, 0)


@BOTH
def test_more_rows_than_a_word_can_number_are_refused(kernels):
    records = np.broadcast_to(np.uint8(0), (2**32, 1))  # of one byte of memory
    with pytest.raises(TypeError, match="fewer than 2\\^32"):
        kernels.shuffle_rows(records, np.broadcast_to(np.uint32(0), 2**32))
