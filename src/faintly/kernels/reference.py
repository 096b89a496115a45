"""The definition of correct: each kernel as plainly as numpy can say it, all subjects together."""

from faintly.kernels.binning import (
    bin_hashed,
    bin_linear,
    linear_cells,
    read_blake2s,
    read_prf,
    round_values,
    sum_squares,
)
from faintly.kernels.fields import add_points, read_inner, read_parity, read_polynomial
from faintly.kernels.hashing import (
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
from faintly.kernels.linear_systems import solve_field, solve_gf2, solve_words
from faintly.kernels.projection import project_linear, project_prf, read_slots
from faintly.kernels.records import pack_records, shuffle_rows, unpack_records
from faintly.kernels.tables import gather, read_cells, scatter_add, total_mass, walsh_hadamard
