"""The lower bounds equal their tables, and no mechanism is below them."""

import math

import numpy as np
import pytest

from faintly.core import EventLevel, UserLevel, WithinL1
from faintly.planner import bounds, rank
from tests.every import every

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


@every(("epsilon", "sparsity", "average", "signs"), USER)
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
    found = [
        bounds.lower_bound(WithinL1(distance), 1.0, 8)
        for distance in (0.5, 1, 2, 3, 4, 6, 8, 12, 16)
    ]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(bounds.lower_bound(UserLevel(), 1.0, 8))
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


# sets.md's table: 4·e^ε/(e^ε-1)² for each item of a set that few share.
@pytest.mark.parametrize(
    ("epsilon", "least"), [(0.5, 15.7), (1, 3.683), (2, 0.7241), (3, 0.2206), (4, 0.0760)]
)
def test_bounds_of_sets_equal_the_table(epsilon, least):
    for k in (4, 16, 64):
        found = bounds.lower_bound(UserLevel(), epsilon, k, values="set", share=0.01) / k
        assert found == pytest.approx(least, rel=2e-3)
    assert bounds.lower_bound(EventLevel(), epsilon, 16, values="set") == pytest.approx(
        least / 4, rel=2e-3
    )


# The same table, where a fifth of the clients may hold a key; 16 and 64 items.
@pytest.mark.parametrize(
    ("epsilon", "least"), [(3, (0.225, 0.232)), (4, (0.132, 0.139)), (6, (0.063, 0.071))]
)
def test_bounds_of_sets_that_many_share_equal_the_table(epsilon, least):
    found = [bounds.user_blocks_bound(epsilon, k, None, 0.2) / k for k in (16, 64)]
    assert found == pytest.approx(least, rel=0.01)
    whole = bounds.lower_bound(UserLevel(), epsilon, 16, values="set", share=0.2)
    assert whole == pytest.approx(16 * found[0])
    # A small universe has room for fewer blocks.
    assert 0 < bounds.user_blocks_bound(epsilon, 16, 30, 0.2) < 0.5 * whole


@pytest.mark.parametrize("keys", [6, 8, 20])
def test_no_vector_over_a_block_is_worse_than_one_key_against_the_others(keys):
    """σ² of the bound from blocks, against many vectors whose entries add up to 0."""
    source = np.random.default_rng(keys)
    held, information = 1 / keys, bounds.user_signs_bound
    needed = bounds.user_blocks_bound(8.0, 10**6, None, held) + held * (1 - held)
    signs = 10**6 / (2 * (information(8.0, 10**6) + 1))  # what a report can say
    square = 10**6 * held * (1 - held) ** 2 / (2 * needed * signs)
    tried = source.standard_normal((20_000, keys)) ** source.choice([1, 3], (20_000, 1))
    tried *= source.uniform(0.1, 8, (20_000, 1))
    tried[:2_000, 1:] = tried[:2_000, 1:2]  # one key against the others
    tried -= tried.mean(axis=1, keepdims=True)
    worst = (2 * np.log(np.exp(tried).mean(axis=1)) / (tried**2).sum(axis=1)).max()
    assert 0.99 * square < worst <= square * (1 + 1e-9)


def test_subset_selection_meets_the_bound_of_sets_within_what_its_argument_loses():
    """One of d keys, epsilon small: both are 4/ε² but for the share that a key has anyway."""
    bound = bounds.user_set_bound(0.01, 1, 1000)
    assert bound == pytest.approx(4 / 0.01**2 * (1 - 1 / 1000) ** 2, rel=1e-3)


def test_a_share_weakens_what_needs_keys_that_more_people_hold():
    open_bound = bounds.lower_bound(UserLevel(), 1.0, 16, values="set")
    assert bounds.lower_bound(UserLevel(), 1.0, 16, values="set", share=0.01) == open_bound
    few = [
        bounds.lower_bound(UserLevel(), 1.0, 16, 40, values="set", share=share)
        for share in (1.0, 0.2, 0.05, 0.01)
    ]
    assert few == sorted(few, reverse=True)
    assert few[-1] == pytest.approx(0.4 * bounds.user_set_bound(1.0, 1, 40))
    # Signs that everybody holds: the second bound counts for the share of them alone.
    whole, part = (bounds.lower_bound(UserLevel(), 4.0, 64, share=share) for share in (1.0, 0.6))
    assert part == pytest.approx(0.6 * whole)


def test_sets_within_an_l1_distance_have_whole_items():
    wanted = {"epsilon": 1.0, "sparsity": 8, "values": "set"}
    at = {distance: bounds.lower_bound(WithinL1(distance), **wanted) for distance in (1, 4, 5, 16)}
    assert at[1] == 0.0
    assert at[4] == at[5] == pytest.approx(2 * 3.683, rel=1e-3)
    assert at[16] == bounds.lower_bound(UserLevel(), **wanted)


@pytest.mark.parametrize("protect", ["event", "user", "l1:2", "l1:5"])
@pytest.mark.parametrize("values", ["nonnegative", "set"])
@pytest.mark.parametrize(
    ("universe", "shares"), [(10, {0.25: 1.0, 3.0: 0.01}), (1_000, {1.0: 0.05, 5.0: 0.2})]
)
def test_no_candidate_for_sets_is_below_the_bound(protect, values, universe, shares):
    wanted = {"protect": protect, "clients": 10_000, "universe": universe, "values": values}
    for epsilon, share in shares.items():
        for one in rank(epsilon=epsilon, sparsity=3, share=share, **wanted):
            assert one.ratio >= 1 - 1e-6, (one.title, epsilon, share)
