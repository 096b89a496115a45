"""The client of spec/ once more, in plain integers: no numpy, nothing from the library.

It is written from the specification alone and follows its order of sections, so that the
library, the test vectors and the text can be compared. It is slow, and meant to be obvious.
Plans are the JSON objects that plan files hold. This module dispatches on the mechanism;
`hashing` and one module for each mechanism hold the work.
"""

from collections.abc import Iterator, Sequence
from types import ModuleType

from spec.independent import binning, gf, orthogonal, projection, retrieval
from spec.independent.binning import place, rounded, row_and_matrix
from spec.independent.hashing import (
    Document,
    below,
    code,
    half_sip,
    hash_word,
    key_id,
    map_of,
    mask,
    mix,
    mix_blake2s,
    parity,
    seed_from,
    wide_words,
)

__all__ = [
    "MECHANISMS",
    "below",
    "code",
    "half_sip",
    "hash_word",
    "key_id",
    "map_of",
    "mask",
    "mix",
    "mix_blake2s",
    "parity",
    "place",
    "randomize",
    "record",
    "rounded",
    "row_and_matrix",
    "seed_from",
    "total",
    "wide_words",
]
MECHANISMS: dict[str, ModuleType] = {
    "signed-binning": binning,
    "retrieval": retrieval,
    "projection-choice": projection,
    "retrieval-gf": gf,
    "orthogonal": orthogonal,
}


def randomize(
    plan: Document, items: Sequence[tuple[int, float]], seed: int, words: Iterator[int]
) -> list[int]:
    """Return the fields of one report of (id, value) pairs."""
    fields: list[int] = MECHANISMS[plan["mechanism"]].randomize(plan, items, seed, words)
    return fields


def record(plan: Document, seed: int, fields: Sequence[int]) -> bytes:
    """Return the bytes of one report."""
    data: bytes = MECHANISMS[plan["mechanism"]].record(plan, seed, fields)
    return data


def total(plan: Document, reports: Sequence[tuple[int, Sequence[int]]], item: int) -> int:
    """Return the integer behind the estimate of an id, over (seed, fields) pairs."""
    integer: int = MECHANISMS[plan["mechanism"]].total(plan, reports, item)
    return integer
