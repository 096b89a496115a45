"""Noise, rounding and entropy do what their formulas say. FALSE_ALARM: 1e-9 per assertion."""

import numpy as np
import pytest

from faintly.primitives import noise, rounding
from faintly.primitives.entropy import secure, seeded, uniform_seeds

DRAWS = 200_000
# epsilon, change in steps: from one coin to nine.
SCALES = [(8.0, 1), (1.0, 2), (1.0, 32), (0.5, 32), (3.0, 8)]


def thresholds(epsilon, change):
    return noise.laplace_thresholds(noise.exp_at_least(-noise.exact(epsilon) / change))


def counts(drawn, reach):
    return np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)


def tails_in(law):
    """The law on -reach..reach with what lies outside gathered at its ends."""
    law = law.copy()
    law[[0, -1]] += (1 - law.sum()) / 2
    return law


@pytest.mark.parametrize(("epsilon", "change"), SCALES)
def test_noise_follows_its_exact_law(epsilon, change, odds, rng_of):
    chosen = thresholds(epsilon, change)
    reach = max(3, round(6 * change / epsilon))
    law = tails_in(noise.laplace_law(tuple(chosen), reach))
    drawn = noise.laplace(chosen, DRAWS, rng_of("noise"))
    assert odds.misfit(counts(drawn, reach), law) < 1
    # Mutants: half the noise, and a sampler that never says zero.
    off = thresholds(2 * epsilon, change)
    assert odds.misfit(counts(noise.laplace(off, DRAWS, rng_of("noise")), reach), law) > 1
    assert odds.misfit(counts(np.where(drawn == 0, 1, drawn), reach), law) > 1


@pytest.mark.parametrize(("epsilon", "change"), SCALES)
def test_noise_has_mean_zero_and_the_stated_variance(epsilon, change, odds, rng_of):
    chosen = thresholds(epsilon, change)
    drawn = noise.laplace(chosen, DRAWS, rng_of("moments")).astype(float)
    variance = noise.laplace_variance(chosen)
    off_center = odds.z() * np.sqrt(variance / DRAWS)
    assert abs(drawn.mean()) < off_center
    assert np.abs(drawn).mean() > off_center  # mutant: the signs are lost
    # The spread of squares comes from the exact law, not from the sample. At epsilon 8 only 134
    # draws are expected not to be 0; their sum is skewed, and its false-alarm rate is 1.3e-8.
    reach = round(60 * change / epsilon)
    values, law = np.arange(-reach, reach + 1.0), noise.laplace_law(tuple(chosen), reach)
    assert (law * values**2).sum() == pytest.approx(variance, rel=1e-9)
    spread = np.sqrt(((law * values**4).sum() - variance**2) / DRAWS)
    z = ((drawn**2).mean() - variance) / spread
    assert abs(z) < odds.z(), z
    halved = noise.laplace(thresholds(2 * epsilon, change), DRAWS, rng_of("moments"))
    assert abs((halved.astype(float) ** 2).mean() - variance) > odds.z() * spread


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.3, -0.3, 1 / 3, 1e-9, -0.999])
@pytest.mark.parametrize("steps", [1, 16])
def test_rounding_is_unbiased_and_stays_on_its_cell(value, steps, odds, rng_of):
    rounded = rounding.round_unbiased(np.full(50_000, value), steps, rng_of("rounding"))
    low = np.floor(value * steps)
    assert set(np.unique(rounded)) <= {low, low + 1}
    share = value * steps - low
    assert odds.covers(int((rounded > low).sum()), 50_000, share)
    # Mutants: always up; and to the nearest step, where that is another law.
    assert not odds.covers(50_000, 50_000, share)
    if 0.01 < share < 0.99:
        assert not odds.covers(50_000 * round(share), 50_000, share)


def test_seeded_words_are_uniform_in_every_bit(odds, rng_of):
    words = rng_of("bits").words(100_000)
    for bit in range(32):
        assert odds.covers(int((words >> np.uint32(bit) & 1).sum()), len(words), 0.5)
    stuck = words | np.uint32(1 << 7)  # mutant
    assert not odds.covers(int((stuck >> np.uint32(7) & 1).sum()), len(words), 0.5)


@pytest.mark.parametrize("size", [64, 100_000])
def test_secure_words_pass_a_monobit_and_a_serial_check(size, odds):
    """Real entropy, so no seed: the odds alone keep this quiet. Both ways of drawing are used."""
    source = secure()
    words = np.concatenate([source.words(size) for _ in range(max(1, 20_000 // size))])
    ones = int(np.bitwise_count(words).sum())
    assert odds.covers(ones, 32 * len(words), 0.5)
    alike = int(np.bitwise_count(~(words[1:] ^ words[:-1])).sum())
    assert odds.covers(alike, 32 * (len(words) - 1), 0.5)
    # Mutants: a stuck bit, and a source that says every word twice.
    assert not odds.covers(int(np.bitwise_count(words | 1).sum()), 32 * len(words), 0.5)
    twice = np.repeat(words, 2)
    alike = int(np.bitwise_count(~(twice[1:] ^ twice[:-1])).sum())
    assert not odds.covers(alike, 32 * (len(twice) - 1), 0.5)


@pytest.mark.parametrize("size", [16, 5000])
def test_two_secure_streams_differ(size, seed):
    """Two honest streams are equal with a chance of 2^-512; mutant: one seed for both."""
    assert not np.array_equal(secure().words(size), secure().words(size))
    assert np.array_equal(seeded(seed, "one").words(size), seeded(seed, "one").words(size))


def test_streams_with_different_labels_or_seeds_are_uncorrelated(odds, seed):
    size = 50_000
    base = seeded(seed, "noise").words(size)
    for other in (seeded(seed, "seeds"), seeded(seed + 1, "noise"), seeded(seed, "noise ")):
        alike = int(np.bitwise_count(~(base ^ other.words(size))).sum())
        assert odds.covers(alike, 32 * size, 0.5)
    assert not odds.covers(int(np.bitwise_count(~(base ^ base)).sum()), 32 * size, 0.5)


@pytest.mark.parametrize("seed_bytes", [2, 5, 8])
def test_public_seeds_fill_their_bytes(seed_bytes, odds, rng_of):
    seeds = uniform_seeds(rng_of("seeds"), 50_000, seed_bytes)
    assert int(seeds.max()) < 2 ** (8 * seed_bytes)
    # Mutant: a top byte that is one bit short.
    short = seeds >> np.uint64(1)
    for byte in range(seed_bytes):
        assert odds.misfit(bytes_at(seeds, byte), np.full(256, 1 / 256)) < 1
    assert odds.misfit(bytes_at(short, seed_bytes - 1), np.full(256, 1 / 256)) > 1


def bytes_at(seeds, place):
    """How often each value of one byte occurs."""
    part = (seeds >> np.uint64(8 * place)) & np.uint64(0xFF)
    return np.bincount(part.astype(int), minlength=256)
