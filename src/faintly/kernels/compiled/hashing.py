"""The kernels of hashing.py from hashing.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels import threads
from faintly.kernels._native import call
from faintly.kernels.arguments import exactly
from faintly.kernels.hashing import (
    MOST_WORDS,
    check_maps,
    checked_ids,
    checked_items,
    checked_pairs,
    checked_rounds,
    checked_strings,
)
from faintly.kernels.threads import parallel
from faintly.primitives.hashing import LinearMaps


def hash_ids(key: int, ids: IdArray, tag: int) -> WordArray:
    """Return the hash of each id ‖ tag under one key."""
    ids = checked_ids(key, ids, tag)
    words = np.empty(len(ids), dtype=np.uint32)

    def work(a: int, b: int) -> None:
        call("hash_ids", key, ids[a:b], b - a, tag, words[a:b])

    parallel(work, len(ids), threads.KEYS)
    return words


def hash_each(seeds: IdArray, ids: IdArray, tag: int) -> WordArray:
    """Return the word that ids[i] ‖ tag hashes to under seeds[i]."""
    seeds, ids = checked_pairs(seeds, ids, tag=tag)
    words = np.empty(len(ids), dtype=np.uint32)
    call("hash_each", seeds, ids, len(ids), tag, words)
    return words


def hash_words(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] hashes ids[i] ‖ tag ‖ w under seeds[i]."""
    seeds, ids = checked_pairs(seeds, ids, tag=tag, count=count)
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("hash_words", seeds, ids, len(ids), tag, count, words)
    return words


def hash_wide(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count) of BLAKE2s, eight from each call."""
    seeds, ids = checked_pairs(seeds, ids, count=count, most=8 * MOST_WORDS)
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("hash_wide", seeds, ids, len(ids), count, words)
    return words


def hash_words_blake2s(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] is BLAKE2s of ids[i] ‖ tag ‖ w under seeds[i]."""
    seeds, ids = checked_pairs(seeds, ids, tag=tag, count=count)
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("hash_words_blake2s", seeds, ids, len(ids), tag, count, words)
    return words


def hash_keys(data: AnyArray, offsets: IntArray, salt: bytes) -> IdArray:
    """Return the 64-bit id of each byte string data[offsets[i]:offsets[i+1]]."""
    data, offsets = checked_strings(data, offsets, salt)
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    key = np.frombuffer(salt.ljust(32, b"\0"), dtype=np.uint8)
    call("hash_keys", data, offsets, len(out), key, len(salt), out)
    return out


def map_codes(ids: IdArray, factor: WordArray, offset: WordArray, bits: int) -> WordArray:
    """Return the code of each id under a bijection of `bits` bits."""
    ids, factor, offset = checked_rounds(ids, factor, offset, bits)
    codes = np.empty(len(ids), dtype=np.uint32)

    def work(a: int, b: int) -> None:
        rounds = (factor, offset, len(factor))
        call("map_codes", ids[a:b], b - a, *rounds, bits, codes[a:b])

    parallel(work, len(ids), threads.KEYS)
    return codes


def pick_maps(seeds: IdArray, maps: int) -> IntArray:
    """Return the public map that each seed uses."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    check_maps(maps)
    picked = np.empty(len(seeds), dtype=np.int64)
    call("pick_maps", seeds, len(seeds), maps, picked)
    return picked


def code_items(
    seeds: IdArray, offsets: IntArray, ids: IdArray, maps: LinearMaps
) -> tuple[WordArray, AnyArray]:
    """Return the code of every item in the map that its client's seed picks, and its flip."""
    seeds, offsets, ids = checked_items(seeds, offsets, ids)
    codes, flips = np.empty(len(ids), dtype=np.uint32), np.empty(len(ids), dtype=np.uint8)
    call("code_items", seeds, offsets, len(seeds), ids, *public_maps(maps), codes, flips)
    return codes, flips


def public_maps(maps: LinearMaps) -> list[AnyArray | int]:
    """Return the public maps as C takes them."""
    columns = (maps.factor, maps.offset, maps.mask_key, maps.fold_key)
    sizes = (int(maps.bijective), maps.maps, maps.bits)
    return [*(np.ascontiguousarray(column) for column in columns), *sizes]
