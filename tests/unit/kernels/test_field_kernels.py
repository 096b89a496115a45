"""Kernels over GF(2^w): compiled equals reference, solutions solve, bad arguments are refused."""

import numpy as np
import pytest

from faintly.kernels import compiled, reference
from faintly.primitives import galois

needs_c = pytest.mark.skipif(not compiled.available(), reason="the C kernels are not built")


def case(bits, size=5, clients=30):
    generator = np.random.default_rng(bits)
    offsets = np.concatenate([[0], np.cumsum(generator.integers(0, size + 4, clients))])
    rows = generator.integers(0, 2**bits, (offsets[-1], size)).astype(np.uint32)
    rows[::4] = rows[1]  # repeated rows, which are dropped
    rows[3::7] = 0
    answers = generator.integers(0, 2**bits, offsets[-1]).astype(np.uint32)
    free = generator.integers(0, 2**bits, (clients, size)).astype(np.uint32)
    return offsets, rows, answers, free, bits


def reports(bits, size=5, clients=30):
    generator = np.random.default_rng(bits + 100)
    seeds = generator.integers(0, 2**63, clients).astype(np.uint64)
    fields = generator.integers(0, 2**bits, (clients, size)).astype(np.uint32)
    return seeds, fields, generator.integers(-9, 10, 2**bits)


@needs_c
@pytest.mark.parametrize("bits", range(1, 17))
def test_compiled_equals_reference(bits):
    assert np.array_equal(compiled.solve_field(*case(bits)), reference.solve_field(*case(bits)))
    seeds, fields, readings = reports(bits)
    wide = np.random.default_rng(1).integers(0, 2**63, 150).astype(np.uint64)
    for ids in (wide, wide[:3]):  # above and below the number of symbols, and across a block
        for family in ("prf", "blake2s"):
            options = {"bits": bits, "family": family}
            left = compiled.read_span(seeds, fields, ids, readings, **options)
            assert np.array_equal(
                left, reference.read_span(seeds, fields, ids, readings, **options)
            )
        options = {"bits": bits, "hashed": True}
        left = compiled.read_polynomial(seeds, fields, ids, readings, **options)
        right = reference.read_polynomial(seeds, fields, ids, readings, **options)
        assert np.array_equal(left, right)
    own = np.arange(min(2**bits, 200), dtype=np.uint64)
    options = {"bits": bits, "hashed": False}
    left = compiled.read_polynomial(seeds, fields, own, readings, **options)
    assert np.array_equal(left, reference.read_polynomial(seeds, fields, own, readings, **options))


@pytest.mark.parametrize("bits", [1, 2, 4, 9])
def test_solutions_answer_the_greedy_basis_and_keep_free_symbols(bits):
    offsets, rows, answers, free, _ = case(bits)
    solved = reference.solve_field(offsets, rows, answers, free, bits)
    for client in range(len(free)):
        own = slice(offsets[client], offsets[client + 1])
        basis = galois.greedy_basis(rows[own], bits)
        products = galois.multiply(rows[own][basis], solved[client], bits)
        assert np.array_equal(np.bitwise_xor.reduce(products, axis=1), answers[own][basis])
        assert (solved[client] != free[client]).sum() <= len(basis)


@needs_c
def test_bad_arguments_are_refused_before_memory_is_touched():
    offsets, rows, answers, free, bits = case(2)
    with pytest.raises(IndexError, match="outside the field"):
        compiled.solve_field(offsets, rows + np.uint32(4), answers, free, bits)
    with pytest.raises(TypeError, match="ascend"):
        compiled.solve_field(offsets[::-1].copy(), rows, answers, free, bits)
    with pytest.raises(TypeError, match="same items"):
        compiled.solve_field(offsets, rows[:, 1:], answers, free, bits)
    seeds, fields, readings = reports(2)
    ids = np.arange(4, dtype=np.uint64)
    with pytest.raises(IndexError, match="outside the field"):
        compiled.read_span(seeds, fields + np.uint32(4), ids, readings, bits=2, family="prf")
    with pytest.raises(TypeError, match="every symbol"):
        compiled.read_span(seeds, fields, ids, readings[:3], bits=2, family="prf")
    with pytest.raises(TypeError, match="prf or blake2s"):
        compiled.read_span(seeds, fields, ids, readings, bits=2, family="linear")
    with pytest.raises(IndexError, match="not a point"):
        compiled.read_polynomial(seeds, fields, ids + np.uint64(1), readings, bits=2, hashed=False)
