"""The registry holds what the paper has and what we promise, at the sizes that they name."""

from dataclasses import replace

import pytest

from evaluation.experiments import experiments
from evaluation.formatting import KEYS
from evaluation.grids import DEFAULT, FULL, QUICK
from evaluation.measure import Task
from evaluation.methods import METHODS, ZERO, predicted
from evaluation.report import paper_numbers
from evaluation.reproduce import choose
from faintly.errors import BoundDoesNotApply, InvalidInput, UnsupportedUnit

PANELS = {f"{unit}-{axis}" for unit in ("user", "event") for axis in ("k", "eps", "d")}
PAPER = PANELS | {"neighbouring", "clothing", "renting", "movies"}
CROWD = {
    "epsilon": 1.0,
    "sparsity": 64,
    "clients": 100_000,
    "universe": 4096,
    "decode": None,
    "salt": bytes(16),
}
OURS = {"headline", "pareto", "error-n", "recall", "sets", "bounds", "bias"}


def test_every_panel_and_table_is_there():
    known = experiments()
    assert set(known) == PAPER | OURS
    assert {name for name, one in known.items() if one.paper} == PAPER


@pytest.mark.parametrize("grid", [QUICK, DEFAULT, FULL], ids=lambda grid: grid.name)
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


def test_at_a_distance_the_better_row_of_the_paper_runs():
    """k = 64, ε = 1: noise of 2·L² for the distance, of 8·45² for any change: equal at L = 90."""
    rows = {}
    for distance in (16, 64, 128):
        plan = METHODS["paper"].plan(unit=f"l1:{distance}", **CROWD)
        rows[distance] = plan.parameters["row"]
    assert rows == {16: "l1", 64: "l1", 128: "user"}
    held = METHODS["paper"]
    alone = replace(held, stronger=False).plan(unit="l1:128", **CROWD)  # what it is spared
    better = held.plan(unit="l1:128", **CROWD)
    assert predicted(alone, 64) > 1.9 * predicted(better, 64)


def test_the_squeezed_row_runs_where_its_theorem_holds():
    squeezed = METHODS["paper-squeeze"]
    plan = squeezed.plan(unit="l1:16", **CROWD)
    assert (plan.parameters["row"], plan.budget.delta) == ("squeeze", 1e-5)
    with pytest.raises(BoundDoesNotApply, match="distance/bins"):
        squeezed.plan(unit="l1:4", **CROWD)
    points = experiments(FULL)["neighbouring"].points
    shown = [point.at("distance") for point in points if "paper-squeeze" in point.methods]
    assert shown == [16, 32, 64, 128]


@pytest.mark.parametrize("name", ["sampling", "harmony", "pckv", "collision-signed"])
def test_of_equal_forms_the_one_that_hides_more_runs(name):
    assert str(METHODS[name].plan(unit="l1:4", **CROWD).unit) == "user"


def test_a_form_for_a_distance_that_is_not_there_is_refused():
    with pytest.raises(UnsupportedUnit):
        replace(METHODS["sampling"], stronger=False).plan(unit="l1:4", **CROWD)
