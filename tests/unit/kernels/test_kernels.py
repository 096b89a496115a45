"""Reference and compiled kernels: the same integers, and the same refusals."""

import numpy as np
import pytest

from faintly.kernels import compiled, reference
from faintly.primitives.entropy import seeded
from faintly.testing import plain

COMPILED = pytest.param(
    compiled, id="c", marks=pytest.mark.skipif(not compiled.available(), reason="not compiled")
)
BOTH = pytest.mark.parametrize("kernels", [COMPILED, pytest.param(reference, id="numpy")])


def words(label, *shape):
    return seeded(1, label).words(int(np.prod(shape))).reshape(shape)


def wide(label, *shape):
    return words(label, *shape, 2).view(np.uint64).reshape(shape)


def signed(label, *shape):
    return words(label, *shape).astype(np.int64) - 2**31


@BOTH
@pytest.mark.parametrize("count", [0, 1, 2, 7, 1001])
@pytest.mark.parametrize("shape", [(1, 2), (3, 8), (1, 1)])
def test_scatter_add(kernels, count, shape):
    table = words("table", count).astype(np.int64) % shape[0]
    index = words("index", count).astype(np.int64) % shape[1]
    weight = signed("weight", count)
    tables = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    wanted = tables.copy()
    for j, cell, add in zip(table.tolist(), index.tolist(), weight.tolist(), strict=True):
        wanted[j, cell] += add
    assert kernels.scatter_add(tables, table, index, weight) is None
    np.testing.assert_array_equal(tables, wanted)


@BOTH
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("bits", [0, 1, 2, 3, 6, 9])
def test_walsh_hadamard(kernels, count, bits):
    rows = signed("rows", count, 2**bits)
    index = np.arange(2**bits)
    matrix = 1 - 2 * (np.bitwise_count(index[:, None] & index[None, :]) & 1).astype(np.int64)
    wanted = rows @ matrix
    kernels.walsh_hadamard(rows)
    np.testing.assert_array_equal(rows, wanted)
    again = rows.copy()
    kernels.walsh_hadamard(again)
    kernels.walsh_hadamard(again)
    np.testing.assert_array_equal(again, rows * 2**bits)


def plain_linear(row, matrix, values, codes):
    totals = []
    for code in codes.tolist():
        total = 0
        for r, lines, bins in zip(row.tolist(), matrix.tolist(), values.tolist(), strict=True):
            where = sum(plain.parity(line & code) << bit for bit, line in enumerate(lines))
            total += (1 - 2 * plain.parity(r & code)) * bins[where]
        totals.append(total)
    return totals


@BOTH
@pytest.mark.parametrize("reports", [0, 1, 5, 33])
@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("keys", [0, 1, 9])
def test_read_linear(kernels, reports, width, keys):
    case = (
        words("row", reports),
        words("matrix", reports, width),
        signed("values", reports, 2**width),
        words("codes", keys),
    )
    found = kernels.read_linear(*case)
    assert found.dtype == np.int64
    assert found.tolist() == plain_linear(*case)


@BOTH
@pytest.mark.parametrize("family", ["prf", "blake2s"])
@pytest.mark.parametrize("reports", [0, 1, 17])
@pytest.mark.parametrize("bins", [1, 2, 3, 7])
@pytest.mark.parametrize("keys", [0, 1, 5])
def test_read_hashed(kernels, family, reports, bins, keys):
    seeds, values, ids = wide("seeds", reports), signed("v", reports, bins), wide("ids", keys)
    plan = {"parameters": {"bins": bins}, "hashing": {"family": family}}
    wanted = [0] * keys
    for position, item in enumerate(ids.tolist()):
        for seed, row in zip(seeds.tolist(), values.tolist(), strict=True):
            where, sign = plain.place(plan, seed, item)
            wanted[position] += sign * row[where]
    found = getattr(kernels, f"read_{family}")(seeds, values, ids)
    assert found.dtype == np.int64
    assert found.tolist() == wanted


@BOTH
@pytest.mark.parametrize(
    ("table", "index"), [([0, 2], [0, 0]), ([-1, 0], [0, 0]), ([0, 0], [0, 4]), ([0, 0], [0, -1])]
)
def test_a_cell_outside_is_refused_before_anything_is_added(kernels, table, index):
    tables = np.zeros((2, 4), dtype=np.int64)
    with pytest.raises(IndexError, match="outside its table"):
        kernels.scatter_add(tables, np.array(table), np.array(index), np.array([1, 1]))
    assert not tables.any()


