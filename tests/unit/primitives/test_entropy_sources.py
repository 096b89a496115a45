"""Two sources of two types; the seeded one repeats whatever the sizes of the requests."""

import hashlib

import numpy as np
import pytest

from faintly.primitives import entropy


def test_the_two_sources_are_two_types():
    assert type(entropy.secure()) is entropy.SecureRng
    assert type(entropy.seeded(1, "noise")) is entropy.SeededRng
    assert not issubclass(entropy.SeededRng, entropy.SecureRng)
    assert not issubclass(entropy.SecureRng, entropy.SeededRng)
    with pytest.raises(TypeError):
        entropy.SecureRng(1)  # a seed has no place here


@pytest.mark.parametrize("sizes", [[1] * 20, [7, 13], [0, 3, 0, 17], [20], [19, 1]])
def test_seeded_words_do_not_depend_on_request_sizes(sizes):
    whole = entropy.seeded(5, "noise").words(20)
    source = entropy.seeded(5, "noise")
    parts = [source.words(size) for size in sizes]
    assert np.array_equal(np.concatenate(parts), whole)
    assert all(part.dtype == np.uint32 for part in parts)


def test_seeds_and_labels_name_streams():
    base = entropy.seeded(5, "noise").words(8).tolist()
    assert entropy.seeded(5, "noise").words(8).tolist() == base
    others = [entropy.seeded(6, "noise"), entropy.seeded(5, "seeds"), entropy.seeded(5, "")]
    assert all(other.words(8).tolist() != base for other in others)


def test_seeded_words_are_pinned():
    """Simulations published with a seed must stay repeatable: Philox under a hashed key."""
    key = hashlib.blake2b(b"1/noise", digest_size=16).digest()
    raw = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(2)
    expected = [int(raw[0]) & 0xFFFFFFFF, int(raw[0]) >> 32, int(raw[1]) & 0xFFFFFFFF]
    assert entropy.seeded(1, "noise").words(3).tolist() == expected


@pytest.mark.parametrize("count", [0, 1, 100, entropy.BULK_WORDS, entropy.BULK_WORDS + 1])
def test_secure_words_come_in_the_asked_number(count):
    words = entropy.secure().words(count)
    assert words.shape == (count,)
    assert words.dtype == np.uint32


@pytest.mark.parametrize("spare", [-1, 0, 1, len(entropy.ZEROS) // 4])
def test_large_requests_do_not_repeat_themselves(spare):
    """Parts that encrypted the same zeros under a counter that starts anew would be equal.

    By chance one pair of all these words is equal, and ten are not once in 10^50 times.
    """
    part = len(entropy.ZEROS) // 4
    first = entropy.secure().words(2 * part + spare)
    assert len(first) == 2 * part + spare
    shared = min(part, len(first) - part)
    assert (first[:shared] == first[part : part + shared]).sum() < 10
    assert len(np.unique(first)) > len(first) - 100
    assert (first != entropy.secure().words(len(first))).mean() > 0.99


def test_bulk_words_fall_back_to_the_system_without_the_package(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    words = entropy.secure().words(entropy.BULK_WORDS)
    assert len(set(words.tolist())) > entropy.BULK_WORDS - 100


@pytest.mark.parametrize("seed_bytes", [0, 1, 5, 8])
def test_uniform_seeds_use_two_words_each(seed_bytes):
    source = entropy.seeded(1, "seeds")
    seeds = entropy.uniform_seeds(source, 10, seed_bytes)
    assert seeds.dtype == np.uint64
    assert all(int(seed) < 2 ** (8 * seed_bytes) for seed in seeds)
    low, high = entropy.seeded(1, "seeds").words(2).tolist()
    wide = low | high << 32
    assert int(seeds[0]) == (wide >> (64 - 8 * seed_bytes) if seed_bytes else 0)
