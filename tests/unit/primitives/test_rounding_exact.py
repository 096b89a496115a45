"""Rounding compares a value with random bits exactly, however many bits that takes."""

import itertools
from fractions import Fraction

import numpy as np

from faintly.primitives import rounding
from tests.every import every


class Words:
    """A source that gives the listed words in order."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more words were asked for than expected"
        return np.array(taken, dtype=np.uint32)


def flip(probability, *words):
    source = Words(*words)
    hit = bool(rounding.bernoulli(np.array([probability]), source)[0])
    assert not source.left, "fewer words were asked for than expected"
    return hit


def test_certain_and_impossible_coins():
    assert flip(1.0, 2**32 - 1)
    assert not flip(0.0, 0)


def test_a_half_is_decided_by_one_word():
    assert flip(0.5, 2**31 - 1)
    assert not flip(0.5, 2**31)


def test_ties_ask_for_the_next_word():
    probability = 0.5 + 2.0**-33  # 2^31 in the first word, then a half of the second
    assert flip(probability, 2**31 - 1)
    assert flip(probability, 2**31, 2**31 - 1)
    assert not flip(probability, 2**31, 2**31)
    assert not flip(probability, 2**31 + 1)
    tiny = 2.0**-70  # two zero words, then 2^26 of the third
    assert flip(tiny, 0, 0, 2**26 - 1)
    assert not flip(tiny, 0, 0, 2**26)


def test_only_ties_ask_for_more():
    source = Words(5, 2**31, 7, 2**31 - 1)
    probabilities = np.array([0.25, 0.5 + 2.0**-33, 0.0])
    assert rounding.bernoulli(probabilities, source).tolist() == [True, True, False]


class Threshold:
    """Words that spell one real number u in [0, 1): a value rounds up where u < fraction."""

    def __init__(self, number):
        self.number = Fraction(number)

    def words(self, count):
        scaled = self.number * 2**32
        word = scaled.numerator // scaled.denominator
        self.number = scaled - word
        return np.full(count, word, dtype=np.uint32)


VALUES = [0.3, -0.3, 0.1, -0.1, 1 / 3, -1 / 3, 1e-20, -1e-20, -(2.0**-60), -1 + 2.0**-53, -0.999]


@every("value", VALUES)
@every("steps", [1, 16, 256])
def test_the_chance_of_rounding_away_from_zero_is_the_fraction_itself(value, steps):
    """With u uniform, the set of u that rounds away has exactly the size of |value|'s fraction.

    It may be the low end of [0, 1) or the high end; a hair on either side of its border tells.
    The proof of the l1 row rests on this, for negative values as for positive ones.
    """
    size = abs(Fraction(value)) * steps
    near = size.numerator // size.denominator
    fraction = size - near
    sign = 1 if value > 0 else -1

    def away(number):
        rounded = int(rounding.round_unbiased(np.array([value]), steps, Threshold(number))[0])
        assert rounded in (sign * near, sign * (near + 1))
        return rounded == sign * (near + 1)

    hair = Fraction(1, 2**200)
    low_end = away(fraction - hair) and not away(fraction + hair)
    high_end = not away(1 - fraction - hair) and away(1 - fraction + hair)
    assert low_end or high_end


def test_grid_points_stay_where_they_are():
    grid = np.arange(-16, 17) / 16
    for word in (0, 2**32 - 1):
        source = Words(*[word] * 33)
        assert rounding.round_unbiased(grid, 16, source).tolist() == list(range(-16, 17))


def test_ties_are_settled_by_the_words_after_the_first():
    """A kernel compares first words; what ties there is decided as if nothing had happened."""
    values = np.array([0.5 + 2.0**-33, -(0.5 + 2.0**-33), 2.0**-70])
    for second, third in itertools.product((2**31 - 1, 2**31), (2**26 - 1, 2**26)):
        later = [second, second, 0, third]
        whole = rounding.round_unbiased(values, 1, Words(2**31, 2**31, 0, *later))
        assert rounding.settle(values, 1, Words(*later)).tolist() == whole.tolist()
