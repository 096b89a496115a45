"""Tables: both kernels give the integers of a plain definition, and refuse alike."""

from functools import cache

import numpy as np
import pytest

from faintly.kernels import reference, threads
from faintly.kernels.tables import MASS_BLOCK
from faintly.primitives import hashing
from spec import independent
from tests.every import every
from tests.unit.kernels.helpers import BOTH, maps_of, signed, wide, words

WIDTHS = pytest.mark.parametrize("dtype", [np.int32, np.int64])


def small(label, *shape):
    """Return weights of a few bits, some of them negative or zero."""
    return (words(label, *shape) % np.uint32(201)).astype(np.int32) - 100


@BOTH
@every("dtype", [np.int32, np.int64])
@every("count", [0, 1, 2, 7, 1001])
@every("shape", [(1, 2), (3, 8), (1, 1), (2, 2**17)])
def test_scatter_add(kernels, dtype, count, shape):
    index = words("index", count) % np.uint32(shape[0] * shape[1])
    weight = small("weight", count)
    tables = np.arange(shape[0] * shape[1], dtype=dtype).reshape(shape)
    wanted = tables.ravel().tolist()
    for cell, add in zip(index.tolist(), weight.tolist(), strict=True):
        wanted[cell] += add
    mass = kernels.scatter_add(tables, index, weight, 5)
    assert mass == 5 + sum(map(abs, weight.tolist()))
    assert tables.ravel().tolist() == wanted


@BOTH
@pytest.mark.parametrize("count", [0, 1, 23, 24, 25, 26, 1001])
@pytest.mark.parametrize(("dtype", "size"), [(np.int32, 2**21), (np.int64, 2**20)])
def test_scatter_add_to_a_table_that_no_cache_holds(kernels, dtype, size, count):
    # Above 4 MiB cells are fetched 24 ahead of their addition, all but the last 24.
    index = words("index", count) % np.uint32(size)
    index[1::5], index[2::5] = size - 1, 0  # the same cell again, at both ends
    weight = small("weight", count) | np.int32(1)
    tables = np.arange(size, dtype=dtype).reshape(1, size)
    wanted = np.arange(size, dtype=np.int64)
    for cell, add in zip(index.tolist(), weight.tolist(), strict=True):
        wanted[cell] += add
    mass = kernels.scatter_add(tables, index, weight, 5)
    assert mass == 5 + sum(map(abs, weight.tolist()))
    np.testing.assert_array_equal(tables[0], wanted)


@cache
def sylvester(bits):
    """Return the matrix of the transform, in doubles: exact here, and quick to multiply."""
    index = np.arange(2**bits)
    return 1 - 2 * (np.bitwise_count(index[:, None] & index[None, :]) & 1).astype(np.float64)


@BOTH
@every("dtype", [np.int32, np.int64])
@every("count", [0, 1, 3, 11])
@every("bits", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11])
def test_walsh_hadamard(kernels, dtype, count, bits):
    rows = (words("rows", count, 2**bits).astype(np.int64) % 4001 - 2000).astype(dtype)
    wanted = rows.astype(np.float64) @ sylvester(bits)
    kernels.walsh_hadamard(rows)
    np.testing.assert_array_equal(rows, wanted)


@BOTH
def test_a_long_transform(kernels, monkeypatch):
    monkeypatch.setattr(threads, "LONG", 2**14)
    monkeypatch.setenv("FAINTLY_THREADS", "3")
    spikes = {5: 3, 2**14 - 1: -7, 12345: 11}
    rows = np.zeros((1, 2**14), dtype=np.int32)
    rows[0, list(spikes)] = list(spikes.values())
    kernels.walsh_hadamard(rows)
    at = np.arange(2**14)
    wanted = sum(
        value * hashing.to_signs(hashing.parity(at & cell)) for cell, value in spikes.items()
    )
    np.testing.assert_array_equal(rows[0], wanted)


