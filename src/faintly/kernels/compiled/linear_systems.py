"""The kernels of linear_systems.py from linear_systems.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, IntArray, WordArray
from faintly.kernels._native import call
from faintly.kernels.linear_systems import (
    checked_equations,
    checked_field_equations,
    checked_packed_equations,
)
from faintly.primitives.fields import Field

ROW_BLOCK, MULTIPLES = 16, 32  # of solve_words; linear_systems.c has the same numbers


def solve_gf2(
    offsets: IntArray, order: WordArray, rows: WordArray, answers: IntArray, free: WordArray
) -> WordArray:
    """Return for each segment a vector over GF(2) that answers its equations."""
    offsets, order, rows, answers, free = checked_equations(offsets, order, rows, answers, free)
    solutions = free.copy()
    words = rows.shape[1]
    longest = int(np.diff(offsets).max(initial=0))
    most = max(1, min(32 * words, longest))  # rows that can be independent
    basis = np.empty((most, max(1, words)), dtype=np.uint32)
    pivots, keys = np.empty(most, np.int64), np.empty(max(1, longest), np.uint64)
    sides = np.empty(most, dtype=np.uint8)
    call(
        "solve_gf2",
        *(offsets, len(solutions), order, rows, answers, words, solutions),
        *(basis, pivots, sides, keys),
    )
    return solutions


def solve_field(
    offsets: IntArray, rows: AnyArray, answers: AnyArray, free: AnyArray, field: Field
) -> AnyArray:
    """Return for each segment a vector over the field that answers its equations."""
    offsets, *columns = checked_field_equations(offsets, rows, answers, free, field)
    own, said, solutions = (column.copy() for column in columns)  # worked on in place
    size = solutions.shape[1]
    kept, pivots = np.empty(max(1, size), np.int64), np.empty(max(1, size), np.int64)
    call(
        "solve_field",
        *(offsets, len(solutions), own, said, size, solutions),
        *(field.products, field.differences, field.inverses, field.order, field.prime),
        *(kept, pivots),
    )
    return solutions


def solve_words(
    offsets: IntArray,
    order: WordArray,
    rows: WordArray,
    answers: AnyArray,
    free: WordArray,
    *,
    field: Field,
    size: int,
) -> WordArray:
    """Return what `solve_field` does over GF(2^bits), of symbols in words."""
    offsets, order, rows, answers, free = checked_packed_equations(
        offsets, order, rows, answers, free, field=field, size=size
    )
    solutions, words, bits = free.copy(), rows.shape[1], field.order.bit_length() - 1
    longest = int(np.diff(offsets).max(initial=0))
    stride = -(-(words + 1) // ROW_BLOCK) * ROW_BLOCK  # words, with the answer
    scratch = np.empty((MULTIPLES + longest) * stride + ROW_BLOCK, dtype=np.uint32)
    kept, pivots = np.empty(size, np.int64), np.empty(size, np.int64)
    call(
        "solve_words",
        *(offsets, len(solutions), order, rows, answers, size, solutions),
        *(field.products, field.inverses, bits, stride, scratch, kept, pivots),
        np.empty(max(1, longest), dtype=np.uint64),
    )
    return solutions
