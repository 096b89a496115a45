"""Hash quality of both families. FALSE_ALARM: 1e-9 per assertion, a mutant beside each check.

prf     signs of distinct keys are as independent as coins, over sequential seeds and keys
linear  exactly pairwise over all r, and no more than that: what its theorems use
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from faintly.core import Hashing
from faintly.primitives import hashing

SEEDS = 20_000


def seeds_of(kind, generator, count=SEEDS):
    if kind == "sequential":
        return np.arange(count, dtype=np.uint64)
    return generator.integers(0, 2**40, count, dtype=np.uint64)


def keys_of(kind, generator, count):
    if kind == "sequential":
        return np.arange(count, dtype=np.uint64)
    if kind == "high bits":
        return np.arange(count, dtype=np.uint64) << np.uint64(50)
    return generator.integers(0, 2**63, count, dtype=np.uint64)


def sign_table(seeds, keys, family="prf", bins=1):
    """Signs (seeds, keys) and bins (seeds, keys) of every key under every seed."""
    shape = (len(seeds), len(keys))
    place = hashing.places(np.repeat(seeds, len(keys)), np.tile(keys, len(seeds)), bins, family)
    return place.signs.reshape(shape), place.bins.reshape(shape)


def xor_signs(seeds, keys):
    """Mutant: a cheap hash whose signs are a linear function of seed and key."""
    return 1 - 2 * (np.bitwise_count(seeds[:, None] ^ keys[None, :]) & 1).astype(np.int64)


def pair_statistic(signs):
    """Σ over disjoint pairs of keys of (seeds · correlation²): chi-square, one per pair."""
    correlation = (signs[:, 0::2] * signs[:, 1::2]).mean(axis=0)
    return float((len(signs) * correlation**2).sum()), signs.shape[1] // 2


def pairs_look_independent(signs, false_alarm):
    statistic, freedom = pair_statistic(signs)
    low = stats.chi2.ppf(false_alarm / 2, freedom)
    return low < statistic < stats.chi2.isf(false_alarm / 2, freedom)


@pytest.mark.parametrize("seed_kind", ["sequential", "random"])
@pytest.mark.parametrize("key_kind", ["sequential", "high bits", "random"])
def test_signs_of_two_keys_are_uncorrelated_over_seeds(seed_kind, key_kind, odds, generator):
    seeds, keys = seeds_of(seed_kind, generator), keys_of(key_kind, generator, 64)
    assert pairs_look_independent(sign_table(seeds, keys)[0], odds.false_alarm)
    assert not pairs_look_independent(xor_signs(seeds, keys), odds.false_alarm)


def test_signs_of_two_seeds_are_uncorrelated_over_keys(odds, generator):
    """The same table seen from the other side: sequential reports share nothing."""
    seeds, keys = seeds_of("sequential", generator, 64), keys_of("sequential", generator, SEEDS)
    assert pairs_look_independent(sign_table(seeds, keys)[0].T, odds.false_alarm)
    assert not pairs_look_independent(xor_signs(seeds, keys).T, odds.false_alarm)


def test_blake2s_signs_are_uncorrelated_too(odds, generator):
    seeds, keys = seeds_of("sequential", generator, 2_000), keys_of("sequential", generator, 16)
    signs, bins = sign_table(seeds, keys, "blake2s", 4)
    assert pairs_look_independent(signs, odds.false_alarm)
    assert not pairs_look_independent(xor_signs(seeds, keys), odds.false_alarm)
    joint = np.bincount((2 * bins + (signs > 0)).ravel(), minlength=8)
    assert odds.misfit(joint, np.full(8, 1 / 8)) < 1
    shared = np.bincount((2 * bins + (bins > 1)).ravel(), minlength=8)
    assert odds.misfit(shared, np.full(8, 1 / 8)) > 1  # mutant: a bit of the bin is the sign


def fourth_moment(signs):
    """E[S⁴]/k² of the sum of k signs; 3 - 2/k where they are independent."""
    sums, k = signs.sum(axis=1).astype(float), signs.shape[1]
    return float((sums**4).mean()) / k**2


def spread_of_fourth(k, seeds):
    """Standard error of `fourth_moment` for independent signs, from the binomial law."""
    heads = np.arange(k + 1)
    law, sums = stats.binom.pmf(heads, k, 0.5), (2.0 * heads - k)
    return float(np.sqrt(((law * sums**8).sum() - (law * sums**4).sum() ** 2) / seeds) / k**2)


@pytest.mark.parametrize("k", [4, 32, 64])
@pytest.mark.parametrize("key_kind", ["sequential", "random"])
def test_sums_of_signs_have_the_kurtosis_of_coins(k, key_kind, odds, generator):
    seeds, keys = seeds_of("sequential", generator), keys_of(key_kind, generator, k)
    limit = odds.z() * spread_of_fourth(k, len(seeds))
    assert abs(fourth_moment(sign_table(seeds, keys)[0]) - (3 - 2 / k)) < limit
    # Mutant: linear signs over a subspace, whose sum is k once in k draws and else 0.
    rows = generator.integers(0, 64, (len(seeds), 1), dtype=np.uint64)
    linear = hashing.to_signs(hashing.parity(rows & np.arange(k, dtype=np.uint64)))
    assert abs(fourth_moment(linear) - (3 - 2 / k)) > limit


@pytest.mark.parametrize("bins", [2, 3, 7, 16])
@pytest.mark.parametrize("key", [0, 1, 2**40])
def test_bins_are_uniform_and_independent_of_signs(bins, key, odds, generator):
    seeds = seeds_of("sequential", generator, 50_000)
    signs, where = sign_table(seeds, np.array([key], dtype=np.uint64), bins=bins)
    even = np.full(2 * bins, 1 / (2 * bins))
    joint = np.bincount((2 * where + (signs > 0)).ravel(), minlength=2 * bins)
    assert odds.misfit(joint, even) < 1
    # Mutant: one word for both, its top for the bin and its top bit for the sign.
    word = hashing.mix(seeds, np.uint64(key), hashing.BIN)
    shared = 2 * hashing.scale_to(word, bins) + (word >> np.uint32(31)).astype(np.int64)
    assert odds.misfit(np.bincount(shared, minlength=2 * bins), even) > 1


def test_bins_of_two_keys_collide_as_often_as_they_should(odds, generator):
    seeds, keys = seeds_of("sequential", generator), keys_of("sequential", generator, 2)
    for bins in (2, 5, 64):
        where = sign_table(seeds, keys, bins=bins)[1]
        assert odds.covers(int((where[:, 0] == where[:, 1]).sum()), len(seeds), 1 / bins)
        assert not odds.covers(int((where[:, 0] == where[:, 0]).sum()), len(seeds), 1 / bins)


def maps_of(bits, salt=0, size=None, maps=1):
    size = 2**bits if size is None else size
    return hashing.LinearMaps(
        Hashing(family="linear", bits=bits, maps=maps), salt.to_bytes(16, "little"), size
    )


@pytest.mark.parametrize("bits", [3, 6, pytest.param(9, marks=pytest.mark.long)])
def test_linear_signs_are_exactly_pairwise_over_all_rows(bits):
    """No tolerance: averaged over every r, two keys have correlation 0 and a key with itself 1."""
    codes = maps_of(bits).codes(np.arange(2**bits, dtype=np.uint64), 0)
    rows = np.arange(2**bits, dtype=np.uint32)
    signs = hashing.to_signs(hashing.parity(rows[:, None] & codes[None, :]))
    assert np.array_equal(signs.T @ signs, 2**bits * np.eye(2**bits, dtype=np.int64))
    nonzero = signs[1:]  # mutant: leaving r = 0 out makes every pair correlated
    assert (nonzero.T @ nonzero - (2**bits - 1) * np.eye(2**bits, dtype=np.int64)).any()


@pytest.mark.parametrize("bits", [3, 5])
def test_linear_bins_are_exactly_pairwise_over_all_matrices(bits):
    """Over every row of A, two keys share a bit of their bin half of the time, but for code 0."""
    codes = np.arange(2**bits, dtype=np.uint32)
    bit = hashing.parity(codes[:, None] & codes[None, :]).astype(int)  # (rows of A, codes)
    for left, right in itertools.combinations(range(2**bits), 2):
        assert (bit[:, left] == bit[:, right]).sum() == 2 ** (bits - 1)
        assert (bit[1:, left] == bit[1:, right]).sum() < 2 ** (bits - 1)  # mutant: no row of zeros


@pytest.mark.parametrize("seed_kind", ["sequential", "random"])
def test_rows_matrices_and_maps_of_seeds_are_uniform(seed_kind, odds, generator):
    seeds = seeds_of(seed_kind, generator, 60_000)
    maps = maps_of(6, maps=4)
    row, matrix = maps.rows(seeds, 2)
    even = np.full(64, 1 / 64)
    for column in (
        row,
        matrix[:, 0],
        matrix[:, 1],
        row ^ matrix[:, 0],
        matrix[:, 0] ^ matrix[:, 1],
    ):
        assert odds.misfit(np.bincount(column, minlength=64), even) < 1
    assert odds.misfit(np.bincount(maps.map_of(seeds), minlength=4), np.full(4, 1 / 4)) < 1
    # Map and row together, since both come from one seed.
    joint = 64 * maps.map_of(seeds) + row
    assert odds.misfit(np.bincount(joint, minlength=256), np.full(256, 1 / 256)) < 1
    # Mutants: a stuck bit, and a map that is two bits of the row.
    assert odds.misfit(np.bincount(row | 1, minlength=64), even) > 1
    shared = 64 * (row & 3) + row
    assert odds.misfit(np.bincount(shared, minlength=256), np.full(256, 1 / 256)) > 1


def test_masks_and_folds_are_fair(odds, generator, seed):
    keys = keys_of("sequential", generator, SEEDS)
    maps = maps_of(8, salt=seed, size=0, maps=2)
    maps.bijective = False
    even = np.full(256, 1 / 256)
    masks = [maps.masks(keys, np.full(len(keys), j)) for j in (0, 1)]
    folds = [maps.codes(keys, np.full(len(keys), j)) for j in (0, 1)]
    for mask, fold in zip(masks, folds, strict=True):
        assert odds.covers(int((mask > 0).sum()), len(keys), 0.5)
        assert odds.misfit(np.bincount(fold, minlength=256), even) < 1
        # Mutants: one mask in ten is forgotten, and a remainder by what is no power of two.
        forgotten = np.where(keys % 10 == 0, 1, mask)
        assert not odds.covers(int((forgotten > 0).sum()), len(keys), 0.5)
        assert odds.misfit(np.bincount(fold % 240, minlength=256), even) > 1
    assert odds.covers(int((masks[0] == masks[1]).sum()), len(keys), 0.5)
    assert odds.covers(int((folds[0] == folds[1]).sum()), len(keys), 1 / 256)
    # Mutants: a second map that is the first, and one that is the first for one key in twenty.
    assert not odds.covers(int((masks[0] == masks[0]).sum()), len(keys), 0.5)
    copied = np.where(keys % 20 == 0, folds[0], folds[1])
    assert not odds.covers(int((folds[0] == copied).sum()), len(keys), 1 / 256)


def ghosts(bits, salt, keys):
    """Quadruples of keys whose codes XOR to zero, over the number that chance would make."""
    codes = maps_of(bits, salt).codes(np.arange(keys, dtype=np.uint64), 0).astype(np.int64)
    upper = np.triu_indices(keys, 1)
    repeated = np.unique((codes[:, None] ^ codes[None, :])[upper], return_counts=True)[1]
    found = (repeated * (repeated - 1) // 2).sum() / 3
    return found / (keys * (keys - 1) * (keys - 2) * (keys - 3) / 24 / 2**bits)


def avalanche(bits, salt, sample):
    """How often each output bit flips with each input bit (inputs, outputs)."""
    maps = maps_of(bits, salt)
    codes = maps.codes(sample, 0)
    flipped = [codes ^ maps.codes(sample ^ np.uint64(1 << bit), 0) for bit in range(bits)]
    return np.array(
        [[(row >> np.uint32(out) & 1).mean() for out in range(bits)] for row in flipped]
    )


@pytest.mark.parametrize(("rounds", "holds"), [(hashing.ROUNDS, True), (1, False)])
@pytest.mark.parametrize("bits", [11, 13])
def test_codes_of_sequential_keys_have_no_more_ghosts_than_chance(
    rounds, holds, bits, odds, monkeypatch, seed
):
    """Ghosts (four codes that XOR to zero) would add variance; 32 neighbours are the worst case."""
    monkeypatch.setattr(hashing, "ROUNDS", rounds)
    ratios = np.array([ghosts(bits, 1000 * seed + salt, 32) for salt in range(200)])
    t = (ratios.mean() - 1) / (ratios.std(ddof=1) / np.sqrt(len(ratios)))
    assert bool(abs(t) < odds.t(len(ratios))) is holds, (
        f"{ratios.mean():.2f} times chance, t = {t:.1f}"
    )


@pytest.mark.parametrize(("rounds", "holds"), [(hashing.ROUNDS, True), (1, False)])
def test_codes_avalanche(rounds, holds, odds, monkeypatch, seed, generator):
    """Averaged over salts, every input bit flips every output bit half of the time."""
    monkeypatch.setattr(hashing, "ROUNDS", rounds)
    sample = generator.integers(0, 2**16, 512, dtype=np.uint64)
    each = np.array([avalanche(16, 1000 * seed + salt, sample) for salt in range(100)])
    spread = np.maximum(each.std(axis=0, ddof=1), 0.5 / np.sqrt(512)) / np.sqrt(len(each))
    worst = (np.abs(each.mean(axis=0) - 0.5) / spread).max()
    assert bool(worst < odds.t(len(each), comparisons=256)) is holds, f"{worst:.1f}"
