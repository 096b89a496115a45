"""Public hashing: which bin and sign a key has under a report's seed.

prf      HalfSipHash-1-3 keyed with the seed, one tag for bins and another for signs
blake2s  the same with keyed BLAKE2s, where a guarantee depends on the hash
linear   s(x) = (-1)^<r,π_j(x)>·t_j(x) and bins A·π_j(x), where r, A and j come from the
         seed and the D-bit codes π_j and signs t_j from the plan's salt

For an indexed universe π_j is a bijection, so keys never merge; an open one is folded.
Everything is 32-bit arithmetic. spec/hashing-v1.md is the definition; vectors test it.
"""

import hashlib
import itertools
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from faintly.core import AnyArray, ArrayOrScalar, Hashing, IdArray, IntArray, WordArray
from faintly.primitives import galois

BIN, SIGN, ROW, MATRIX, MAP, MASK, FOLD = (ord(letter) for letter in "bsrAjmf")
EQUATION, COIN, ORDER = (ord(letter) for letter in "aco")  # of retrieval
PROJECTION, GROUP = (ord(letter) for letter in "pq")  # of projection-choice
POINT, SYMBOL = (ord(letter) for letter in "gy")  # of retrieval-gf
WIDE = ord("w")  # of retrieval-l1
LEAST_ROW_BITS = 8  # with fewer, two groups share a row so often that means are biased
# Irreducible polynomials of degree 8, 9, …, 24, the coefficient of X^i at bit i.
POLYNOMIALS = (
    *(0x11B, 0x203, 0x409, 0x805, 0x1009, 0x201B, 0x4021, 0x8003, 0x1002B, 0x20009),
    *(0x40009, 0x80027, 0x100009, 0x200005, 0x400003, 0x800021, 0x100001B),
)
ROUNDS = 4  # of odd-multiply, add and xor-shift; with one, the statistical tests fail
LOW32 = np.uint64(0xFFFFFFFF)


def _rotate(word: AnyArray, by: int) -> AnyArray:
    return (word << np.uint32(by)) | (word >> np.uint32(32 - by))


def _sip_round(v: list[AnyArray]) -> None:
    v[0] = v[0] + v[1]
    v[1] = _rotate(v[1], 5) ^ v[0]
    v[0] = _rotate(v[0], 16)
    v[2] = v[2] + v[3]
    v[3] = _rotate(v[3], 8) ^ v[2]
    v[0] = v[0] + v[3]
    v[3] = _rotate(v[3], 7) ^ v[0]
    v[2] = v[2] + v[1]
    v[1] = _rotate(v[1], 13) ^ v[2]
    v[2] = _rotate(v[2], 16)


def half_sip(key: AnyArray, message: list[Any], compress: int, finish: int) -> WordArray:
    """Return HalfSipHash-compress-finish (32 bits) of whole 32-bit message words.

    The last word is the closing block: length in bytes in its top byte, leftover bytes below.
    """
    low, high = (key & LOW32).astype(np.uint32), (key >> np.uint64(32)).astype(np.uint32)
    v = [low, high, low ^ np.uint32(0x6C796765), high ^ np.uint32(0x74656462)]
    for word in message:
        v[3] = v[3] ^ word
        for _ in range(compress):
            _sip_round(v)
        v[0] = v[0] ^ word
    v[2] = v[2] ^ np.uint32(0xFF)
    for _ in range(finish):
        _sip_round(v)
    return v[1] ^ v[3]


def halves(ids: AnyArray) -> list[WordArray]:
    """Return the lower and the upper 32 bits of each id."""
    return [(ids & LOW32).astype(np.uint32), (ids >> np.uint64(32)).astype(np.uint32)]


def mix(key: ArrayOrScalar, ids: ArrayOrScalar, tag: int) -> WordArray:
    """Return HalfSipHash-1-3 under `key` of the nine bytes id ‖ tag, elementwise."""
    # At least one dimension: for scalars numpy warns of wrap-around, which is intended here.
    keys, ids = np.atleast_1d(np.asarray(key, np.uint64)), np.asarray(ids, np.uint64)
    return half_sip(keys, [*halves(ids), np.uint32(9 << 24 | tag)], 1, 3)


