"""Shuffling of rows: both kernels put them in the order of their keys, equals as they came."""

import numpy as np
import pytest

from faintly.kernels import compiled, reference
from faintly.primitives.entropy import seeded

COMPILED = pytest.param(
    compiled, id="c", marks=pytest.mark.skipif(not compiled.available(), reason="not compiled")
)
BOTH = pytest.mark.parametrize("kernels", [COMPILED, pytest.param(reference, id="numpy")])


def words(label, count):
    return seeded(1, label).words(count)


def plain_order(keys):
    return sorted(range(len(keys)), key=keys.tolist().__getitem__)  # equals stay as they came


KEYS = {
    "any": lambda keys: keys,
    "few": lambda keys: keys % np.uint32(3) << np.uint32(23),
    "equal": lambda keys: keys * np.uint32(0),
    "low": lambda keys: keys >> np.uint32(24) | np.uint32(0x7F000000),
    "high": lambda keys: keys & np.uint32(0xFF000000) | np.uint32(5),
    "falling": lambda keys: ~np.arange(len(keys), dtype=np.uint32),
}


@BOTH
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("count", [0, 1, 2, 25, 1001, 32768, 32769])  # more are taken apart
def test_shuffle_rows(kernels, kind, count):
    keys = KEYS[kind](words("keys", count))
    records = words("records", count).view(np.uint8).reshape(count, 4)
    before = records.copy()
    found = kernels.shuffle_rows(records, keys)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, before[plain_order(keys)])
    np.testing.assert_array_equal(records, before)


@BOTH
@pytest.mark.parametrize("width", [*range(1, 19), 32, 33, 65535])
@pytest.mark.parametrize("count", [50, 33000])
def test_shuffle_rows_of_any_width(kernels, width, count):
    count = min(count, 2**22 // width)  # 4 MiB
    keys = words("keys", count) >> np.uint32(20) << np.uint32(17)  # many are equal
    records = (words("records", count * width) >> np.uint32(24)).astype(np.uint8)
    records = records.reshape(count, width)
    found = kernels.shuffle_rows(records, keys)
    np.testing.assert_array_equal(found, records[plain_order(keys)])


@BOTH
def test_shuffle_rows_without_a_byte(kernels):
    assert kernels.shuffle_rows(np.zeros((3, 0), np.uint8), words("keys", 3)).shape == (3, 0)


@BOTH
def test_more_rows_than_a_word_can_number_are_refused(kernels):
    records = np.broadcast_to(np.uint8(0), (2**32, 1))  # of one byte of memory
    with pytest.raises(TypeError, match="fewer than 2\\^32"):
        kernels.shuffle_rows(records, np.broadcast_to(np.uint32(0), 2**32))
