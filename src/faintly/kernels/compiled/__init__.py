"""The kernels from C, all subjects together, where they were compiled at install.

Arguments are checked before any memory is touched; the C code trusts them. Large inputs are
cut into slices for several threads, in a way that no integer depends on.
"""

from faintly.kernels._native import available
from faintly.kernels.compiled.binning import (
    bin_hashed,
    bin_linear,
    linear_cells,
    read_blake2s,
    read_prf,
    round_values,
    sum_squares,
)
from faintly.kernels.compiled.fields import add_points, read_inner, read_parity, read_polynomial
from faintly.kernels.compiled.hashing import (
    code_items,
    hash_each,
    hash_ids,
    hash_keys,
    hash_wide,
    hash_words,
    hash_words_blake2s,
    map_codes,
    pick_maps,
)
from faintly.kernels.compiled.linear_systems import solve_field, solve_gf2, solve_words
from faintly.kernels.compiled.projection import project_linear, project_prf, read_slots
from faintly.kernels.compiled.records import pack_records, shuffle_rows, unpack_records
from faintly.kernels.compiled.tables import (
    gather,
    read_cells,
    scatter_add,
    total_mass,
    walsh_hadamard,
)