def _blake2s(seeds: IdArray, ids: IdArray, endings: list[bytes], size: int) -> WordArray:
    """Return digests of id ‖ ending under each 8-byte seed, as words (items, endings·size/4)."""
    raw = b"".join(
        hashlib.blake2s(
            item.to_bytes(8, "little") + ending, digest_size=size, key=seed.to_bytes(8, "little")
        ).digest()
        for seed, item in zip(seeds.tolist(), ids.tolist(), strict=True)
        for ending in endings
    )
    words = np.frombuffer(raw, dtype="<u4").astype(np.uint32)
    return words.reshape(len(ids), len(endings) * size // 4)


def mix_blake2s(seeds: IdArray, ids: IdArray, tag: int) -> WordArray:
    """Return the first 32 bits of BLAKE2s keyed with the 8-byte seed, of id ‖ tag, elementwise."""
    return _blake2s(seeds, ids, [bytes([tag])], 8)[:, 0]


def hash_words(seeds: IdArray, ids: IdArray, tag: int, count: int, family: str) -> WordArray:
    """Return words (items, count): entry [i, w] hashes ids[i] ‖ tag ‖ w under seeds[i].

    `count` is at most 256, since w is one byte. For mechanisms that need many bits per item.
    """
    if family == "blake2s":
        digests = _blake2s(seeds, ids, [bytes([tag, word]) for word in range(count)], 8)
        return np.ascontiguousarray(digests[:, ::2])
    closing = np.uint32(10 << 24 | tag) | (np.arange(count, dtype=np.uint32) << np.uint32(8))
    words = [*halves(np.asarray(ids, np.uint64)[:, None]), closing[None, :]]
    return half_sip(np.asarray(seeds, np.uint64)[:, None], words, 1, 3)


def wide_words(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count), eight from each BLAKE2s keyed with seeds[i] of id ‖ tag ‖ block.

    The 32-byte digest makes one call worth eight of `mix_blake2s`. `count` is at most 2048,
    since the block is one byte.
    """
    blocks = [bytes([WIDE, block]) for block in range(-(-count // 8))]
    return np.ascontiguousarray(_blake2s(seeds, ids, blocks, 32)[:, :count])


def word_digits(order: int) -> int:
    """Return how many digits to the base `order` are taken from one hashed word.

    Where the base is a power of two, all that fit, which is exact. Else as many as have at most
    2^24 values, so that no value is likelier than another by more than one part in 256.
    """
    return digits_within(order, 2**32 if order & (order - 1) == 0 else 2**24)


def digits_within(order: int, limit: int) -> int:
    """Return how many digits to the base `order` have at most `limit` values; at least one."""
    return next(digits for digits in itertools.count(1) if order ** (digits + 1) > limit)


def base_digits(words: WordArray, order: int, count: int) -> AnyArray:
    """Return digits (items, count): the expansion of word/2^32 to the base `order`, word by word.

    >>> base_digits(np.array([[0x80000000, 0x40000000]], dtype=np.uint32), 2, 34)[0, 30:].tolist()
    [0, 0, 0, 1]
    """
    each = word_digits(order)
    out = np.empty((*words.shape, each), dtype=np.uint8)
    rest = words.astype(np.uint64)
    for place in range(each):
        rest = rest * np.uint64(order)
        out[:, :, place] = rest >> np.uint64(32)
        rest &= LOW32
    flat = out.reshape(len(words), words.shape[1] * each)
    return np.ascontiguousarray(flat[:, :count])


def unpack_symbols(words: WordArray, count: int, bits: int) -> WordArray:
    """Return symbols (items, count) of `bits` bits; a word has as many as fit, lowest first."""
    shifts = np.arange(32 // bits, dtype=np.uint32) * np.uint32(bits)
    symbols = (words[:, :, None] >> shifts) & np.uint32(2**bits - 1)
    return symbols.reshape(len(words), words.shape[1] * len(shifts))[:, :count]


def symbol_words(count: int, bits: int) -> int:
    """Return how many words hold `count` symbols of `bits` bits."""
    return -(-count // (32 // bits))


def points(seeds: IdArray, ids: IdArray, bits: int) -> tuple[WordArray, IntArray]:
    """Return a point below 2^bits (the top of a hash) and a sign (its lowest bit) for each id."""
    words = mix(seeds, ids, POINT)
    return words >> np.uint32(32 - bits), to_signs(words)


def scale_to(words: WordArray, count: int) -> IntArray:
    """Return uniform words as integers below `count`: the upper half of word·count."""
    return ((words.astype(np.uint64) * np.uint64(count)) >> np.uint64(32)).astype(np.int64)


def to_signs(words: AnyArray) -> IntArray:
    """Return +1 for words whose lowest bit is 0, -1 for the others."""
    return 1 - 2 * (words & words.dtype.type(1)).astype(np.int64)


def parity(words: AnyArray) -> AnyArray:
    """Return the parity of the number of ones in each word."""
    return np.bitwise_count(words) & np.uint8(1)


@dataclass(frozen=True, slots=True)
class Places:
    """Where items fall under their reports' seeds: a bin and a sign each."""

    bins: IntArray
    signs: IntArray


def places(seeds: IdArray, ids: IdArray, bins: int, hashed: "str | LinearMaps") -> Places:
    """Return the place of ids[i] under seeds[i]: by the family prf or blake2s, or by maps."""
    if isinstance(hashed, LinearMaps):
        return hashed.places(seeds, ids, bins)
    word = mix if hashed == "prf" else mix_blake2s
    where = scale_to(word(seeds, ids, BIN), bins) if bins > 1 else np.zeros(len(ids), np.int64)
    return Places(where, to_signs(word(seeds, ids, SIGN)))


def scrambled(ids: IdArray, rounds: Iterable[tuple[AnyArray, AnyArray]], bits: int) -> WordArray:
    """Return the code of each id under a bijection of `bits` bits.

    Each round multiplies by an odd factor, adds an offset and folds the upper half down.
    """
    code, low = ids.astype(np.uint32), np.uint32(2**bits - 1)
    for factor, offset in rounds:
        code = (code * factor + offset) & low
        code = code ^ (code >> np.uint32((bits + 1) // 2))
    return code


class LinearMaps:
    """The public maps of a plan: codes π_j and masks t_j, and what a seed draws over them."""

    def __init__(self, hashing: Hashing, salt: bytes, size: int | None) -> None:
        self.bits, self.maps = hashing.bits, hashing.maps
        self.bijective = size is not None
        raw = b"".join(
            hashlib.blake2s(j.to_bytes(4, "little"), key=salt, person=b"fntlymap").digest()
            + hashlib.blake2s(j.to_bytes(4, "little"), key=salt, person=b"fntlykey").digest()
            for j in range(self.maps)
        )
        words = np.frombuffer(raw, dtype="<u4").reshape(self.maps, 16).astype(np.uint32)
        self.factor = words[:, 0 : 2 * ROUNDS : 2] | np.uint32(1)
        self.offset = words[:, 1 : 2 * ROUNDS : 2]
        keys = words[:, 8:].astype(np.uint64)
        self.mask_key = keys[:, 0] | (keys[:, 1] << np.uint64(32))
        self.fold_key = keys[:, 2] | (keys[:, 3] << np.uint64(32))

    def only(self, j: int) -> "LinearMaps":
        """Return map j alone, as map 0 of the result."""
        made = copy(self)
        made.maps = 1
        for name in ("factor", "offset", "mask_key", "fold_key"):
            setattr(made, name, getattr(self, name)[j : j + 1])
        return made

    def codes(self, ids: AnyArray, maps: AnyArray | int) -> WordArray:
        """Return the D-bit code of each id in its map (arrays broadcast)."""
        if not self.bijective:
            return mix(self.fold_key[maps], ids, FOLD) & np.uint32(2**self.bits - 1)
        rounds = ((self.factor[maps, step], self.offset[maps, step]) for step in range(ROUNDS))
        return scrambled(np.asarray(ids, np.uint64), rounds, self.bits)

    def masks(self, ids: AnyArray, maps: AnyArray | int) -> IntArray:
        """Return the public sign t_j of each id in its map (arrays broadcast)."""
        return to_signs(mix(self.mask_key[maps], ids, MASK))

    def map_of(self, seeds: IdArray) -> IntArray:
        """Return the map that each seed uses."""
        return scale_to(mix(seeds, np.uint64(0), MAP), self.maps)

    def rows(self, seeds: IdArray, width: int) -> tuple[WordArray, WordArray]:
        """Return r (reports,) and the bin matrix A (reports, width) of each seed, D bits each."""
        low = np.uint32(2**self.bits - 1)
        counter = np.arange(width, dtype=np.uint64)
        matrix = mix(seeds[:, None], counter[None, :], MATRIX) & low
        return mix(seeds, np.uint64(0), ROW) & low, matrix

    def places(self, seeds: IdArray, ids: IdArray, bins: int) -> Places:
        """Return the place of ids[i] under seeds[i]; `bins` is a power of two."""
        chosen = self.map_of(seeds)
        codes = self.codes(ids, chosen)
        row, matrix = self.rows(seeds, bins.bit_length() - 1)
        signs = to_signs(parity(row & codes)) * self.masks(ids, chosen)
        where = np.zeros(len(ids), dtype=np.int64)
        for bit in range(matrix.shape[1]):
            where |= parity(matrix[:, bit] & codes).astype(np.int64) << bit
        return Places(where, signs)


@dataclass(frozen=True, slots=True)
class LinearBins:
    """Bins of the linear family: a row puts a code of D bits into a bin, as in kernels/bins.py.

    Two codes that differ in their lower s bits meet in a bin with chance 1/bins over all rows.
    """

    code_bits: int  # D
    bins: int  # 2^e
    signed: bool

    @property
    def width(self) -> int:
        """Return e."""
        return self.bins.bit_length() - 1

    @property
    def row_bits(self) -> int:
        """Return s."""
        return self.code_bits - self.width

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return 1 << self.row_bits

    @property
    def polynomial(self) -> int:
        """Return the polynomial that shifts of rows are taken modulo."""
        return POLYNOMIALS[self.row_bits - LEAST_ROW_BITS]

    def shifted(self, rows: WordArray) -> WordArray:
        """Return X times each row."""
        over = rows >> np.uint32(self.row_bits - 1)
        return (rows << np.uint32(1)) ^ (over * np.uint32(self.polynomial))

    def multiplied(self, rows: WordArray, factors: WordArray) -> WordArray:
        """Return the products of rows with factors below 2^s, elementwise (arrays broadcast)."""
        return galois.products(rows, factors, self.row_bits, self.polynomial)

    def factors(self) -> WordArray:
        """Return u(X) of every character u, or u(X) + X^e where bins have signs."""
        return np.arange(self.bins, dtype=np.uint32) | np.uint32(self.bins if self.signed else 0)

    def steps(self) -> WordArray:
        """Return the products of 1, 3, 7, … and of 0 (rows) with each factor (columns)."""
        ones = (np.uint32(2) << np.arange(self.row_bits, dtype=np.uint32)) - np.uint32(1)
        return self.multiplied(np.append(ones, np.uint32(0))[:, None], self.factors()[None, :])

    def places(self, rows: WordArray, codes: WordArray) -> WordArray:
        """Return the bin of each code under its row; with signs, twice that plus the sign bit."""
        low, where = codes & np.uint32(self.rows - 1), codes >> np.uint32(self.row_bits)
        for bit in range(self.width):
            where = where ^ (parity(rows & low).astype(np.uint32) << np.uint32(bit))
            rows = self.shifted(rows)
        return where * np.uint32(2) + parity(rows & low) if self.signed else where
