"""Loops over plain arrays: one obvious implementation, one compiled, the same integers.

`active` says which one serves. Set FAINTLY_KERNEL=numpy to use the reference on purpose.
"""

import os
from types import ModuleType

from faintly.kernels import _symbols_compiled, _symbols_reference, compiled, reference

CHOICE = os.environ.get("FAINTLY_KERNEL", "")
if CHOICE not in ("", "c", "numpy"):
    raise ValueError(f"FAINTLY_KERNEL must be c or numpy, got {CHOICE!r}")
active = "c" if compiled.available() and CHOICE != "numpy" else "numpy"
_chosen: ModuleType = compiled if active == "c" else reference
_symbols: ModuleType = _symbols_compiled if active == "c" else _symbols_reference

scatter_add = _chosen.scatter_add
walsh_hadamard = _chosen.walsh_hadamard
read_linear = _chosen.read_linear
read_prf = _chosen.read_prf
read_blake2s = _chosen.read_blake2s
hash_words = _chosen.hash_words
solve_gf2 = _chosen.solve_gf2
read_parity = _chosen.read_parity
read_slots = _chosen.read_slots
project_prf = _chosen.project_prf
project_linear = _chosen.project_linear
read_polynomial = _chosen.read_polynomial
read_span = _chosen.read_span
solve_field = _chosen.solve_field
hash_wide = _symbols.hash_wide
read_symbols = _symbols.read_symbols
solve_symbols = _symbols.solve_symbols

__all__ = [
    "active",
    "hash_wide",
    "hash_words",
    "project_linear",
    "project_prf",
    "read_blake2s",
    "read_linear",
    "read_parity",
    "read_polynomial",
    "read_prf",
    "read_slots",
    "read_span",
    "read_symbols",
    "scatter_add",
    "solve_field",
    "solve_gf2",
    "solve_symbols",
    "walsh_hadamard",
]
