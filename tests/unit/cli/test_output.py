"""How a row of a top list is marked."""

import pytest

from faintly.cli.output import verdict


@pytest.mark.parametrize(
    ("significant", "agree", "said"),
    [(True, True, "yes"), (False, True, "no"), (False, False, "maps disagree")],
)
def test_a_collision_is_told_from_noise(significant, agree, said):
    assert verdict(significant, agree) == said
