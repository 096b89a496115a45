"""The library's randomizer equals the one written from the text, word for word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faintly.core import SparseVector, VectorBatch
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import uniform_seeds
from faintly.primitives.rounding import round_unbiased
from spec import independent
from spec.generator import cases
from spec.generator.vectors import plan_of
from spec.generator.word_sources import GivenWords, HashedWords, RecordedWords, WordsExhausted

MECHANISMS = {name: mechanism_of(plan_of(name)) for name in cases.PLANS}


@given(
    st.sampled_from(sorted(MECHANISMS)),
    st.dictionaries(st.integers(0, 2**64 - 1), st.floats(-1, 1), max_size=6),
    st.integers(0, 2**64 - 1),
    st.text("abc", max_size=4),
)
def test_randomize_follows_the_text(name, items, seed, label):
    mechanism = MECHANISMS[name]
    size = mechanism.plan.universe.size
    items = {item % size: value for item, value in items.items()} if size else items
    if mechanism.domain != "signed":
        items = {item: abs(value) for item, value in items.items()}
    if mechanism.domain == "set":
        items = dict.fromkeys(items, 1.0)
    seed >>= 64 - 8 * mechanism.seed_bytes
    vector = SparseVector(np.array(list(items), np.uint64), list(items.values()))
    source = RecordedWords(HashedWords(label))
    seeds = np.array([seed], dtype=np.uint64)
    fields = mechanism.randomize(VectorBatch.of([vector]), seeds, source)
    words = iter(source.used)
    assert fields[0].tolist() == independent.randomize(
        cases.document(name), list(items.items()), seed, words
    )
    assert next(words, None) is None


@given(st.lists(st.floats(-1, 1), max_size=5), st.integers(0, 20), st.data())
def test_rounding_with_words_that_tie(values, power, data):
    """Words are drawn near the value itself, so that ties are common."""
    steps, rests, words = 2**power, [], []
    for value in values:
        scaled = value * steps
        rests.append(scaled - np.floor(scaled))
    for _ in range(40):
        near = [min(2**32 - 1, int(rest * 2.0**32)) for rest in rests] or [0]
        words += [max(0, min(2**32 - 1, w + data.draw(st.integers(-1, 1)))) for w in near]
        rests = [rest * 2.0**32 % 1 for rest in rests]
    source = GivenWords(words)
    found = round_unbiased(np.array(values, dtype=np.float64), steps, source)
    given_words = iter(words)
    assert found.tolist() == independent.rounded(values, steps, given_words)
    assert len(list(given_words)) == source.left


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from([5, 8]))
def test_seeds_follow_the_text(first, second, size):
    found = uniform_seeds(GivenWords([first, second]), 1, size)
    assert found.tolist() == [independent.seed_from(first, second, size)]
    assert found[0] < 256**size


def test_given_words_end():
    source = GivenWords([1, 2, 3])
    assert source.words(2).tolist() == [1, 2]
    with pytest.raises(WordsExhausted, match="2 words asked for, 1 of the list"):
        source.words(2)
    assert source.words(1).tolist() == [3]
    assert source.words(0).tolist() == []


def test_hashed_words_do_not_depend_on_the_sizes_of_requests():
    once = HashedWords("a").words(50).tolist()
    source = HashedWords("a")
    assert [word for size in (1, 9, 0, 40) for word in source.words(size).tolist()] == once
    assert HashedWords("b").words(50).tolist() != once