@BOTH
@pytest.mark.parametrize("which", ["table", "index", "weight"])
@pytest.mark.parametrize("bad", [np.array([0.5]), np.array([0, 0])], ids=["float", "length"])
def test_columns_that_do_not_fit_are_refused(kernels, which, bad):
    tables = np.zeros((1, 4), dtype=np.int64)
    columns = {name: np.zeros(1, dtype=np.int64) for name in ("table", "index", "weight")}
    columns[which] = bad
    with pytest.raises((TypeError, ValueError, IndexError)):
        kernels.scatter_add(tables, **columns)
    assert not tables.any()


@BOTH
def test_tables_that_cannot_be_written_are_refused(kernels):
    tables = np.zeros((1, 4), dtype=np.int64)
    tables.flags.writeable = False
    with pytest.raises((TypeError, ValueError)):
        kernels.scatter_add(tables, np.array([0]), np.array([1]), np.array([1]))
    with pytest.raises((TypeError, ValueError)):
        kernels.walsh_hadamard(tables)
    assert not tables.any()


@pytest.mark.parametrize("kernels", [COMPILED])
@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((2, 8), dtype=np.int32),
        np.zeros((2, 8), dtype=np.float64),
        np.zeros((2, 8), dtype=">i8"),
        np.zeros(8, dtype=np.int64),
        np.zeros((2, 16), dtype=np.int64)[:, ::2],
        np.asfortranarray(np.zeros((2, 8), dtype=np.int64)),
    ],
    ids=["int32", "float", "big-endian", "one-dimension", "strided", "fortran"],
)
def test_memory_that_is_not_as_expected_is_refused(kernels, rows):
    with pytest.raises(TypeError, match="C-contiguous int64"):
        kernels.walsh_hadamard(rows)
    with pytest.raises(TypeError, match="C-contiguous int64"):
        kernels.scatter_add(rows, np.array([0]), np.array([0]), np.array([1]))


@BOTH
@pytest.mark.parametrize("size", [0, 3, 6, 12])
def test_a_transform_needs_a_power_of_two(kernels, size):
    rows = np.arange(size, dtype=np.int64).reshape(1, size)
    with pytest.raises((TypeError, ValueError)):
        kernels.walsh_hadamard(rows)
    assert rows.tolist() == [list(range(size))]


@pytest.mark.parametrize("kernels", [COMPILED])
def test_reports_that_do_not_fit_are_refused(kernels):
    row, matrix = np.zeros(2, np.uint32), np.zeros((2, 1), np.uint32)
    values, codes = np.zeros((2, 2), np.int64), np.zeros(1, np.uint32)
    assert kernels.read_linear(row, matrix, values, codes).tolist() == [0]
    for bad in (
        (row[:1], matrix, values, codes),
        (row, matrix[:1], values, codes),
        (row, matrix, values[:1], codes),
        (row, matrix, np.zeros((2, 4), np.int64), codes),
        (row, matrix, np.zeros((2, 1), np.int64), codes),
        (row, matrix[:, 0], values, codes),
        (row, matrix, values, codes[None, :]),
    ):
        with pytest.raises(TypeError):
            kernels.read_linear(*bad)
    seeds, ids = np.zeros(2, np.uint64), np.zeros(1, np.uint64)
    for reader in (kernels.read_prf, kernels.read_blake2s):
        for bad in (
            (seeds[:1], values, ids),
            (seeds, values[:, :0], ids),
            (seeds, values[0], ids),
            (seeds, values, ids[None, :]),
        ):
            with pytest.raises(TypeError):
                reader(*bad)


@BOTH
def test_other_memory_orders_of_inputs_give_the_same_integers(kernels):
    seeds, ids = wide("seeds", 20), wide("ids", 6)
    values = signed("values", 20, 4)
    wanted = kernels.read_prf(seeds[::2].copy(), values[::2].copy(), ids)
    np.testing.assert_array_equal(kernels.read_prf(seeds[::2], values[::2], ids), wanted)
    fortran = np.asfortranarray(values[::2])
    np.testing.assert_array_equal(kernels.read_prf(seeds[::2], fortran, ids), wanted)
