"""The hashing, coins and bytes of spec/ in plain integers: hashing-v1.md and wire-v1.md."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

LOW32 = 0xFFFFFFFF
FULL = 2**32
BIN, SIGN, ROW, MATRIX, MAP, MASK, FOLD = (ord(letter) for letter in "bsrAjmf")
SEED_BYTES = {"linear": 5, "prf": 5, "blake2s": 8}
Document = dict[str, Any]


def rotate(word: int, by: int) -> int:
    """Return a 32-bit word rotated left."""
    return (word << by | word >> (32 - by)) & LOW32


def sip_round(v: list[int]) -> None:
    """Apply one round of HalfSipHash to its four words."""
    v[0] = v[0] + v[1] & LOW32
    v[1] = rotate(v[1], 5) ^ v[0]
    v[0] = rotate(v[0], 16)
    v[2] = v[2] + v[3] & LOW32
    v[3] = rotate(v[3], 8) ^ v[2]
    v[0] = v[0] + v[3] & LOW32
    v[3] = rotate(v[3], 7) ^ v[0]
    v[2] = v[2] + v[1] & LOW32
    v[1] = rotate(v[1], 13) ^ v[2]
    v[2] = rotate(v[2], 16)


def half_sip(key: int, data: bytes, compress: int = 1, finish: int = 3) -> int:
    """Return HalfSipHash-compress-finish of any bytes under a 64-bit key."""
    low, high = key & LOW32, key >> 32
    v = [low, high, low ^ 0x6C796765, high ^ 0x74656462]
    whole = len(data) // 4 * 4
    closing = data[whole:].ljust(3, b"\0") + bytes([len(data) & 255])
    padded = data[:whole] + closing
    for start in range(0, len(padded), 4):
        word = int.from_bytes(padded[start : start + 4], "little")
        v[3] ^= word
        for _ in range(compress):
            sip_round(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(finish):
        sip_round(v)
    return v[1] ^ v[3]


def mix(key: int, item: int, tag: int) -> int:
    """Return the 32-bit mix of an id and a tag."""
    return half_sip(key, item.to_bytes(8, "little") + bytes([tag]))


def mix_blake2s(seed: int, item: int, tag: int) -> int:
    """Return the 32-bit mix of the blake2s family."""
    data = item.to_bytes(8, "little") + bytes([tag])
    digest = hashlib.blake2s(data, digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest[:4], "little")


def hash_word(seed: int, item: int, tag: int, word: int, family: str = "prf") -> int:
    """Return word number `word` of an id that needs several: a hash of id, tag and number."""
    data = item.to_bytes(8, "little") + bytes([tag, word])
    if family == "prf":
        return half_sip(seed, data)
    digest = hashlib.blake2s(data, digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest[:4], "little")


def wide_words(seed: int, item: int, count: int) -> list[int]:
    """Return words of an id, eight from each BLAKE2s digest."""
    data, key, out = item.to_bytes(8, "little") + b"w", seed.to_bytes(8, "little"), []
    for word in range(count):
        digest = hashlib.blake2s(data + bytes([word // 8]), key=key).digest()
        out.append(int.from_bytes(digest[word % 8 * 4 :][:4], "little"))
    return out


def key_id(data: bytes, salt: bytes) -> int:
    """Return the id of a text's UTF-8 bytes, or of a byte string, in an open universe."""
    return int.from_bytes(hashlib.blake2s(data, digest_size=8, key=salt).digest(), "little")


def map_words(salt: bytes, j: int, purpose: bytes) -> list[int]:
    """Return the eight constants of map j for a purpose, fntlymap or fntlykey."""
    digest = hashlib.blake2s(j.to_bytes(4, "little"), key=salt, person=purpose).digest()
    return [int.from_bytes(digest[at : at + 4], "little") for at in range(0, 32, 4)]


def code(plan: Document, item: int, j: int) -> int:
    """Return the D-bit code of an id in map j."""
    bits: int = plan["hashing"]["bits"]
    salt, low = bytes.fromhex(plan["salt"]), (1 << bits) - 1
    if plan["universe"]["kind"] == "open":
        keys = map_words(salt, j, b"fntlykey")
        return mix(keys[2] | keys[3] << 32, item, FOLD) & low
    constants = map_words(salt, j, b"fntlymap")
    value = item
    for step in range(4):
        value = value * (constants[2 * step] | 1) + constants[2 * step + 1] & low
        value ^= value >> (bits + 1) // 2
    return value


def mask(plan: Document, item: int, j: int) -> int:
    """Return the public sign of an id in map j."""
    keys = map_words(bytes.fromhex(plan["salt"]), j, b"fntlykey")
    return 1 - 2 * (mix(keys[0] | keys[1] << 32, item, MASK) & 1)


def below(word: int, count: int) -> int:
    """Return a word scaled to 0..count-1: the high half of a 32 by 32 bit product."""
    return word * count >> 32


def parity(word: int) -> int:
    """Return 1 where the number of ones is odd."""
    return word.bit_count() & 1


def map_of(plan: Document, seed: int) -> int:
    """Return the map that a report of this seed uses."""
    maps = plan["hashing"]["maps"]
    return below(mix(seed, 0, MAP), maps) if maps else 0


def seed_from(first: int, second: int, seed_bytes: int) -> int:
    """Return the public seed that two words give."""
    return (first | second << 32) >> (64 - 8 * seed_bytes)


def met(chances: Sequence[float], words: Iterator[int]) -> list[bool]:
    """Return whether each chance was met: a word each, then a word for each tie, and so on."""
    rests, out, undecided = list(chances), [False] * len(chances), list(range(len(chances)))
    while undecided:
        tied = []
        for position in undecided:
            word, product = next(words), rests[position] * 2.0**32
            high = math.floor(product)
            if word == high and product > high:
                rests[position] = product - high
                tied.append(position)
            else:
                out[position] = word < high
        undecided = tied
    return out


def uniform(limit: int, words: Iterator[int]) -> int:
    """Return a uniform number below the limit; words beyond its last whole multiple are skipped."""
    whole = FULL - FULL % limit
    word = next(words)
    while word >= whole:
        word = next(words)
    return word % limit


def packed(seed: int, seed_bytes: int, fields: Sequence[int], widths: Sequence[int]) -> bytes:
    """Return the bytes of one record: the seed, then the fields from the lowest bit on."""
    payload, position = 0, 0
    for field, width in zip(fields, widths, strict=True):
        payload |= field << position
        position += width
    return seed.to_bytes(8, "little")[:seed_bytes] + payload.to_bytes((position + 7) // 8, "little")
