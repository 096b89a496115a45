"""The pictures are drawn, and the front is a front."""

import pytest

from faintly.errors import InvalidInput
from faintly.planner import request_for, survey
from faintly.planner.plots import EPSILONS, best_by_epsilon, draw, pareto

RANKING = survey(
    request_for(protect="event", epsilon=1.0, sparsity=16, clients=20_000, universe=1_000)
)


def test_nothing_beats_the_front():
    front = pareto(RANKING.candidates)
    assert front[-1].worst == pytest.approx(min(one.worst for one in RANKING.candidates))
    for one in front:
        assert not any(
            other.bytes <= one.bytes and other.worst < one.worst * (1 - 1e-9)
            for other in RANKING.candidates
        )
    for one in RANKING.candidates:
        assert any(
            better.bytes <= one.bytes and better.worst <= one.worst * (1 + 1e-9) for better in front
        )


def test_curves_fall_with_epsilon():
    curves = best_by_epsilon(RANKING)
    assert set(curves) >= {"signed-binning"}
    for points in curves.values():
        assert {epsilon for epsilon, _ in points} <= set(EPSILONS)
        assert points[0][1] > points[-1][1]


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_both_formats_are_written(tmp_path, name, magic):
    pytest.importorskip("matplotlib")
    draw(RANKING, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"\.png"):
        draw(RANKING, tmp_path / "a.gif")
