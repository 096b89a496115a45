"""The C library of this folder: loading it, and calling its functions with checked arguments.

SIGNATURES has a line for every function, its arguments in their order in C. A call with an array of
the wrong type, a read-only output or the wrong number of arguments raises before it reaches C.
Kernels check sizes and indices themselves: see arguments.py.
"""

import ctypes
import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from faintly.core.arrays import AnyArray

INSTRUCTIONS = ("baseline", "avx2", "avx512", "neon")  # as tables.c numbers them


class Pointer(NamedTuple):
    """An argument that is an array; C writes only to those marked `written`."""

    dtype: type
    written: bool = False

    def from_param(self, array: AnyArray) -> ctypes.c_void_p:
        """Return the address of an array, or refuse one that C cannot use."""
        flags = array.flags
        fits = array.dtype == self.dtype and flags.c_contiguous and flags.aligned
        if not fits or (self.written and not flags.writeable):
            raise TypeError(f"expected {self}, got an array of {array.dtype} with {flags}")
        return ctypes.c_void_p(array.ctypes.data)


class Number(NamedTuple):
    """An argument that is an integer of 64 bits."""

    signed: bool = True

    def from_param(self, value: int) -> ctypes.c_int64 | ctypes.c_uint64:
        """Return the integer as C takes it, or refuse a fraction."""
        return (ctypes.c_int64 if self.signed else ctypes.c_uint64)(operator.index(value))


INT, KEY = Number(), Number(signed=False)
U8, U32, U64 = Pointer(np.uint8), Pointer(np.uint32), Pointer(np.uint64)
I32, I64, F64 = Pointer(np.int32), Pointer(np.int64), Pointer(np.float64)
OUT_U8, OUT_U16 = Pointer(np.uint8, written=True), Pointer(np.uint16, written=True)
OUT_U32, OUT_U64 = Pointer(np.uint32, written=True), Pointer(np.uint64, written=True)
OUT_I32, OUT_I64 = Pointer(np.int32, written=True), Pointer(np.int64, written=True)
MAPS = (U32, U32, U64, U64, INT, INT, INT)  # as hashing.public_maps gives them
HASHED = (U64, I64, INT, INT, U64, INT, OUT_I64)
CLIENTS = (U64, I64, INT, U64)

