"""Thresholds are integers, rounded toward privacy, and prove their bound as exact fractions."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from faintly.errors import BoundDoesNotApply
from faintly.primitives import noise
from tests.every import every

EPSILONS = [0.01, 0.1, 0.25, 0.5, 1.0, 1 / 3, 2.0, 3.0, 5.0, 8.0, 16.0]
CHANGES = [1, 2, 3, 7, 16, 32, 100, 512, 4096]


@every("epsilon", EPSILONS)
@every("change", CHANGES)
def test_thresholds_never_exceed_the_bound(epsilon, change):
    bound = noise.exp_at_least(-noise.exact(epsilon) / change)
    thresholds = noise.laplace_thresholds(bound)
    assert all(0 < threshold < noise.FULL for threshold in thresholds)
    ratio = noise.step_ratio(thresholds)
    assert ratio <= 1 / bound  # exact: both are fractions
    loss = noise.log_at_least(ratio) * change
    assert loss <= Decimal(repr(epsilon))
    # And not much is given away by the rounding: the loss is within a thousandth of epsilon.
    assert float(loss) > 0.999 * epsilon


@every("distance", [0.5, 1.0, 2.0, 8.0])
@every("steps", [1, 4, 256])
def test_l1_ratio_is_linear_in_epsilon(distance, steps):
    bound = 1 / (1 + Fraction(1) / (noise.exact(distance) * steps))
    ratio = noise.step_ratio(noise.laplace_thresholds(bound))
    assert (ratio - 1) * noise.exact(distance) * steps <= 1


@pytest.mark.parametrize(("epsilon", "change"), [(1.0, 2), (0.5, 32), (3.0, 8), (16.0, 1)])
def test_one_less_in_any_threshold_breaks_the_bound(epsilon, change):
    """Each threshold is the smallest that is allowed: no noise is wasted, none is missing."""
    bound = noise.exp_at_least(-noise.exact(epsilon) / change)
    thresholds = noise.laplace_thresholds(bound)
    for position in range(len(thresholds)):
        lower = [t - (place == position) for place, t in enumerate(thresholds)]
        assert noise.step_ratio(lower) > 1 / bound


@pytest.mark.parametrize("gap", [Fraction(1, 2**33), Fraction(1, 10**30)])
def test_noise_too_fine_for_the_thresholds_is_refused(gap, deadline):
    with pytest.raises(BoundDoesNotApply, match="fewer steps"):
        noise.laplace_thresholds(1 - gap)


@pytest.mark.parametrize("exponent", [-16, -1, Fraction(-1, 3), Fraction(-1, 10**6), 1, 16])
def test_exponentials_are_rounded_up_and_close(exponent):
    """Against the series of e^|x|, summed with fractions: its rest is below its last term."""
    term, total = Fraction(1), Fraction(1)
    for index in range(1, 150):
        term = term * abs(Fraction(exponent)) / index
        total += term
    high = total + term if exponent > 0 else 1 / total  # not below e^x
    value = noise.exp_at_least(Fraction(exponent))
    assert high <= value, "below e^x: noise would be a little too small"
    assert value <= high * (1 + Fraction(1, 10**50))


def test_decimal_numbers_mean_what_they_spell():
    assert noise.exact(0.1) == Fraction(1, 10)
    assert noise.exact(1) == 1
    assert noise.exact(1e-05) == Fraction(1, 100_000)


@every(("epsilon", "change"), [(1.0, 1), (1.0, 2), (0.5, 16), (3.0, 8), (16.0, 2)])
@every("reach", [1, 10, 80])
def test_law_is_symmetric_complete_and_changes_by_at_most_the_ratio(epsilon, change, reach):
    thresholds = noise.laplace_thresholds(noise.exp_at_least(-noise.exact(epsilon) / change))
    law = noise.laplace_law(tuple(thresholds), reach)
    assert law.shape == (2 * reach + 1,)
    assert (law > 0).all()
    np.testing.assert_allclose(law, law[::-1], rtol=1e-12)
    steps = np.abs(np.diff(np.log(law)))
    assert steps.max() <= math.log(float(noise.step_ratio(thresholds))) + 1e-12
    beyond = 2 * math.exp(-epsilon * reach / change)
    assert 1 - beyond <= law.sum() <= 1 + 1e-12


def test_the_law_is_the_convolution_it_claims_to_be():
    thresholds = noise.laplace_thresholds(noise.exp_at_least(Fraction(-1, 2)))
    single = noise.geometric_law(thresholds, 400)
    assert single.sum() == pytest.approx(1, abs=1e-15)
    for shift in (-5, 0, 3):
        pairs = sum(single[g] * single[g - shift] for g in range(400) if 0 <= g - shift < 400)
        assert noise.laplace_law(tuple(thresholds), 5)[shift + 5] == pytest.approx(pairs, rel=1e-13)


class Words:
    """A source that gives the listed words, and counts what was asked for."""

    def __init__(self, *words):
        self.left = list(words)
        self.asked = []

    def words(self, count):
        self.asked.append(count)
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more words were asked for than expected"
        return np.array(taken, dtype=np.uint32)


def test_noise_is_made_of_digits_and_a_rarely_continuing_coin():
    thresholds = [100, 200, 50]  # two digits, then going on
    # Draw 1: g = 0b01, g' = 0; words run digit by digit over both halves, then the last coin.
    source = Words(99, 100, 200, 199, 50, 50)
    assert noise.laplace(thresholds, 1, source).tolist() == [1 - 2]
    assert source.asked == [2, 2, 2]
    source = Words(100, 100, 200, 200, 49, 50, 49, 50)
    assert noise.laplace(thresholds, 1, source).tolist() == [8]
    assert source.asked == [2, 2, 2, 1, 1]
