"""Loops over plain arrays: one obvious implementation, one compiled, the same integers.

`active` says which one serves. Set FAINTLY_KERNEL=numpy to use the reference on purpose, or
FAINTLY_KERNEL=c to insist on the other. Where it cannot be followed, no kernel serves.
"""

import os
from collections.abc import Callable
from types import ModuleType

from faintly.errors import InvalidInput
from faintly.kernels import _native, compiled, reference

CHOICE = os.environ.get("FAINTLY_KERNEL", "")


def configuration_error() -> str:
    """Return why FAINTLY_KERNEL cannot be followed, or nothing."""
    if CHOICE not in ("", "c", "numpy"):
        return f"FAINTLY_KERNEL must be c or numpy, got {CHOICE!r}; unset it to use what is there"
    if CHOICE == "c" and not _native.available():
        return "FAINTLY_KERNEL=c asks for kernels that were not built; unset it"
    return ""


class _Unavailable(ModuleType):
    """Kernels that say what is wrong when they are called; at import nobody could catch it."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def kernel(*_arguments: object) -> None:
            raise InvalidInput(configuration_error())

        return kernel


active = "none" if configuration_error() else "c" if _native.available() else "numpy"
_chosen: ModuleType = {"c": compiled, "numpy": reference, "none": _Unavailable("unavailable")}[
    active
]


def instructions() -> str:
    """Return which code runs: "avx512", "avx2", "baseline", "neon", "numpy" or "none"."""
    return _native.instructions() if active == "c" else active


bin_hashed = _chosen.bin_hashed
bin_linear = _chosen.bin_linear
linear_cells = _chosen.linear_cells
read_blake2s = _chosen.read_blake2s
read_prf = _chosen.read_prf
round_values = _chosen.round_values
sum_squares = _chosen.sum_squares
add_points = _chosen.add_points
read_inner = _chosen.read_inner
read_parity = _chosen.read_parity
read_polynomial = _chosen.read_polynomial
code_items = _chosen.code_items
hash_each = _chosen.hash_each
hash_ids = _chosen.hash_ids
hash_keys = _chosen.hash_keys
hash_wide = _chosen.hash_wide
hash_words = _chosen.hash_words
hash_words_blake2s = _chosen.hash_words_blake2s
map_codes = _chosen.map_codes
pick_maps = _chosen.pick_maps
solve_field = _chosen.solve_field
solve_gf2 = _chosen.solve_gf2
solve_words = _chosen.solve_words
project_linear = _chosen.project_linear
project_prf = _chosen.project_prf
read_slots = _chosen.read_slots
pack_records = _chosen.pack_records
shuffle_rows = _chosen.shuffle_rows
unpack_records = _chosen.unpack_records
gather = _chosen.gather
read_cells = _chosen.read_cells
scatter_add = _chosen.scatter_add
total_mass = _chosen.total_mass
walsh_hadamard = _chosen.walsh_hadamard

__all__ = [
    "active",
    "add_points",
    "bin_hashed",
    "bin_linear",
    "code_items",
    "configuration_error",
    "gather",
    "hash_each",
    "hash_ids",
    "hash_keys",
    "hash_wide",
    "hash_words",
    "hash_words_blake2s",
    "instructions",
    "linear_cells",
    "map_codes",
    "pack_records",
    "pick_maps",
    "project_linear",
    "project_prf",
    "read_blake2s",
    "read_cells",
    "read_inner",
    "read_parity",
    "read_polynomial",
    "read_prf",
    "read_slots",
    "round_values",
    "scatter_add",
    "shuffle_rows",
    "solve_field",
    "solve_gf2",
    "solve_words",
    "sum_squares",
    "total_mass",
    "unpack_records",
    "walsh_hadamard",
]
