"""A plan is needed only for its universe and salt: nothing is randomized in this room."""

from collections.abc import Callable

import pytest

from faintly.core import Budget, EventLevel, Hashing, Plan, Universe


@pytest.fixture
def plan_of() -> Callable[[Universe], Plan]:
    """Return a maker of plans for a given universe."""

    def make(universe: Universe) -> Plan:
        return Plan(
            unit=EventLevel(),
            budget=Budget(1.0),
            sparsity=4,
            clients=1,  # so that nothing is padded
            universe=universe,
            mechanism="signed-binning",
            parameters={},
            hashing=Hashing(family="prf"),
            decode="direct",
            salt=bytes(16),
        )

    return make
