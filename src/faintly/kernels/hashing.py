"""Hash words and codes of ids, items and strings."""

import hashlib
import itertools

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels import threads
from faintly.kernels.arguments import arrays, ascending, segments, unsigned
from faintly.kernels.language import in_c
from faintly.kernels.native import call
from faintly.primitives import hashing
from faintly.primitives.hashing import LinearMaps

MOST_WORDS = 256  # per item: a word is numbered by one byte


def hash_ids(key: int, ids: IdArray, tag: int) -> WordArray:
    """Return the hash of each id ‖ tag under one key."""
    unsigned(key, 64, "key")
    unsigned(tag, 8, "tag")
    (ids,) = arrays("ids u64[n]", ids)
    if not in_c():
        return hashing.mix(np.uint64(key), ids, tag)
    words = np.empty(len(ids), dtype=np.uint32)

    def work(a: int, b: int) -> None:
        call("hash_ids", key, ids[a:b], b - a, tag, words[a:b])

    threads.parallel(work, len(ids), threads.KEYS)
    return words


def hash_each(seeds: IdArray, ids: IdArray, tag: int) -> WordArray:
    """Return the word that ids[i] ‖ tag hashes to under seeds[i]."""
    seeds, ids = _checked_pairs(seeds, ids, tag=tag)
    if not in_c():
        return hashing.mix(seeds, ids, tag)
    words = np.empty(len(ids), dtype=np.uint32)
    call("hash_each", seeds, ids, len(ids), tag, words)
    return words


def hash_words(
    seeds: IdArray, ids: IdArray, tag: int, count: int, family: str = "prf"
) -> WordArray:
    """Return words (items, count): entry [i, w] hashes ids[i] ‖ tag ‖ w under seeds[i]."""
    seeds, ids = _checked_pairs(seeds, ids, tag=tag, count=count)
    if not in_c():
        return hashing.hash_words(seeds, ids, tag, count, family)
    words = np.empty((len(ids), count), dtype=np.uint32)
    name = "hash_words" if family == "prf" else "hash_words_blake2s"
    call(name, seeds, ids, len(ids), tag, count, words)
    return words


def hash_wide(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count) of BLAKE2s, eight from each call."""
    seeds, ids = _checked_pairs(seeds, ids, count=count, most=8 * MOST_WORDS)
    if not in_c():
        return hashing.wide_words(seeds, ids, count)
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("hash_wide", seeds, ids, len(ids), count, words)
    return words


def _checked_pairs(
    seeds: AnyArray, ids: AnyArray, *, tag: int = 0, count: int = 1, most: int = MOST_WORDS
) -> list[AnyArray]:
    """Return seeds and ids, checked: ids[i] is hashed under seeds[i], to `count` words."""
    unsigned(tag, 8, "tag")
    if not 0 <= count <= most:
        raise TypeError(f"count must be between 0 and {most}")
    return arrays("seeds u64[n], ids u64[n]", seeds, ids)


def hash_keys(data: AnyArray, offsets: IntArray, salt: bytes) -> IdArray:
    """Return the 64-bit id of each byte string data[offsets[i]:offsets[i+1]].

    It is the first 8 bytes of BLAKE2s keyed with the salt, little-endian.
    """
    data, offsets = arrays("data u8[bytes], offsets i64[n+1]", data, offsets)
    if not 1 <= len(salt) <= 32:
        raise TypeError("salt must have 1 to 32 bytes")
    ascending(offsets, len(data))
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    if in_c():
        key = np.frombuffer(salt.ljust(32, b"\0"), dtype=np.uint8)
        call("hash_keys", data, offsets, len(out), key, len(salt), out)
        return out
    whole = data.tobytes()
    for position, (first, last) in enumerate(itertools.pairwise(offsets)):
        digest = hashlib.blake2s(whole[first:last], digest_size=8, key=salt).digest()
        out[position] = int.from_bytes(digest, "little")
    return out


def map_codes(ids: IdArray, factor: WordArray, offset: WordArray, bits: int) -> WordArray:
    """Return the code of each id under a bijection, as `hashing.scrambled` defines it."""
    given = (ids, factor, offset)
    ids, factor, offset = arrays("ids u64[n], factor u32[rounds], offset u32[rounds]", *given)
    if not 1 <= bits <= 32:
        raise TypeError("bits must be between 1 and 32")
    if in_c():
        codes = np.empty(len(ids), dtype=np.uint32)

        def work(a: int, b: int) -> None:
            rounds = (factor, offset, len(factor))
            call("map_codes", ids[a:b], b - a, *rounds, bits, codes[a:b])

        threads.parallel(work, len(ids), threads.KEYS)
        return codes
    return hashing.scrambled(ids, zip(factor, offset, strict=True), bits)


def pick_maps(seeds: IdArray, maps: int) -> IntArray:
    """Return the public map that each seed uses."""
    (seeds,) = arrays("seeds u64[n]", seeds)
    if not 1 <= maps < 2**31:
        raise TypeError("maps must be between 1 and 2^31")
    if not in_c():
        return hashing.scale_to(hashing.mix(seeds, np.uint64(0), hashing.MAP), maps)
    picked = np.empty(len(seeds), dtype=np.int64)
    call("pick_maps", seeds, len(seeds), maps, picked)
    return picked


def code_items(
    seeds: IdArray, offsets: IntArray, ids: IdArray, maps: LinearMaps
) -> tuple[WordArray, AnyArray]:
    """Return the code of every item in the map that its client's seed picks, and its flip.

    Client c owns items offsets[c]:offsets[c+1]; a flip is 1 where the public sign is -1.
    """
    seeds, offsets, ids = segments("ids u64[items]", seeds, offsets, ids)
    if in_c():
        codes, flips = np.empty(len(ids), dtype=np.uint32), np.empty(len(ids), dtype=np.uint8)
        call("code_items", seeds, offsets, len(seeds), ids, *public_maps(maps), codes, flips)
        return codes, flips
    chosen = np.repeat(maps.map_of(seeds), np.diff(offsets))
    return maps.codes(ids, chosen), (maps.masks(ids, chosen) < 0).astype(np.uint8)


def public_maps(maps: LinearMaps) -> list[AnyArray | int]:
    """Return the public maps as arguments of C functions."""
    columns = (maps.factor, maps.offset, maps.mask_key, maps.fold_key)
    sizes = (int(maps.bijective), maps.maps, maps.bits)
    return [*(np.ascontiguousarray(column) for column in columns), *sizes]
