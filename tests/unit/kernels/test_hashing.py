"""Hash words and codes: both kernels give those of a plain definition."""

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faintly.core import Hashing
from faintly.kernels import compiled, reference
from faintly.primitives import hashing
from faintly.primitives.entropy import seeded
from faintly.primitives.hashing import LinearMaps
from spec import independent
from tests.every import every

needs_c = pytest.mark.skipif(not compiled.available(), reason="the C kernels were not built")
COMPILED = pytest.param(compiled, id="c", marks=needs_c)
BOTH = pytest.mark.parametrize("kernels", [COMPILED, pytest.param(reference, id="numpy")])


def words(label, *shape):
    return seeded(1, label).words(int(np.prod(shape))).reshape(shape)


def wide(label, *shape):
    return words(label, *shape, 2).view(np.uint64).reshape(shape)


@BOTH
@every("bits", [1, 2, 7, 16, 31, 32])
@every("count", [0, 1, 3, 600])
def test_map_codes(kernels, bits, count):
    ids, factor, offset = wide("ids", count), words("factor", 4) | np.uint32(1), words("offset", 4)
    wanted = []
    for code in ids.tolist():
        for times, plus in zip(factor.tolist(), offset.tolist(), strict=True):
            code = (code * times + plus) % 2**bits  # noqa: PLW2901
            code ^= code >> (bits + 1) // 2  # noqa: PLW2901
        wanted.append(code)
    if bits == 32 or count == 0:  # at 32 bits an id keeps its lower half
        wanted = [code % 2**32 for code in wanted]
    assert kernels.map_codes(ids, factor, offset, bits).tolist() == wanted


@BOTH
@every("count", [0, 1, 5, 37])
@every("key", [0, 2**64 - 1, 0x0123456789ABCDEF])
def test_hash_ids(kernels, count, key):
    ids = wide("ids", count)
    wanted = [independent.half_sip(key, item.to_bytes(8, "little") + b"m") for item in ids.tolist()]
    assert kernels.hash_ids(key, ids, ord("m")).tolist() == wanted


@needs_c
@every("count", [0, 1, 8, 9, 40])
def test_both_hash_alike(count, generator):
    seeds, ids = generator.integers(0, 2**64, (2, 20), dtype=np.uint64)
    seeds[5:9] = seeds[5]
    case = seeds, ids, count
    np.testing.assert_array_equal(compiled.hash_wide(*case), reference.hash_wide(*case))
    np.testing.assert_array_equal(compiled.hash_each(*case), reference.hash_each(*case))


MAPS = {
    "one": LinearMaps(Hashing(family="linear", bits=20, maps=1), bytes(16), 2**20),
    "several": LinearMaps(Hashing(family="linear", bits=9, maps=8), b"s" * 16, 500),
    "open": LinearMaps(Hashing(family="linear", bits=16, maps=4), b"o" * 16, None),
    "widest": LinearMaps(Hashing(family="linear", bits=31, maps=2), b"w" * 16, 2**31),
}


SIZES = [[], [0], [1], [0, 3, 0, 0, 5], [64] * 5, [255, 1, 256, 257, 600], [2] * 200]


def clients(sizes):
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    amounts = words("amounts", offsets[-1]).view(np.int32)  # all of 32 bits, the least one too
    if len(amounts):
        amounts[0] = -(2**31)
    return wide("seeds", len(sizes)), offsets, wide("ids", offsets[-1]), amounts


def equal(left, right):
    for ours, theirs in zip(left, right, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@needs_c
@every("maps", MAPS)
@every("sizes", SIZES)
def test_code_items_and_pick_maps(sizes, maps):
    seeds, offsets, ids, _ = clients(sizes)
    case = (seeds, offsets, ids, MAPS[maps])
    equal(compiled.code_items(*case), reference.code_items(*case))
    for count in (1, 3, 4096):
        case = (seeds, count)
        equal([compiled.pick_maps(*case)], [reference.pick_maps(*case)])


@needs_c
@every("count", [0, 1, 7, 8, 9, 256])
def test_hash_words_blake2s(count):
    case = (np.repeat(wide("seeds", 3), 2), wide("ids", 6), ord("y"), count)
    left = compiled.hash_words(*case, "blake2s")
    equal([left], [reference.hash_words(*case, "blake2s")])


@BOTH
@given(
    keys=st.lists(st.binary(max_size=200), max_size=40),
    salt=st.binary(min_size=1, max_size=32),
)
def test_hash_keys_is_keyed_blake2s(kernels, keys, salt):
    offsets = np.concatenate([[0], np.cumsum([len(key) for key in keys])]).astype(np.int64)
    data = np.frombuffer(b"".join(keys), dtype=np.uint8)
    wanted = [hashlib.blake2s(key, digest_size=8, key=salt).digest() for key in keys]
    assert kernels.hash_keys(data, offsets, salt).astype("<u8").tobytes() == b"".join(wanted)


@BOTH
def test_hash_keys_at_the_borders_of_blocks(kernels):
    keys = [bytes(range(size % 251)) + bytes(size - size % 251) for size in range(260)]
    offsets = np.concatenate([[0], np.cumsum([len(key) for key in keys])]).astype(np.int64)
    data = np.frombuffer(b"".join(keys), dtype=np.uint8)
    wanted = [hashlib.blake2s(key, digest_size=8, key=b"salt").digest() for key in keys]
    assert kernels.hash_keys(data, offsets, b"salt").astype("<u8").tobytes() == b"".join(wanted)


@pytest.mark.parametrize("order", [2, 3, 5, 16, 17])
def test_digits_are_those_of_the_scaled_word(order, generator):
    words = generator.integers(0, 2**32, (6, 2), dtype=np.uint32)
    each = hashing.word_digits(order)
    digits = hashing.base_digits(words, order, 2 * each)
    for row, column in itertools.product(range(6), range(2)):
        number = int(words[row, column]) * order**each >> 32
        expected = [number // order**place % order for place in reversed(range(each))]
        assert digits[row, column * each : (column + 1) * each].tolist() == expected


def test_hashing_is_pinned():
    """Eight words of one 32-byte digest: the server of tomorrow must read reports of today."""
    import hashlib

    digest = hashlib.blake2s((7).to_bytes(8, "little") + b"w\x00", key=(9).to_bytes(8, "little"))
    words = hashing.wide_words(np.array([9], np.uint64), np.array([7], np.uint64), 9)
    assert words[0, :8].astype("<u4").tobytes() == digest.digest()
