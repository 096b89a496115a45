"""Array code equals plain integers, and codes of an indexed universe never merge."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faintly.core import Hashing
from faintly.primitives import hashing
from spec import independent

wide = st.integers(0, 2**64 - 1)
tags = st.integers(0, 255)

# The first published vectors of HalfSipHash-2-4, 32 bits: key 00..07, message 00, 01, …
PUBLISHED = ["a9359f5b", "27475ab8", "fa62a603", "8afee704", "2a6e4689", "c5fab669", "5863fc23"]
PUBLISHED += ["8bcf63c5", "d0b8848f", "f806e779", "94b07934", "08083050", "57f0872f"]


@pytest.mark.parametrize("length", range(len(PUBLISHED)))
def test_half_sip_is_the_published_function(length):
    key, message = int.from_bytes(bytes(range(8)), "little"), bytes(range(length))
    wanted = int.from_bytes(bytes.fromhex(PUBLISHED[length]), "little")
    assert independent.half_sip(key, message, 2, 4) == wanted
    closing = message[length // 4 * 4 :].ljust(3, b"\0") + bytes([length])
    words = np.frombuffer(message[: length // 4 * 4] + closing, dtype="<u4")
    keys = np.array([key, key], dtype=np.uint64)
    found = hashing.half_sip(keys, [np.full(2, word, np.uint32) for word in words], 2, 4)
    assert found.tolist() == [wanted, wanted]


@given(st.lists(st.tuples(wide, wide), min_size=1, max_size=8), tags)
@example([(0, 0), (2**64 - 1, 2**64 - 1)], 0)
def test_mix_of_arrays_is_the_mix_of_each(pairs, tag):
    keys, ids = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    assert hashing.mix(keys, ids, tag).tolist() == [independent.mix(k, i, tag) for k, i in pairs]
    assert hashing.mix_blake2s(keys, ids, tag).tolist() == [
        independent.mix_blake2s(k, i, tag) for k, i in pairs
    ]


@given(wide, st.lists(wide, min_size=1, max_size=4), tags)
@example(2**64 - 1, [0, 1], 0)
def test_one_key_or_one_id_may_stand_for_many(key, ids, tag):
    column = np.array(ids, dtype=np.uint64)
    wanted = [independent.mix(key, item, tag) for item in ids]
    assert hashing.mix(np.uint64(key), column, tag).tolist() == wanted
    assert hashing.mix(column, np.uint64(key), tag).tolist() == [
        independent.mix(seed, key, tag) for seed in ids
    ]


@given(wide, wide, tags)
def test_one_key_and_one_id(key, item, tag):
    found = hashing.mix(np.uint64(key), np.uint64(item), tag)
    assert np.asarray(found).item() == independent.mix(key, item, tag)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1), st.integers(1, 4096))
def test_scaling_keeps_the_top(words, count):
    scaled = hashing.scale_to(np.array(words, dtype=np.uint32), count)
    assert scaled.tolist() == [independent.below(word, count) for word in words]
    assert scaled.max() < count


@pytest.mark.parametrize("bits", range(1, 17))
@given(salt=st.binary(min_size=16, max_size=16))
@example(salt=bytes(16))
def test_codes_of_an_indexed_universe_are_a_bijection(bits, salt):
    maps = hashing.LinearMaps(Hashing(family="linear", bits=bits, maps=2), salt, 2**bits)
    ids = np.arange(2**bits, dtype=np.uint64)
    for j in range(2):
        codes = maps.codes(ids, np.full(len(ids), j))
        assert np.array_equal(np.bincount(codes, minlength=2**bits), np.ones(2**bits))


@given(
    bits=st.integers(1, 31),
    salt=st.binary(min_size=16, max_size=16),
    seed=st.integers(0, 2**40 - 1),
    items=st.lists(wide, min_size=1, max_size=5),
    width=st.integers(0, 4),
    kind=st.sampled_from(["indexed", "open"]),
)
def test_linear_places_follow_the_text(bits, salt, seed, items, width, kind):
    plan = {
        "salt": salt.hex(),
        "universe": {"kind": kind},
        "hashing": {"family": "linear", "bits": bits, "maps": 4},
        "parameters": {"bins": 2**width},
    }
    size = 2**bits if kind == "indexed" else None
    items = [item % size for item in items] if size else items
    maps = hashing.LinearMaps(Hashing(family="linear", bits=bits, maps=4), salt, size)
    ids = np.array(items, dtype=np.uint64)
    place = maps.places(np.full(len(ids), seed, np.uint64), ids, 2**width)
    found = list(zip(place.bins.tolist(), place.signs.tolist(), strict=True))
    assert found == [independent.place(plan, seed, item) for item in items]


@given(
    st.lists(st.tuples(wide, wide), min_size=1, max_size=5),
    st.integers(1, 4096),
    st.sampled_from(["prf", "blake2s"]),
)
def test_hashed_places_follow_the_text(pairs, bins, family):
    plan = {"hashing": {"family": family}, "parameters": {"bins": bins}}
    seeds, ids = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    place = hashing.places(seeds, ids, bins, family)
    found = list(zip(place.bins.tolist(), place.signs.tolist(), strict=True))
    assert found == [independent.place(plan, seed, item) for seed, item in pairs]
