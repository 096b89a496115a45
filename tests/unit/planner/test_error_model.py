"""The error to expect: what is assumed where nobody said, and the largest over all keys."""

from statistics import NormalDist

import pytest

from faintly.core import Universe
from faintly.planner import ErrorModel, make_plan, predict


def test_all_keys_stay_within_the_largest_error_except_with_the_failure():
    sizes = {"clients": 100, "keys": 1000, "failure": 0.05}
    model = ErrorModel(worst=4.0, typical=1.0, unheld=3.0, held=5.0, **sizes)
    assert (model.stderr, model.typical_stderr) == pytest.approx((0.2, 0.1))
    beyond = 2 * model.keys * NormalDist().cdf(-model.linf / model.stderr)
    # The formula replaces the tail by a simple bound, which costs a factor of about 11 here.
    assert 0.05 / 20 < beyond < 0.05


def test_typical_clients_and_open_universes_are_guessed_alike_everywhere():
    plan = make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=8,
        clients=1000,
        universe=Universe.open(),
        mechanism="signed-binning",
    )
    found = predict(plan)
    assert found == predict(plan, mean_square=2.0)
    assert found.typical < predict(plan, mean_square=8.0).typical == found.worst
    assert found.keys == 10**6
