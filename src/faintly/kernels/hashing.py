"""Ids, items and strings to hash words and codes, as plainly as numpy can say it."""

import hashlib
import itertools

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels import arguments
from faintly.primitives import hashing
from faintly.primitives.hashing import LinearMaps

MOST_WORDS = 256  # hashed from one item: the number of a word is one byte


def hash_ids(key: int, ids: IdArray, tag: int) -> WordArray:
    """Return the hash of each id ‖ tag under one key."""
    ids = checked_ids(key, ids, tag)
    return hashing.mix(np.uint64(key), ids, tag)


def hash_each(seeds: IdArray, ids: IdArray, tag: int) -> WordArray:
    """Return the word that ids[i] ‖ tag hashes to under seeds[i]."""
    seeds, ids = checked_pairs(seeds, ids, tag=tag)
    return hashing.mix(seeds, ids, tag)


def hash_words(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] hashes ids[i] ‖ tag ‖ w under seeds[i]."""
    seeds, ids = checked_pairs(seeds, ids, tag=tag, count=count)
    return hashing.hash_words(seeds, ids, tag, count, "prf")


def hash_wide(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count) of BLAKE2s, eight from each call."""
    seeds, ids = checked_pairs(seeds, ids, count=count, most=8 * MOST_WORDS)
    return hashing.wide_words(seeds, ids, count)


def hash_words_blake2s(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] is BLAKE2s of ids[i] ‖ tag ‖ w under seeds[i]."""
    seeds, ids = checked_pairs(seeds, ids, tag=tag, count=count)
    return hashing.hash_words(seeds, ids, tag, count, "blake2s")


def hash_keys(data: AnyArray, offsets: IntArray, salt: bytes) -> IdArray:
    """Return the 64-bit id of each byte string data[offsets[i]:offsets[i+1]].

    It is the first 8 bytes of BLAKE2s keyed with the salt, little-endian.
    """
    data, offsets = checked_strings(data, offsets, salt)
    whole = data.tobytes()
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    for position, (first, last) in enumerate(itertools.pairwise(offsets)):
        digest = hashlib.blake2s(whole[first:last], digest_size=8, key=salt).digest()
        out[position] = int.from_bytes(digest, "little")
    return out


def map_codes(ids: IdArray, factor: WordArray, offset: WordArray, bits: int) -> WordArray:
    """Return the code of each id under a bijection of `bits` bits.

    Each round multiplies by an odd factor, adds an offset and folds the upper half down.
    """
    ids, factor, offset = checked_rounds(ids, factor, offset, bits)
    low, shift = np.uint32(2**bits - 1), np.uint32((bits + 1) // 2)
    code = ids.astype(np.uint32)
    for multiply, add in zip(factor, offset, strict=True):
        code = (code * multiply + add) & low
        code = code ^ (code >> shift)
    return code


def pick_maps(seeds: IdArray, maps: int) -> IntArray:
    """Return the public map that each seed uses."""
    seeds = arguments.exactly(seeds, np.uint64, 1, "seeds")
    check_maps(maps)
    return hashing.scale_to(hashing.mix(seeds, np.uint64(0), hashing.MAP), maps)


def code_items(
    seeds: IdArray, offsets: IntArray, ids: IdArray, maps: LinearMaps
) -> tuple[WordArray, AnyArray]:
    """Return the code of every item in the map that its client's seed picks, and its flip.

    Client c owns items offsets[c]:offsets[c+1]; a flip is 1 where the public sign is -1.
    """
    seeds, offsets, ids = checked_items(seeds, offsets, ids)
    chosen = np.repeat(maps.map_of(seeds), np.diff(offsets))
    return maps.codes(ids, chosen), (maps.masks(ids, chosen) < 0).astype(np.uint8)


def checked_ids(key: int, ids: AnyArray, tag: int) -> AnyArray:
    """Return the ids to hash under one key and tag."""
    if not 0 <= key < 2**64:
        raise TypeError("key must fit 64 bits")
    arguments.one_byte(tag, "tag")
    return arguments.exactly(ids, np.uint64, 1, "ids")


def checked_pairs(
    seeds: AnyArray, ids: AnyArray, *, tag: int = 0, count: int = 1, most: int = MOST_WORDS
) -> list[AnyArray]:
    """Return ids, each with the seed to hash it under, to `count` words."""
    arguments.one_byte(tag, "tag")
    checked = [
        arguments.exactly(seeds, np.uint64, 1, "seeds"),
        arguments.exactly(ids, np.uint64, 1, "ids"),
    ]
    arguments.same_length(seeds=seeds, ids=ids)
    if not 0 <= count <= most:
        raise TypeError(f"count must be between 0 and {most}")
    return checked


def checked_strings(data: AnyArray, offsets: AnyArray, salt: bytes) -> list[AnyArray]:
    """Return byte strings that stand one after another, and where each begins."""
    data = arguments.exactly(data, np.uint8, 1, "data")
    if not 1 <= len(salt) <= 32:
        raise TypeError("salt must have 1 to 32 bytes")
    return [data, arguments.ascending(offsets, len(data))]


def checked_rounds(ids: AnyArray, factor: AnyArray, offset: AnyArray, bits: int) -> list[AnyArray]:
    """Return ids, and the factors and offsets of the rounds that map them."""
    checked = [
        arguments.exactly(ids, np.uint64, 1, "ids"),
        arguments.exactly(factor, np.uint32, 1, "factor"),
        arguments.exactly(offset, np.uint32, 1, "offset"),
    ]
    arguments.same_length(factor=factor, offset=offset)
    if not 1 <= bits <= 32:
        raise TypeError("bits must be between 1 and 32")
    return checked


def check_maps(maps: int) -> None:
    """Refuse a number of maps that a hash word cannot choose from."""
    if not 1 <= maps < 2**31:
        raise TypeError("maps must be between 1 and 2^31")


def checked_items(seeds: AnyArray, offsets: AnyArray, ids: AnyArray) -> list[AnyArray]:
    """Return the columns of clients that hold items."""
    ids = arguments.exactly(ids, np.uint64, 1, "ids")
    checked = [
        arguments.exactly(seeds, np.uint64, 1, "seeds"),
        arguments.ascending(offsets, len(ids)),
        ids,
    ]
    if len(offsets) != len(seeds) + 1:
        raise TypeError("seeds and offsets must describe the same clients")
    return checked
