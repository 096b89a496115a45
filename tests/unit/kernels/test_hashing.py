"""Hash words and codes: both kernels give those of a plain definition."""

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faintly.kernels import compiled, reference
from faintly.primitives import hashing
from spec import independent
from tests.every import every
from tests.unit.kernels.helpers import BOTH, MAPS, SIZES, clients, equal, needs_c, wide, words


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
