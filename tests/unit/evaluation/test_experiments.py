"""The registry holds what the paper has and what we promise, at the sizes that they name."""

import pytest

from faintly.errors import InvalidInput
from faintly.evaluation.experiments import DEFAULT, FULL, GRIDS, KEYS, QUICK, experiments
from faintly.evaluation.measure import Task
from faintly.evaluation.methods import METHODS, ZERO
from faintly.evaluation.report import paper_numbers
from faintly.evaluation.reproduce import choose

PANELS = {f"{unit}-{axis}" for unit in ("user", "event") for axis in ("k", "eps", "d")}
PAPER = PANELS | {"neighbouring", "clothing", "renting", "movies"}
OURS = {"headline", "pareto", "error-n", "recall", "sets", "bounds", "bias"}


def test_every_panel_and_table_is_there():
    known = experiments()
    assert set(known) == PAPER | OURS
    assert {name for name, one in known.items() if one.paper} == PAPER


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_every_point_can_be_asked(grid):
    for experiment in experiments(grid).values():
        for point in experiment.points:
            assert point.keys in KEYS
            assert 1 <= point.data.sparsity <= point.data.universe
            assert point.methods[0] == "ours"
            for name in point.methods:
                assert METHODS[name].protects(point.unit), (experiment.name, name)
            if experiment.axis not in ("data", "bytes"):
                assert isinstance(point.at(experiment.axis), float)


def test_full_panels_reach_what_the_paper_reaches():
    """The ranges stand in paper.json: k to 1024, epsilon 0.5 to 3.5, d 64 to 1e5, L to 128."""
    known, said = experiments(FULL), paper_numbers()["figures"]
    assert said["user-k"] == "n=1e5 d=4096 eps=1.0, k from 1 to 1024 (full vector)"
    for unit in ("user", "event"):
        over_k, over_eps, over_d = (known[f"{unit}-{axis}"].points for axis in ("k", "eps", "d"))
        held = [point.data.sparsity for point in over_k]
        assert (min(held), max(held), {p.keys for p in over_k}) == (1, 1024, {"all"})
        assert {point.data.universe for point in over_k} == {4096}
        budgets = [point.epsilon for point in over_eps]
        assert (min(budgets), max(budgets), {p.keys for p in over_eps}) == (0.5, 3.5, {"top"})
        sizes = [point.data.universe for point in over_d]
        assert (min(sizes), max(sizes), {p.keys for p in over_d}) == (64, 100_000, {"top"})
        assert {p.data.clients for p in (*over_k, *over_eps, *over_d)} == {100_000}
    distances = [point.at("distance") for point in known["neighbouring"].points]
    assert (min(distances), max(distances)) == (1, 128)


def test_default_stops_at_256_items():
    held = [p.data.sparsity for one in experiments(DEFAULT).values() for p in one.points]
    assert max(held) == 256


def test_tables_have_the_sizes_that_the_paper_reports():
    numbers = paper_numbers()
    for name in ("clothing", "renting", "movies"):
        data = experiments()[name].points[0].data
        said = numbers["datasets"][name]
        assert (data.clients, data.universe, data.sparsity) == (said["n"], said["d"], said["k"])
        for unit in ("event", "user"):
            filled = {method for method, row in numbers[name][unit].items() if row is not None}
            point = next(p for p in experiments()[name].points if p.unit == unit)
            assert filled <= set(point.methods)


def test_each_look_is_its_own():
    """A plot over bytes has no lines: colour and marker alone tell methods apart."""
    looks = [(one.look.colour, one.look.marker) for one in METHODS.values()]
    assert len(set(looks)) == len(looks)
    assert len({one.label for one in METHODS.values()} | {ZERO.label}) == len(METHODS) + 1


def test_a_seed_depends_on_the_name_alone():
    point = experiments(QUICK)["user-k"].points[0]
    seeds = {Task(point, method, run).seed for method in METHODS for run in range(10)}
    assert len(seeds) == 10 * len(METHODS)
    assert Task(point, "ours", 0).seed == 4429134736012157921  # the same on every machine


def test_names_are_chosen_or_the_error_lists_them():
    assert [one.name for one in choose(["bias", "user-k"], QUICK)] == ["user-k", "bias"]
    assert len(choose([], QUICK)) == len(choose(["all"], QUICK)) == len(PAPER | OURS)
    with pytest.raises(InvalidInput, match=r"no experiment 'user-q'; there are user-k, user-eps"):
        choose(["user-q"], QUICK)