@BOTH
@every("dtype", [np.int32, np.int64])
@every("count", [1, 2, 16])
@every("excess", [-1, 0, 1])
def test_blocks_on_either_side_of_light(kernels, dtype, count, excess):
    # A light block is transformed on half the bits: its first entry becomes the whole sum.
    limit = 2 ** (np.dtype(dtype).itemsize * 4 - 1)
    blocks = np.zeros((8, MASS_BLOCK), dtype=dtype)
    blocks[:, ::3] = -1
    blocks[1] = limit // MASS_BLOCK
    blocks[1, -1] += excess
    blocks[3], blocks[4] = -blocks[1], 0
    blocks[4, 77] = limit + excess
    blocks[5], blocks[5, 4095] = 0, -limit - excess
    blocks[6, :2] = limit * 40, limit * -50  # wraps to little in half the bits
    rows = blocks.reshape(count, -1).copy()
    wanted = rows.copy()
    reference.walsh_hadamard(wanted)
    kernels.walsh_hadamard(rows)
    np.testing.assert_array_equal(rows, wanted)


@BOTH
def test_short_heavy_rows_whose_masses_wrap_together(kernels):
    rows = np.zeros((4, 1024), dtype=np.int64)
    rows[:, 0] = 2**62
    kernels.walsh_hadamard(rows)
    np.testing.assert_array_equal(rows, np.full((4, 1024), 2**62))


@BOTH
@WIDTHS
def test_a_transform_may_use_the_whole_range_and_no_more(kernels, dtype):
    largest = np.iinfo(dtype).max
    fits = np.array([[largest - 5, 0, -3, 2], [0, 0, 0, largest]], dtype=dtype)
    wanted = [[sum(s * int(x) for s, x in zip(signs, row, strict=True)) for signs in sylvester(2)]
              for row in fits]  # fmt: skip
    kernels.walsh_hadamard(fits)
    assert fits.tolist() == wanted
    for row in ([largest - 5, 1, -3, 2], [np.iinfo(dtype).min, 0, 0, 0]):
        heavy = np.array([[0, 0, 0, 0], row, [1, 1, 1, 1]], dtype=dtype)
        before = heavy.copy()
        with pytest.raises(OverflowError, match="widen"):
            kernels.walsh_hadamard(heavy)
        np.testing.assert_array_equal(heavy, before)


@BOTH
@every("columns", [0, 1, 17, 5000])
def test_total_mass(kernels, columns):
    for dtype in (np.int32, np.int64):
        tables = signed("tables", 3, columns).astype(dtype)
        tables[:, :2] = np.iinfo(dtype).min
        tables.flags.writeable = False
        assert kernels.total_mass(tables) == sum(map(abs, tables.ravel().tolist()))


@BOTH
@every("dtype", [np.int32, np.int64])
@every("count", [0, 1, 19, 1000])
@every(
    ("maps", "blocks"),
    [(maps_of(1, 5, 32), 1), (maps_of(4, 5, None), 1), (maps_of(2, 6, 64), 3)],
)
def test_gather(kernels, dtype, count, maps, blocks):
    tables = small("tables", maps.maps * blocks, 32).astype(dtype)
    tables.flags.writeable = False  # as a mapped file is
    ids = wide("ids", count) % np.uint64(64)
    found = kernels.gather(tables, ids, maps, blocks)
    wanted = np.empty((maps.maps, count), dtype=np.int64)
    for j in range(maps.maps):
        codes, signs = maps.codes(ids, np.array([j])), maps.masks(ids, np.array([j]))
        for place, (code, sign) in enumerate(zip(codes.tolist(), signs.tolist(), strict=True)):
            row, column = j * blocks + code % blocks, code // blocks % 32
            wanted[j, place] = sign * int(tables[row, column])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [wanted.sum(axis=0), wanted.max(axis=0)])


EXTREMES = np.array([2**31 - 1, -(2**31), 0, 1, -1, 5], dtype=np.int32)


def independent_cells(index, weight, codes):
    cells = list(zip(index.tolist(), weight.tolist(), strict=True))
    return [
        sum(add * (1 - 2 * independent.parity(cell & code)) for cell, add in cells)
        for code in codes.tolist()
    ]


@BOTH
@every("cells", [0, 1, 31, 33, 1024, 1300])
@every("bits", [1, 9, 20, 21, 32])
@every("kind", ["signs", "small", "any", "extremes"])
def test_read_cells(kernels, cells, bits, kind):
    index, codes = words("index", cells) >> np.uint32(32 - bits), words("codes", 7)
    weight = {
        "signs": small("weight", cells) % np.int32(2) * np.int32(2) - np.int32(1),
        "small": small("weight", cells),
        "any": words("weight", cells).view(np.int32),
        "extremes": np.resize(EXTREMES, cells),
    }[kind]
    found = kernels.read_cells(index, weight, codes)
    assert found.dtype == np.int64
    assert found.tolist() == independent_cells(index, weight, codes)


