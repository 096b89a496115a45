"""The hash families: broadcasting, domain separation, codes of large universes."""

import numpy as np
import pytest

from faintly.core import Hashing
from faintly.primitives import hashing


def maps_of(bits, maps=1, size=None, salt=bytes(16)):
    return hashing.LinearMaps(Hashing(family="linear", bits=bits, maps=maps), salt, size)


def test_scalars_and_arrays_hash_alike():
    """Also where key and id are single numbers, and without a warning about wrapping sums."""
    keys = np.arange(5, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    whole = hashing.mix(keys[:, None], np.arange(7, dtype=np.uint64)[None, :], hashing.BIN)
    assert whole.shape == (5, 7)
    for row, key in enumerate(keys):
        assert np.array_equal(
            hashing.mix(key, np.arange(7, dtype=np.uint64), hashing.BIN), whole[row]
        )
        for column in range(7):
            assert hashing.mix(key, np.uint64(column), hashing.BIN) == whole[row, column]


@pytest.mark.parametrize("j", [0, 3])
def test_codes_and_masks_of_one_map_take_a_plain_number(j):
    ids = np.arange(50, dtype=np.uint64)
    for maps in (maps_of(6, 4, 64), maps_of(6, 4)):
        many = np.full(50, j)
        assert np.array_equal(maps.codes(ids, j), maps.codes(ids, many))
        assert np.array_equal(maps.masks(ids, j), maps.masks(ids, many))


def test_tags_separate_bins_signs_and_the_rest():
    tags = [hashing.BIN, hashing.SIGN, hashing.ROW, hashing.MATRIX, hashing.MAP, hashing.MASK]
    assert len({*tags, hashing.FOLD}) == 7
    ids = np.arange(100, dtype=np.uint64)
    seen = {hashing.mix(np.uint64(9), ids, tag).tobytes() for tag in (*tags, hashing.FOLD)}
    assert len(seen) == 7


def test_codes_stay_below_31_bits_and_injective_on_a_sample():
    ids = np.arange(0, 2**31, 2**11, dtype=np.uint64)
    codes = maps_of(31, 1, 2**31).codes(ids, np.zeros(len(ids), dtype=int))
    assert int(codes.max()) < 2**31
    assert len(np.unique(codes)) == len(ids)


def test_salts_and_maps_give_different_codes():
    ids = np.arange(256, dtype=np.uint64)
    first = maps_of(8, 2, 256)
    other = maps_of(8, 2, 256, bytes(15) + b"\x01")
    zeros, ones = np.zeros(256, int), np.ones(256, int)
    tables = [first.codes(ids, zeros), first.codes(ids, ones), other.codes(ids, zeros)]
    assert len({table.tobytes() for table in tables}) == 3


def test_linear_places_follow_their_definition():
    """s(x) = (-1)^<r,π(x)>·t(x), bin digit i = <A_i,π(x)>, written out for one key at a time."""
    maps = maps_of(7, 4, 128, bytes(range(16)))
    seeds = np.arange(40, dtype=np.uint64) * np.uint64(0x123456789)
    ids = np.arange(40, dtype=np.uint64)
    place = maps.places(seeds, ids, 8)
    row, matrix = maps.rows(seeds, 3)
    chosen = maps.map_of(seeds)
    for i in range(40):
        code = int(maps.codes(ids[i : i + 1], chosen[i : i + 1])[0])
        mask = int(maps.masks(ids[i : i + 1], chosen[i : i + 1])[0])
        assert place.signs[i] == mask * (-1) ** (int(row[i]) & code).bit_count()
        digits = [(int(matrix[i, bit]) & code).bit_count() & 1 for bit in range(3)]
        assert place.bins[i] == digits[0] + 2 * digits[1] + 4 * digits[2]


def test_scaling_covers_all_bins_without_touching_the_end():
    words = np.array([0, 2**32 - 1, 2**31], dtype=np.uint32)
    assert hashing.scale_to(words, 3).tolist() == [0, 2, 1]
    assert hashing.scale_to(words, 1).tolist() == [0, 0, 0]
    assert hashing.to_signs(np.array([0, 1, 2], dtype=np.uint32)).tolist() == [1, -1, 1]