Signature = tuple[Pointer | Number, ...]
SIGNATURES: dict[str, Signature] = {
    # tables.c
    "measure_cells": (U32, I32, INT, OUT_I64),
    "scatter_add_32": (OUT_I32, INT, U32, I32, INT),
    "scatter_add_64": (OUT_I64, INT, U32, I32, INT),
    "weigh_32": (I32, INT, INT, OUT_I64),
    "weigh_64": (I64, INT, INT, OUT_I64),
    "walsh_hadamard_32": (OUT_I32, INT, INT, INT, I64),
    "walsh_hadamard_64": (OUT_I64, INT, INT, INT, I64),
    "join_32": (OUT_I32, INT, INT, INT),
    "join_64": (OUT_I64, INT, INT, INT),
    "gather_32": (I32, INT, INT, U64, INT, *MAPS, INT, OUT_I64, OUT_I64),
    "gather_64": (I64, INT, INT, U64, INT, *MAPS, INT, OUT_I64, OUT_I64),
    "read_cells": (U32, I32, INT, U32, INT, OUT_I64),
    # hashing.c
    "hash_ids": (KEY, U64, INT, INT, OUT_U32),
    "hash_each": (U64, U64, INT, INT, OUT_U32),
    "hash_words": (U64, U64, INT, INT, INT, OUT_U32),
    "hash_wide": (U64, U64, INT, INT, OUT_U32),
    "hash_words_blake2s": (U64, U64, INT, INT, INT, OUT_U32),
    "hash_keys": (U8, I64, INT, U8, INT, OUT_U64),
    "map_codes": (U64, INT, U32, U32, INT, INT, OUT_U32),
    "pick_maps": (U64, INT, INT, OUT_I64),
    "code_items": (*CLIENTS, *MAPS, OUT_U32, OUT_U8),
    # linear_systems.c
    "solve_gf2": (
        *(I64, INT, U32, U32, U8, INT),
        *(OUT_U32, OUT_U32, OUT_I64, OUT_U8, OUT_U64),
    ),
    "solve_field": (
        *(I64, INT, OUT_U8, OUT_U8, INT, OUT_U8),
        *(U8, U8, U8, INT, INT, OUT_I64, OUT_I64),
    ),
    "solve_words": (
        *(I64, INT, U32, U32, U8, INT, OUT_U32),
        *(U8, U8, INT, INT, OUT_U32, OUT_I64, OUT_I64, OUT_U64),
    ),
    # fields.c
    "read_parity": (U64, U32, INT, INT, U64, INT, OUT_I64),
    "read_inner": (
        *(U64, U8, INT, INT, U64, INT, I64),
        *(U32, INT, INT, INT, INT, OUT_U32, OUT_I64),
    ),
    "read_points": (U32, INT, INT, U64, INT, I64, INT, U32, U32, OUT_U16, OUT_I64),
    "read_polynomial": (
        *(U64, U32, INT, INT, U64, INT, I64),
        *(INT, INT, U32, U32, OUT_U32, OUT_I64),
    ),
    "add_points": (OUT_U32, INT, INT, I64, U32, U32, INT, U32, U32, OUT_U32, OUT_I64),
    # projection.c
    "read_slots": (U64, U32, U32, U32, U32, INT, INT, U64, INT, OUT_I64, OUT_I64),
    "project_prf": (*CLIENTS, U8, INT, OUT_I64),
    "project_linear": (U64, I64, INT, U32, U8, INT, INT, OUT_I64),
    # bins.c
    "place_codes": (U64, I64, INT, U32, U8, INT, INT, INT, INT, INT, OUT_U32),
    "rank_slots": (U32, INT, INT, INT, INT, INT, OUT_I32, OUT_I64, OUT_I64, OUT_I64, OUT_I64),
    "pick_slots": (U32, INT, INT, INT, INT, I64, I64, I64, OUT_I32, OUT_I64),
    "spread_bins_32": (I32, INT, INT, INT, INT, U32, OUT_I32),
    "spread_bins_64": (I64, INT, INT, INT, INT, U32, OUT_I64),
    # orthogonal.c
    "read_hits": (U32, INT, INT, U32, INT, INT, INT, OUT_U64, OUT_I64, OUT_I64),
    "fold_characters_32": (I32, INT, INT, INT, U32, I64, OUT_I32),
    "fold_characters_64": (I64, INT, INT, INT, U32, I64, OUT_I64),
    # binning.c
    "round_values": (F64, U32, INT, INT, OUT_I32, OUT_I64),
    "bin_prf": (*CLIENTS, I32, INT, OUT_I64),
    "bin_blake2s": (*CLIENTS, I32, INT, OUT_I64),
    "bin_linear": (*CLIENTS, I32, INT, *MAPS, OUT_I64),
    "linear_cells": (U64, U32, INT, INT, INT, INT, INT, OUT_U32, OUT_U32, OUT_I64),
    "sum_squares": (U32, INT, INT, OUT_U64),
    "read_prf": HASHED,
    "read_blake2s": HASHED,
    # records.c
    "pack_records": (U64, U32, INT, INT, U32, INT, INT, OUT_U8, OUT_I64),
    "unpack_records": (U8, INT, INT, INT, U32, U32, INT, OUT_U64, OUT_U32, OUT_I64),
    "shuffle_rows": (U8, INT, U32, INT, INT, OUT_U8, OUT_U64, OUT_U64, OUT_U8),
}


class Library:
    """C functions; a call checks its arguments against their signatures."""

    def __init__(self, path: Path, signatures: Mapping[str, Signature]) -> None:
        self.handle, self.signatures = ctypes.CDLL(str(path)), signatures

    def function(self, name: str) -> Any:
        """Return a function, with its signature set."""
        found = getattr(self.handle, f"faintly_{name}")
        if found.argtypes is None:
            found.argtypes, found.restype = self.signatures[name], None
        return found

    def call(self, name: str, *given: AnyArray | int) -> None:
        """Check arguments against the signature of a function, and call it."""
        expected = len(self.signatures[name])
        if len(given) != expected:  # ctypes would pass on extra arguments
            raise TypeError(f"{name} takes {expected} arguments, got {len(given)}")
        self.function(name)(*given)


def _load() -> Library | None:
    if os.environ.get("FAINTLY_KERNEL") == "numpy":
        return None  # as on a machine without a compiler
    path = Path(__file__).with_name("_kernels.dll" if os.name == "nt" else "_kernels.so")
    try:
        return Library(path, SIGNATURES)
    except OSError:
        return None


library = _load()


def available() -> bool:
    """Return whether the compiled kernels are installed."""
    return library is not None


def instructions() -> str:
    """Return the name of the instruction set that the compiled kernels use on this machine."""
    assert library is not None
    return INSTRUCTIONS[library.handle.faintly_instructions()]


def call(name: str, *given: AnyArray | int) -> None:
    """Call a compiled kernel, having checked its arguments."""
    assert library is not None
    library.call(name, *given)
