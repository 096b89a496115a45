"""Loops over plain arrays: one obvious implementation, one compiled, the same integers.

`active` says which one serves. Set FAINTLY_KERNEL=numpy to use the reference on purpose, or
FAINTLY_KERNEL=c to insist on the other. Where it cannot be followed, no kernel serves.
"""

import os
from collections.abc import Callable
from types import ModuleType

from faintly.errors import InvalidInput
from faintly.kernels import (
    compiled,
    compiled_clients,
    compiled_fields,
    reference,
    reference_clients,
    reference_fields,
)

CHOICE = os.environ.get("FAINTLY_KERNEL", "")


def trouble() -> str:
    """Return why FAINTLY_KERNEL cannot be followed, or nothing."""
    if CHOICE not in ("", "c", "numpy"):
        return f"FAINTLY_KERNEL must be c or numpy, got {CHOICE!r}; unset it to use what is there"
    if CHOICE == "c" and not compiled.available():
        return "FAINTLY_KERNEL=c asks for kernels that were not built; unset it"
    return ""


class _Refused(ModuleType):
    """Kernels that say what is wrong when they are called; at import nobody could catch it."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def kernel(*_arguments: object) -> None:
            raise InvalidInput(trouble())

        return kernel


active = "none" if trouble() else "c" if compiled.available() else "numpy"
_none = _Refused("refused")
_chosen: ModuleType = {"c": compiled, "numpy": reference, "none": _none}[active]
_fields: ModuleType = {"c": compiled_fields, "numpy": reference_fields, "none": _none}[active]
_clients: ModuleType = {"c": compiled_clients, "numpy": reference_clients, "none": _none}[active]


def instructions() -> str:
    """Return which code runs: "avx512", "avx2", "baseline", "neon", "numpy" or "none"."""
    return compiled.instructions() if active == "c" else active


scatter_add = _chosen.scatter_add
total_mass = _chosen.total_mass
walsh_hadamard = _chosen.walsh_hadamard
gather = _chosen.gather
map_codes = _chosen.map_codes
hash_ids = _chosen.hash_ids
read_cells = _chosen.read_cells
read_prf = _chosen.read_prf
read_blake2s = _chosen.read_blake2s
hash_each = _chosen.hash_each
hash_words = _chosen.hash_words
hash_wide = _chosen.hash_wide
solve_gf2 = _chosen.solve_gf2
read_parity = _chosen.read_parity
read_slots = _chosen.read_slots
project_prf = _chosen.project_prf
project_linear = _chosen.project_linear
shuffle_rows = _chosen.shuffle_rows
solve_field = _fields.solve_field
solve_words = _fields.solve_words
add_points = _fields.add_points
read_inner = _fields.read_inner
read_polynomial = _fields.read_polynomial
round_values = _clients.round_values
bin_hashed = _clients.bin_hashed
bin_linear = _clients.bin_linear
code_items = _clients.code_items
pick_maps = _clients.pick_maps
linear_cells = _clients.linear_cells
sum_squares = _clients.sum_squares
hash_words_blake2s = _clients.hash_words_blake2s
hash_keys = _clients.hash_keys
pack_records = _clients.pack_records
unpack_records = _clients.unpack_records

__all__ = [
    "active",
    "add_points",
    "bin_hashed",
    "bin_linear",
    "code_items",
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
    "trouble",
    "unpack_records",
    "walsh_hadamard",
]