@BOTH
@every("index", [[0, 8], [2**32 - 1, 0]])
def test_a_cell_outside_is_refused_before_anything_is_added(kernels, index):
    tables = np.zeros((2, 4), dtype=np.int32)
    cells = np.array(index, dtype=np.uint32)
    with pytest.raises(IndexError, match="outside its table"):
        kernels.scatter_add(tables, cells, np.ones(2, np.int32), 0)
    assert not tables.any()


@BOTH
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_mass_that_could_overflow_is_refused_before_anything_is_added(kernels, dtype):
    limit = 2 ** (np.dtype(dtype).itemsize * 8 - 1)
    tables, index = np.zeros((1, 2), dtype=dtype), np.zeros(2, dtype=np.uint32)
    weight = np.array([3, -4], dtype=np.int32)
    for mass in (limit - 7, limit, -1):
        with pytest.raises(OverflowError, match="widen"):
            kernels.scatter_add(tables, index, weight, mass)
        assert not tables.any()
    assert kernels.scatter_add(tables, index, weight, limit - 8) == limit - 1
    heaviest = np.array([-(2**31)], dtype=np.int32)
    if dtype is np.int32:
        with pytest.raises(OverflowError):
            kernels.scatter_add(tables, index[:1], heaviest, 0)
    else:
        assert kernels.scatter_add(tables, index[:1], heaviest, 0) == 2**31


BAD_TABLES = {
    "float": np.zeros((2, 8), dtype=np.float64),
    "int16": np.zeros((2, 8), dtype=np.int16),
    "unsigned": np.zeros((2, 8), dtype=np.uint32),
    "big-endian": np.zeros((2, 8), dtype=">i8"),
    "one-dimension": np.zeros(8, dtype=np.int64),
    "strided": np.zeros((2, 16), dtype=np.int64)[:, ::2],
    "fortran": np.asfortranarray(np.zeros((2, 8), dtype=np.int32)),
    "unaligned": np.zeros(2 * 8 * 4 + 1, dtype=np.uint8)[1:].view(np.int32).reshape(2, 8),
}


@BOTH
@every("name", BAD_TABLES)
def test_memory_that_is_not_as_expected_is_refused(kernels, name):
    rows, one = BAD_TABLES[name], np.zeros(1, dtype=np.uint32)
    with pytest.raises(TypeError, match="C-contiguous"):
        kernels.walsh_hadamard(rows)
    with pytest.raises(TypeError, match="C-contiguous"):
        kernels.scatter_add(rows, one, np.ones(1, np.int32), 0)
    with pytest.raises(TypeError, match="C-contiguous"):
        kernels.gather(rows, np.zeros(1, np.uint64), maps_of(1, 3, 8), 1)
    assert not rows.any()


@BOTH
def test_tables_that_cannot_be_written_are_refused(kernels):
    tables = np.zeros((1, 4), dtype=np.int64)
    tables.flags.writeable = False
    with pytest.raises(TypeError, match="writeable"):
        kernels.scatter_add(tables, np.zeros(1, np.uint32), np.ones(1, np.int32), 0)
    with pytest.raises(TypeError, match="writeable"):
        kernels.walsh_hadamard(tables)


@BOTH
@every("size", [0, 3, 6, 12])
def test_a_transform_needs_a_power_of_two(kernels, size):
    rows = np.arange(size, dtype=np.int64).reshape(1, size)
    with pytest.raises(TypeError, match="power of two"):
        kernels.walsh_hadamard(rows)
    assert rows.tolist() == [list(range(size))]


@BOTH
def test_an_index_that_lies_in_the_table_does_not_change_on_the_way(kernels):
    table = np.full((1, 64), 63, dtype=np.int32)
    index, weight = table.reshape(-1).view(np.uint32), np.full(64, 2**20, dtype=np.int32)
    kernels.scatter_add(table, index, weight, 64 * 63)
    assert table[0, 63] == 63 + 64 * 2**20
    assert (table[0, :63] == 63).all()
