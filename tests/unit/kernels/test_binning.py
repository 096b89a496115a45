"""Signed bins: both kernels agree, and refuse what does not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faintly.kernels import compiled, reference
from faintly.primitives import hashing
from spec import independent
from tests.every import every
from tests.unit.kernels.helpers import (
    BOTH,
    MAPS,
    SIZES,
    clients,
    equal,
    needs_c,
    signed,
    wide,
    words,
)


@needs_c
@every("family", ["prf", "blake2s"])
@every("bins", [1, 2, 3, 16, 100])
@every("sizes", SIZES)
def test_bins_of_hashed_items(sizes, bins, family):
    case, how = clients(sizes), {"bins": bins, "hashed": family}
    left = compiled.bin_items(*case, **how)
    equal([left], [reference.bin_items(*case, **how)])


@needs_c
@every("maps", MAPS)
@every("bins", [1, 2, 16, 64])
@every("sizes", SIZES)
def test_bins_of_mapped_items(sizes, bins, maps):
    case, how = clients(sizes), {"bins": bins, "hashed": MAPS[maps]}
    left = compiled.bin_items(*case, **how)
    equal([left], [reference.bin_items(*case, **how)])


@BOTH
def test_bins_hold_the_signed_amounts(kernels):
    seeds, offsets, ids, amounts = clients([3, 0, 4])
    wanted = np.zeros((3, 5), dtype=np.int64)
    for client in range(3):
        for item in range(offsets[client], offsets[client + 1]):
            one = ids[item : item + 1]
            place = hashing.places(seeds[client : client + 1], one, 5, "prf")
            wanted[client, place.bins[0]] += place.signs[0] * int(amounts[item])
    equal([kernels.bin_items(seeds, offsets, ids, amounts, bins=5, hashed="prf")], [wanted])


@needs_c
@every("maps", MAPS)
@every("bins", [1, 2, 4, 8, 16, 32, 256])
@every("reports", [0, 1, 3, 63, 65, 130])
def test_linear_cells(reports, bins, maps):
    center = 2**31 // bins - 1
    fields = (words("fields", reports, bins) % (2 * center + 1)).astype(np.uint32)
    fields[:1] = 2 * center  # the largest weight that a cell can have
    case = (wide("seeds", reports), fields, center, MAPS[maps])
    equal(compiled.linear_cells(*case), reference.linear_cells(*case))


@BOTH
def test_cells_outside_their_range_are_refused(kernels):
    fields = np.array([[3, 7]], dtype=np.uint32)
    with pytest.raises(ValueError, match="at most 6"):
        kernels.linear_cells(wide("seeds", 1), fields, 3, MAPS["one"])
    with pytest.raises(TypeError, match="31 bits"):
        kernels.linear_cells(wide("seeds", 1), fields, 2**30, MAPS["one"])
    with pytest.raises(TypeError, match="power of two"):
        kernels.linear_cells(wide("seeds", 1), fields[:, [0, 0, 0]], 3, MAPS["one"])


@BOTH
@given(
    values=st.lists(st.integers(0, 2**32 - 1), max_size=40),
    center=st.integers(0, 2**32 - 1),
)
def test_sum_squares_is_exact(kernels, values, center):
    fields = np.array(values, dtype=np.uint32).reshape(-1, 1)
    wanted = sum((value - center) ** 2 for value in values)
    assert kernels.sum_squares(fields, center) == wanted
    assert isinstance(kernels.sum_squares(fields, center), int)


@needs_c
@given(
    pairs=st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 2**32 - 1)), max_size=40),
    steps=st.integers(0, 30).map(lambda bits: 2**bits),
)
def test_round_values(pairs, steps):
    values = np.array([value for value, _ in pairs], dtype=np.float64)
    drawn = np.array([word for _, word in pairs], dtype=np.uint32)
    # Words that agree with their value in 32 bits, or miss it by one, decide the borders.
    odds = (np.abs(values) * steps) % 1 * 2.0**32
    for shift in (-1, 0, 1):
        near = (np.floor(odds) + shift).clip(0, 2**32 - 1).astype(np.uint32)
        for case in (near, drawn):
            left = compiled.round_values(values, steps, case)
            equal(left, reference.round_values(values, steps, case))


@BOTH
def test_ties_are_rounded_toward_zero_and_reported(kernels):
    tie = 0.5 + 2.0**-33
    values = np.array([tie, -tie, 0.5, -(2.0**-40), 0.0, 1.0, -1.0])
    drawn = np.array([2**31, 2**31, 2**31, 0, 0, 2**32 - 1, 0], dtype=np.uint32)
    rounded, ties = kernels.round_values(values, 1, drawn)
    assert rounded.tolist() == [0, 0, 0, 0, 0, 1, -1]
    assert ties.tolist() == [0, 1, 3]


@BOTH
@every("bad", [np.nan, np.inf, -np.inf, 1 + 2.0**-52, -1e300])
def test_values_outside_are_refused(kernels, bad):
    values = np.array([0.5] * 20 + [bad])
    with pytest.raises(ValueError, match=r"\[-1, 1\]"):
        kernels.round_values(values, 16, np.zeros(21, dtype=np.uint32))


def independent_hashed(family, seeds, values, ids):
    plan = {"parameters": {"bins": values.shape[1]}, "hashing": {"family": family}}
    wanted = [0] * len(ids)
    for position, item in enumerate(ids.tolist()):
        for seed, row in zip(seeds.tolist(), values.tolist(), strict=True):
            where, sign = independent.place(plan, seed, item)
            wanted[position] += sign * row[where]
    return wanted


@BOTH
@every("family", ["prf", "blake2s"])
@every("reports", [0, 1, 17])
@every("bins", [1, 2, 3, 7])
@every("keys", [0, 1, 5])
def test_read_hashed(kernels, family, reports, bins, keys):
    seeds, values, ids = wide("seeds", reports), signed("v", reports, bins), wide("ids", keys)
    wanted = independent_hashed(family, seeds, values, ids)
    found = kernels.read_hashed(seeds, values, ids, family)
    assert found.dtype == np.int64
    assert found.tolist() == wanted


OFFSETS = {
    "short": [0, 1],
    "descending": [0, 3, 2, 4],
    "past the end": [0, 2, 2, 5],
    "not from 0": [1, 2, 2, 4],
    "before the start": [0, -1, 2, 4],
}


@BOTH
@every("why", OFFSETS)
def test_offsets_that_do_not_fit_are_refused(kernels, why):
    offsets = np.array(OFFSETS[why], dtype=np.int64)
    seeds, _, ids, amounts = clients([1, 1, 2])
    calls = [
        lambda: kernels.bin_items(seeds, offsets, ids, amounts, bins=4, hashed="prf"),
        lambda: kernels.bin_items(seeds, offsets, ids, amounts, bins=4, hashed="blake2s"),
        lambda: kernels.bin_items(seeds, offsets, ids, amounts, bins=4, hashed=MAPS["one"]),
        lambda: kernels.code_items(seeds, offsets, ids, MAPS["one"]),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    if why != "short":
        with pytest.raises(TypeError):
            kernels.hash_keys(np.zeros(4, np.uint8), offsets, b"salt")


@BOTH
def test_arguments_that_do_not_fit_are_refused(kernels):
    seeds, offsets, ids, amounts = clients([1, 1, 2])
    drawn = np.zeros(2, dtype=np.uint32)
    refused = [
        lambda: kernels.bin_items(seeds, offsets, ids, amounts, bins=0, hashed="prf"),
        lambda: kernels.bin_items(seeds, offsets, ids, amounts, bins=4, hashed="linear"),
        lambda: kernels.bin_items(seeds[:2], offsets, ids, amounts, bins=4, hashed="prf"),
        lambda: kernels.bin_items(seeds, offsets, ids, amounts[:3], bins=4, hashed="prf"),
        lambda: kernels.bin_items(
            seeds, offsets, ids, amounts.astype(np.int64), bins=4, hashed="prf"
        ),
        lambda: kernels.bin_items(
            seeds, offsets.astype(np.int32), ids, amounts, bins=4, hashed="prf"
        ),
        lambda: kernels.bin_items(seeds, offsets, ids, amounts, bins=3, hashed=MAPS["one"]),
        lambda: kernels.bin_items(seeds, offsets, ids, amounts, bins=2**17, hashed=MAPS["one"]),
        lambda: kernels.round_values(np.zeros(3), 16, drawn),
        lambda: kernels.round_values(np.zeros(2), 3, drawn),
        lambda: kernels.round_values(np.zeros(2), 2**31, drawn),
        lambda: kernels.round_values(np.zeros(2, np.float32), 16, drawn),
        lambda: kernels.pick_maps(seeds, 0),
        lambda: kernels.pick_maps(seeds.astype(np.int64), 4),
        lambda: kernels.sum_squares(drawn.reshape(1, 2), -1),
        lambda: kernels.sum_squares(drawn.reshape(1, 2), 2**32),
        lambda: kernels.sum_squares(drawn, 0),
        lambda: kernels.hash_words(seeds, ids, 1, 1, "blake2s"),
        lambda: kernels.hash_words(seeds, seeds, 256, 1, "blake2s"),
        lambda: kernels.hash_words(seeds, seeds, 1, 257, "blake2s"),
        lambda: kernels.hash_keys(np.zeros(4, np.uint8), offsets, b""),
        lambda: kernels.hash_keys(np.zeros(4, np.uint8), offsets, bytes(33)),
        lambda: kernels.hash_keys(np.zeros(0, np.uint8), np.zeros(0, np.int64), b"salt"),
    ]
    for call in refused:
        with pytest.raises(TypeError):
            call()
