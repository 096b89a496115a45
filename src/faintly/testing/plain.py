"""The client of spec/ once more, in plain integers: no numpy, nothing from the library.

It is written from the specification alone and follows its order of sections, so that the
library, the test vectors and the text can be held against each other. Slow, and proud of it.
Plans are the JSON objects that plan files hold.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

LOW32 = 0xFFFFFFFF
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


def row_and_matrix(plan: Document, seed: int) -> tuple[int, list[int]]:
    """Return r and the rows of A that a seed draws."""
    low = 2 ** plan["hashing"]["bits"] - 1
    width = plan["parameters"]["bins"].bit_length() - 1
    return mix(seed, 0, ROW) & low, [mix(seed, bit, MATRIX) & low for bit in range(width)]


def place(plan: Document, seed: int, item: int) -> tuple[int, int]:
    """Return the bin and the sign of an id under a seed."""
    bins, family = plan["parameters"]["bins"], plan["hashing"]["family"]
    if family != "linear":
        hashed = mix if family == "prf" else mix_blake2s
        where = below(hashed(seed, item, BIN), bins) if bins > 1 else 0
        return where, 1 - 2 * (hashed(seed, item, SIGN) & 1)
    j = map_of(plan, seed)
    value = code(plan, item, j)
    row, matrix = row_and_matrix(plan, seed)
    where = sum(parity(line & value) << bit for bit, line in enumerate(matrix))
    return where, (1 - 2 * parity(row & value)) * mask(plan, item, j)


def seed_from(first: int, second: int, seed_bytes: int) -> int:
    """Return the public seed that two words give."""
    return (first | second << 32) >> (64 - 8 * seed_bytes)


def rounded(values: Sequence[float], steps: int, words: Iterator[int]) -> list[int]:
    """Return the values of one vector in grid steps; tie words follow the first words."""
    scaled = [abs(value) * steps for value in values]
    floors = [math.floor(number) for number in scaled]
    rests = [number - low for number, low in zip(scaled, floors, strict=True)]
    out, open_ones = list(floors), list(range(len(floors)))
    while open_ones:
        tied = []
        for position in open_ones:
            word, product = next(words), rests[position] * 2.0**32
            high = math.floor(product)
            if word == high and product > high:
                rests[position] = product - high
                tied.append(position)
            elif word < high:
                out[position] += 1
        open_ones = tied
    return [-size if value < 0 else size for size, value in zip(out, values, strict=True)]


def noise(thresholds: Sequence[int], bins: int, words: Iterator[int]) -> list[int]:
    """Return one noise value per bin: a difference of two geometric variables."""
    *digits, going_on = thresholds
    drawn = [0] * (2 * bins)
    for digit, threshold in enumerate(digits):
        for position in range(2 * bins):
            drawn[position] += (next(words) < threshold) << digit
    alive = list(range(2 * bins))
    while alive:
        alive = [position for position in alive if next(words) < going_on]
        for position in alive:
            drawn[position] += 1 << len(digits)
    return [drawn[position] - drawn[bins + position] for position in range(bins)]


def randomize(
    plan: Document, items: Sequence[tuple[int, float]], seed: int, words: Iterator[int]
) -> list[int]:
    """Return the fields of one report of (id, value) pairs, by signed binning."""
    given = plan["parameters"]
    held = sorted((item, value) for item, value in items if value != 0)
    steps = rounded([value for _, value in held], given["steps"], words)
    raw = [0] * given["bins"]
    for (item, _), count in zip(held, steps, strict=True):
        where, sign = place(plan, seed, item)
        raw[where] += sign * count
    if given["clip"] is not None:
        raw = [max(-given["clip"], min(given["clip"], value)) for value in raw]
    added = noise(given["noise"], given["bins"], words)
    reach = given["range"]
    return [
        max(-reach, min(reach, value + extra)) + reach
        for value, extra in zip(raw, added, strict=True)
    ]


def field_bits(plan: Document) -> int:
    """Return the width of one field."""
    return int((2 * plan["parameters"]["range"]).bit_length())


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report."""
    seed_bytes, width = SEED_BYTES[plan["hashing"]["family"]], field_bits(plan)
    payload = sum(field << width * position for position, field in enumerate(fields))
    size = (width * len(fields) + 7) // 8
    return seed.to_bytes(seed_bytes, "little") + payload.to_bytes(size, "little")


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return the integer behind the estimate of an id, over (seed, fields) pairs."""
    given, answer = plan["parameters"], 0
    for seed, fields in reports:
        where, sign = place(plan, seed, item)
        answer += sign * (fields[where] - given["range"])
    return answer * (given["bins"] if plan["hashing"]["family"] == "linear" else 1)
