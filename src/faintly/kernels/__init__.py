"""Loops over plain arrays; each kernel is one function that runs in C or in numpy.

A kernel checks its arguments, then gives the same integers in either language. `active` names the
one in use; see language.py. `compiled` has all kernels in C, `reference` all in numpy.
"""

from faintly.kernels import native
from faintly.kernels.binning import (
    bin_items,
    linear_cells,
    read_hashed,
    round_values,
    sum_squares,
)
from faintly.kernels.bins import pick_slots, place_codes, rank_slots, spread_bins
from faintly.kernels.fields import add_points, read_inner, read_parity, read_polynomial
from faintly.kernels.hashing import (
    code_items,
    hash_each,
    hash_ids,
    hash_keys,
    hash_wide,
    hash_words,
    map_codes,
    pick_maps,
)
from faintly.kernels.language import Language, active, configuration_error
from faintly.kernels.linear_systems import solve_field, solve_gf2, solve_words
from faintly.kernels.orthogonal import fold_characters, read_hits
from faintly.kernels.projection import project_linear, project_prf, read_slots
from faintly.kernels.records import pack_records, shuffle_rows, unpack_records
from faintly.kernels.tables import gather, read_cells, scatter_add, total_mass, walsh_hadamard

__all__ = [
    "add_points",
    "bin_items",
    "code_items",
    "fold_characters",
    "gather",
    "hash_each",
    "hash_ids",
    "hash_keys",
    "hash_wide",
    "hash_words",
    "linear_cells",
    "map_codes",
    "pack_records",
    "pick_maps",
    "pick_slots",
    "place_codes",
    "project_linear",
    "project_prf",
    "rank_slots",
    "read_cells",
    "read_hashed",
    "read_hits",
    "read_inner",
    "read_parity",
    "read_polynomial",
    "read_slots",
    "round_values",
    "scatter_add",
    "shuffle_rows",
    "solve_field",
    "solve_gf2",
    "solve_words",
    "spread_bins",
    "sum_squares",
    "total_mass",
    "unpack_records",
    "walsh_hadamard",
]
_by_name = {name: globals()[name] for name in __all__}
compiled, reference = Language("c", _by_name), Language("numpy", _by_name)
__all__ += ["active", "compiled", "configuration_error", "instructions", "reference"]


def instructions() -> str:
    """Return which code runs: "avx512", "avx2", "baseline", "neon", "numpy" or "none"."""
    return native.instructions() if active == "c" else active
