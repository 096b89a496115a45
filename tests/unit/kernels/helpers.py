"""What tests of kernels share: the two languages, made-up arrays, plain definitions."""

import numpy as np
import pytest

from faintly.core import Hashing
from faintly.kernels import compiled, reference
from faintly.primitives import fields
from faintly.primitives.entropy import seeded
from faintly.primitives.hashing import LinearMaps
from spec import independent

needs_c = pytest.mark.skipif(not compiled.available(), reason="the C kernels were not built")
COMPILED = pytest.param(compiled, id="c", marks=needs_c)
BOTH = pytest.mark.parametrize("kernels", [COMPILED, pytest.param(reference, id="numpy")])

SIZES = [[], [0], [1], [0, 3, 0, 0, 5], [64] * 5, [255, 1, 256, 257, 600], [2] * 200]
MAPS = {
    "one": LinearMaps(Hashing(family="linear", bits=20, maps=1), bytes(16), 2**20),
    "several": LinearMaps(Hashing(family="linear", bits=9, maps=8), b"s" * 16, 500),
    "open": LinearMaps(Hashing(family="linear", bits=16, maps=4), b"o" * 16, None),
    "widest": LinearMaps(Hashing(family="linear", bits=31, maps=2), b"w" * 16, 2**31),
}
ORDERS = (*fields.ORDERS, 32, 64, 128, 256)


def words(label, *shape):
    return seeded(1, label).words(int(np.prod(shape))).reshape(shape)


def wide(label, *shape):
    return words(label, *shape, 2).view(np.uint64).reshape(shape)


def signed(label, *shape):
    return words(label, *shape).astype(np.int64) - 2**31


def clients(sizes):
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    amounts = words("amounts", offsets[-1]).view(np.int32)  # all of 32 bits, the least one too
    if len(amounts):
        amounts[0] = -(2**31)
    return wide("seeds", len(sizes)), offsets, wide("ids", offsets[-1]), amounts


def maps_of(count, bits, size):
    return LinearMaps(Hashing(family="linear", maps=count, bits=bits), b"salt" * 4, size)


def independent_word(seed, item, letter, number):
    return independent.half_sip(
        seed, item.to_bytes(8, "little") + letter.encode() + bytes([number])
    )


def equal(left, right):
    for ours, theirs in zip(left, right, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
