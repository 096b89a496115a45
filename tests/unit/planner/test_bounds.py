"""The lower bounds equal their tables, and no mechanism is below them."""

import math

import pytest

from faintly.core import EventLevel, UserLevel, WithinL1
from faintly.planner import bounds, rank

# epsilon, sparsity, LB1 and "LB worst": computed once by an independent program (the second
# by maximising over p instead of by the closed form); 0 where the bound is empty.
USER = [
    (0.25, 1, 64.66770576, 63.055527),
    (0.25, 6, 388.0062345, 383.33316),
    (0.25, 64, 4138.733168, 4098.5537),
    (0.25, 1024, 66219.73069, 65591.859),
    (0.5, 1, 16.67079236, 15.05544),
    (0.5, 6, 100.0247541, 95.332641),
    (0.5, 64, 1066.930711, 1026.5482),
    (0.5, 1024, 17070.89137, 16439.771),
    (1, 1, 4.682694377, 3.0550987),
    (1, 6, 28.09616626, 23.330592),
    (1, 64, 299.6924401, 258.52632),
    (1, 1024, 4795.079042, 4151.4211),
    (2, 1, 1.252141142, 0.053797085),
    (2, 6, 7.512846852, 5.3227825),
    (2, 64, 80.13703309, 66.443013),
    (2, 1024, 1282.192529, 1078.0882),
    (3, 1, 0.4191655719, 0.0),
    (3, 6, 2.514993432, 1.9776509),
    (3, 64, 26.8265966, 30.761609),
    (3, 1024, 429.2255457, 507.18575),
    (4, 1, 0.1492588829, 0.0),
    (4, 6, 0.8955532975, 0.79656895),
    (4, 64, 9.552568506, 18.163402),
    (4, 1024, 152.8410961, 305.61443),
    (6, 1, 0.01987929325, 0.0),
    (6, 6, 0.1192757595, 0.0),
    (6, 64, 1.272274768, 8.9358265),
    (6, 1024, 20.35639629, 157.97322),
]


@pytest.mark.parametrize(("epsilon", "sparsity", "average", "signs"), USER)
def test_user_bounds_equal_the_table(epsilon, sparsity, average, signs):
    assert bounds.user_average_bound(epsilon, sparsity) == pytest.approx(average, rel=1e-9)
    assert bounds.user_signs_bound(epsilon, sparsity) == pytest.approx(signs, rel=1e-7)


def test_signs_bound_is_the_maximum_that_it_claims_to_be():
    for epsilon in (0.01, 0.3, 1.0, 5.0):
        ratio = math.exp(epsilon)
        shares = [step / 20_000 for step in range(1, 20_000)]
        most = max(
            epsilon * p * ratio / (1 + p * (ratio - 1)) - math.log(1 + p * (ratio - 1))
            for p in shares
        )
        assert bounds.user_signs_bound(epsilon, 10**6) == pytest.approx(5e5 / most - 1, rel=1e-5)


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 15.67), (1, 3.196), (2, 0.460), (3, 0.1213)])
def test_event_bound_equals_the_table(epsilon, least):
    assert bounds.event_bound(epsilon) == pytest.approx(least, rel=5e-4)


def test_event_bound_is_continuous_where_its_form_changes():
    edge = math.log(2)
    assert bounds.event_bound(edge - 1e-9) == pytest.approx(bounds.event_bound(edge), rel=1e-7)
    assert bounds.user_average_bound(math.log(3) - 1e-9, 1) == pytest.approx(4, rel=1e-7)


def test_l1_bound_grows_with_the_distance_up_to_user_level():
    found = [bounds.l1_bound(1.0, distance, 8) for distance in (0.5, 1, 2, 3, 4, 6, 8, 12, 16)]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(bounds.user_bound(1.0, 8))
    # Half the distance is the same problem in units half as large.
    assert found[0] == pytest.approx(found[1] / 4)


def test_a_small_universe_weakens_the_user_bound_by_the_values_own_square():
    open_bound = bounds.lower_bound(UserLevel(), 1.0, 4)
    assert bounds.lower_bound(UserLevel(), 1.0, 4, 8) == pytest.approx(open_bound - 0.5)
    # More items than keys cannot be held.
    assert bounds.lower_bound(UserLevel(), 1.0, 40, 8) == bounds.lower_bound(UserLevel(), 1.0, 8, 8)
    assert bounds.lower_bound(WithinL1(2.0), 1.0, 4) > bounds.lower_bound(EventLevel(), 1.0, 4)


@pytest.mark.parametrize("protect", ["event", "user", "l1:0.5", "l1:2", "l1:5"])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("sparsity", [3, 12])
def test_no_candidate_is_below_the_bound(protect, epsilon, sparsity):
    for one in rank(
        protect=protect, epsilon=epsilon, sparsity=sparsity, clients=10_000, universe=1_000
    ):
        # Thresholds round by 2^-32, and a printed formula may be met exactly.
        assert one.ratio >= 1 - 1e-6, one.title
