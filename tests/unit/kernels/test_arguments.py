"""Arguments of other types, shapes and sizes: both kernels refuse them, or give the same."""

import numpy as np
import pytest

from faintly import kernels as chosen
from faintly.kernels import compiled, native, reference
from tests.every import every
from tests.unit.kernels.helpers import BOTH, maps_of, needs_c, signed, wide


def test_the_instructions_in_use_have_a_name():
    names = {"c": {"avx512", "avx2", "baseline", "neon"}, "numpy": {"numpy"}}
    assert chosen.instructions() in names[chosen.active]


BYTES, OFFSETS = np.zeros(2, np.uint8), np.array([0, 1, 2])
U32, U64, I32 = np.zeros(2, np.uint32), np.zeros(2, np.uint64), np.zeros(2, np.int32)
VALUES, MATRIX = np.zeros((2, 2), np.int64), np.zeros((2, 1), np.uint32)
SLOTS = np.zeros((4, 2), np.uint32)
GOOD = {
    "scatter_add": (np.zeros((1, 4), np.int32), U32, I32, 0),
    "gather": (np.zeros((1, 8), np.int32), U64, maps_of(1, 3, 8), 1),
    "map_codes": (U64, U32, U32, 8),
    "hash_ids": (7, U64, 9),
    "read_cells": (U32, I32, U32),
    "read_hashed": (U64, VALUES, U64),
    "read_parity": (U64, MATRIX, U64),
    "read_slots": (U64, SLOTS, U64, 2),
    "hash_each": (U64, U64, 9),
    "hash_words": (U64, U64, 9, 2),
    "hash_wide": (U64, U64, 2),
    "solve_gf2": (OFFSETS, U32, MATRIX, BYTES, MATRIX),
    "project_prf": (U64, OFFSETS, U64, BYTES, 4),
    "shuffle_rows": (np.zeros((2, 3), np.uint8), U32),
}


@BOTH
@every("name", GOOD)
def test_arrays_of_other_types_and_shapes_are_refused(kernels, name):
    kernel, good = getattr(kernels, name), GOOD[name]
    kernel(*good)
    for place, value in enumerate(good):
        if isinstance(value, np.ndarray):
            for bad in (value.astype(np.float64), value[None]):
                with pytest.raises(TypeError):
                    kernel(*good[:place], bad, *good[place + 1 :])


@needs_c
@pytest.mark.parametrize("name", GOOD)
def test_a_language_runs_its_own_kernels_and_no_others(monkeypatch, name):
    """Else comparing the two would compare one with itself."""
    monkeypatch.setattr(native.library, "signatures", {})  # every call of C now fails
    getattr(reference, name)(*GOOD[name])
    with pytest.raises(KeyError):
        getattr(compiled, name)(*GOOD[name])
    with pytest.raises(AttributeError, match="there is no kernel"):
        getattr(reference, "no_such_kernel")  # noqa: B009


BAD = [
    ("scatter_add", 1, U32[:1]),
    ("map_codes", 1, U32[:1]),
    ("map_codes", 3, 0),
    ("map_codes", 3, 33),
    ("hash_ids", 0, -1),
    ("hash_ids", 0, 2**64),
    ("hash_ids", 2, 256),
    ("hash_ids", 2, -1),
    ("gather", 0, np.zeros((2, 8), np.int32)),
    ("gather", 0, np.zeros((1, 6), np.int32)),
    ("gather", 0, np.zeros((1, 0), np.int32)),
    ("gather", 3, 0),
    ("read_cells", 0, U32[:1]),
    ("read_hashed", 0, U64[:1]),
    ("read_hashed", 1, VALUES[:, :0]),
    ("read_parity", 0, U64[:1]),
    ("read_parity", 1, MATRIX[:, :0]),
    ("read_parity", 1, np.zeros((2, 257), np.uint32)),
    ("read_slots", 0, U64[:1]),
    ("read_slots", 1, SLOTS[:3]),
    ("read_slots", 1, SLOTS + np.array([[256], [0], [0], [0]], np.uint32)),
    ("read_slots", 1, SLOTS + np.array([[0], [0], [0], [2]], np.uint32)),
    ("read_slots", 3, 0),
    ("read_slots", 3, 2**32),
    ("hash_each", 0, U64[:1]),
    ("hash_each", 2, 256),
    ("hash_words", 0, U64[:1]),
    ("hash_words", 2, 256),
    ("hash_words", 3, 257),
    ("hash_wide", 2, 2049),
    ("solve_gf2", 0, np.array([0, 1, 3])),
    ("solve_gf2", 0, np.array([0, 3, 2])),
    ("solve_gf2", 0, OFFSETS[:-1]),
    ("solve_gf2", 0, OFFSETS + 1),
    ("solve_gf2", 1, U32[:1]),
    ("solve_gf2", 2, MATRIX[:, :0]),
    ("solve_gf2", 3, BYTES + np.uint8(2)),
    ("solve_gf2", 4, MATRIX[:1]),
    ("project_prf", 1, np.array([0, 2, 1])),
    ("project_prf", 3, BYTES + np.uint8(2)),
    ("project_prf", 4, 0),
    ("project_prf", 4, 8193),
    ("shuffle_rows", 0, np.zeros((3, 3), np.uint8)),
    ("shuffle_rows", 1, U32[:1]),
]


@BOTH
@every(("name", "place", "bad"), BAD)
def test_sizes_and_numbers_that_do_not_fit_are_refused(kernels, name, place, bad):
    good = GOOD[name]
    with pytest.raises(TypeError):
        getattr(kernels, name)(*good[:place], bad, *good[place + 1 :])


@BOTH
def test_other_memory_orders_of_inputs_give_the_same_integers(kernels):
    seeds, ids = wide("seeds", 20), wide("ids", 6)
    values = signed("values", 20, 4)
    wanted = kernels.read_hashed(seeds[::2].copy(), values[::2].copy(), ids)
    np.testing.assert_array_equal(kernels.read_hashed(seeds[::2], values[::2], ids), wanted)
    fortran = np.asfortranarray(values[::2])
    np.testing.assert_array_equal(kernels.read_hashed(seeds[::2], fortran, ids), wanted)
    unaligned = np.frombuffer(b"." + ids.tobytes(), dtype=np.uint64, offset=1)
    np.testing.assert_array_equal(kernels.read_hashed(seeds[::2], fortran, unaligned), wanted)


@BOTH
def test_offsets_whose_differences_wrap_are_refused(kernels):
    offsets = np.array([0, 2**62, -(2**63) + 2**61, 3], dtype=np.int64)
    assert (np.diff(offsets) > 0).all()
    seeds, ids, odd = np.zeros(3, np.uint64), np.zeros(3, np.uint64), np.zeros(3, np.uint8)
    with pytest.raises(TypeError, match="ascend"):
        kernels.project_prf(seeds, offsets, ids, odd, 1)
    words, rows = np.zeros(3, np.uint32), np.zeros((3, 1), np.uint32)
    with pytest.raises(TypeError, match="ascend"):
        kernels.solve_gf2(offsets, words, rows, odd, rows)
