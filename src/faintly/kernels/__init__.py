"""Loops over plain arrays: one obvious implementation, one compiled, the same integers.

`active` says which one serves. Set FAINTLY_KERNEL=numpy to use the reference on purpose.
"""

import os
from types import ModuleType

from faintly.kernels import compiled, reference

CHOICE = os.environ.get("FAINTLY_KERNEL", "")
active = "c" if compiled.available() and CHOICE != "numpy" else "numpy"
_chosen: ModuleType = compiled if active == "c" else reference

scatter_add = _chosen.scatter_add
walsh_hadamard = _chosen.walsh_hadamard
read_linear = _chosen.read_linear
read_prf = _chosen.read_prf
read_blake2s = _chosen.read_blake2s

__all__ = [
    "active",
    "read_blake2s",
    "read_linear",
    "read_prf",
    "scatter_add",
    "walsh_hadamard",
]
