"""Error bars and top lists where people are alike, which is where public maps show ghosts.

Everybody holds the same keys, or the same few with high odds, or what a real click stream has.
Every run has a salt of its own, so a ghost that some maps make has its chance to show. Judged
are the runs with a false row, the runs in which all intervals of all keys hold together, and
the share of 95 % intervals that hold at keys nobody holds. The mutant is one map instead of many.

FALSE_ALARM: 1e-3 for each count of runs, against the 5 % that is promised, under the fixed
seed; the share of intervals is over millions of keys, and is given a hundredth. So few runs of
one design cannot tell whether 93 or 95 % of them hold; those of all designs together can.

`--whole` makes twenty times as many runs, of all designs. They take hours on two cores, and
docs/explanation/how-it-works.md has the result:
    pytest tests/statistical/test_alike.py --whole -n 2 -rP
"""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from faintly import make_plan
from faintly.core import VectorBatch
from faintly.data import cut, to_vectors, true_means
from tests.statistical.readers import reader_of

RUNS = 10
FEWER_RUNS = 4  # where the same tables are read by another form, or each takes seconds
WHOLE_TIMES = 20  # as many of all with --whole
PROMISED = 0.05
FALSE_ALARM = 1e-3
CLOSE = 0.01  # of the share of intervals that hold


@dataclass
class Seen:
    """What several collections about the same people showed."""

    runs: int = 0
    false: int = 0  # with a significant key that nobody holds
    false_share: float = 0.0  # of significant rows under fdr, summed over runs
    covered: int = 0  # with all keys in their simultaneous intervals
    held: int = 0
    asked: int = 0  # intervals of keys that nobody holds, and how many of them hold

    def add(self, reader, truth):
        every, nobody = reader.estimate_all(), truth == 0
        for control in ("family", "fdr"):
            top = reader.top(200, control=control)
            wrong = sum(truth[key] == 0 for key in np.array(top.estimates.keys)[top.significant])
            if control == "family":
                self.false += bool(wrong)
            else:
                self.false_share += wrong / max(1, top.significant.sum())
        self.covered += bool(((every.low_all <= truth) & (truth <= every.high_all)).all())
        self.held += int(((every.low <= 0) & (every.high >= 0))[nobody].sum())
        self.asked += int(nobody.sum())
        self.runs += 1

    @property
    def pointwise(self):
        return self.held / self.asked


@pytest.fixture
def times(pytestconfig):
    return WHOLE_TIMES if pytestconfig.option.whole else 1


def observe(vectors, truth, seed, runs, **wanted):
    seen = Seen()
    for run in range(runs):
        salt = np.random.default_rng([seed, run]).bytes(16)
        plan = make_plan(clients=len(vectors), universe=len(truth), salt=salt, **wanted)
        seen.add(reader_of(plan, vectors, seed, run), truth)
    return seen


def binomial_limit(runs, chance, false_alarm):
    """Return the least count that so many tries reach with at most this probability."""
    return int(stats.binom.isf(false_alarm, runs, chance)) + 1


def judge(seen):
    print(seen, f"pointwise={seen.pointwise:.4f}")  # noqa: T201
    limit = binomial_limit(seen.runs, PROMISED, FALSE_ALARM)
    assert seen.false < limit, seen
    assert seen.false_share < limit, seen
    assert seen.covered > seen.runs - limit, seen
    assert abs(seen.pointwise - 0.95) < CLOSE, seen


def same(clients, items, size):
    """Return clients that all hold the same keys, and the true means."""
    held = np.sort(np.random.default_rng(items).choice(size, items, replace=False))
    truth = np.zeros(size)
    truth[held] = 1.0
    ids = np.tile(held.astype(np.uint64), clients)
    return VectorBatch(np.arange(clients + 1) * items, ids, np.ones(len(ids))), truth


def likely(clients, items, size, chance):
    """Return clients that hold each of a few keys with the same chance."""
    source = np.random.default_rng(items)
    keys = np.sort(source.choice(size, items, replace=False))
    has = source.random((clients, items)) < chance
    truth = np.zeros(size)
    truth[keys] = has.mean(axis=0)
    ids = np.broadcast_to(keys.astype(np.uint64), has.shape)[has]
    offsets = np.concatenate([[0], np.cumsum(has.sum(axis=1))])
    return VectorBatch(offsets, ids, np.ones(len(ids))), truth


LONG, WHOLE = pytest.mark.long, pytest.mark.whole

EVENT = {"protect": "event", "epsilon": 1.0}
TABLE = {"decode": "table"}
USER = {"protect": "user", "mechanism": "projection-choice"}


@pytest.mark.long
def test_one_map_shows_ghosts_and_many_do_not(seed):
    """The first row below, and the mutant where it shows in every run."""
    people, truth = same(20_000, 14, 8_192)
    judge(observe(people, truth, seed, RUNS, sparsity=14, **EVENT, **TABLE))
    people, truth = same(20_000, 14, 65_536)
    one = {"mechanism": "retrieval", "maps": 1, "bits": 22}
    seen = observe(people, truth, seed, FEWER_RUNS, sparsity=14, **EVENT, **one)
    limit = binomial_limit(FEWER_RUNS, PROMISED, FALSE_ALARM)
    assert seen.false >= limit, seen
    assert seen.covered <= FEWER_RUNS - limit, seen


def test_people_who_hold_more_than_planned_are_alike(seed):
    """Retrieval takes any number of items, so that a plan for two must count on ghosts too."""
    people, truth = same(20_000, 5, 1_000)
    seen = observe(people, truth, seed, RUNS, sparsity=2, **EVENT, **TABLE)
    assert seen.false < binomial_limit(RUNS, PROMISED, FALSE_ALARM), seen
    assert abs(seen.pointwise - 0.95) < CLOSE, seen


@pytest.mark.parametrize(
    ("items", "size"),
    [
        pytest.param(14, 8_192, marks=WHOLE, id="small"),  # as many runs as above
        pytest.param(14, 65_536, marks=LONG, id="large"),
        pytest.param(32, 65_536, marks=LONG, id="blocks"),
    ],
)
def test_all_hold_the_same(items, size, seed, times):
    people, truth = same(20_000, items, size)
    judge(observe(people, truth, seed, RUNS * times, sparsity=items, **EVENT))


@pytest.mark.long
def test_many_hold_the_same_few(seed, times):
    people, truth = likely(100_000, 10, 65_536, 0.6)
    judge(observe(people, truth, seed, RUNS * times, sparsity=14, **EVENT))


@pytest.mark.parametrize(
    ("items", "size", "epsilon"),
    [
        pytest.param(6, 8_192, 4.0, marks=LONG),
        pytest.param(14, 8_192, 4.0, marks=LONG),
        pytest.param(32, 8_192, 1.0, marks=LONG),
        pytest.param(64, 8_192, 1.0, marks=LONG),
        pytest.param(6, 8_192, 1.0, marks=WHOLE),
        pytest.param(14, 8_192, 1.0, marks=WHOLE),
        pytest.param(32, 8_192, 4.0, marks=WHOLE),
        pytest.param(64, 8_192, 4.0, marks=WHOLE),
        pytest.param(14, 65_536, 1.0, marks=WHOLE),
        pytest.param(14, 65_536, 4.0, marks=WHOLE),
        pytest.param(32, 65_536, 1.0, marks=WHOLE),
        pytest.param(32, 65_536, 4.0, marks=WHOLE),
    ],
)
def test_all_hold_the_same_at_user_level(items, size, epsilon, seed, times):
    people, truth = same(20_000, items, size)
    wanted = {"sparsity": items, "epsilon": epsilon, **USER, **TABLE}
    judge(observe(people, truth, seed, RUNS * times, **wanted))


@WHOLE
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_many_hold_the_same_few_at_user_level(epsilon, seed, times):
    people, truth = likely(100_000, 10, 65_536, 0.6)
    wanted = {"sparsity": 14, "epsilon": epsilon, **USER, **TABLE}
    judge(observe(people, truth, seed, RUNS * times, **wanted))


SETS = {"protect": "user", "values": "set", "mechanism": "projection-choice", "form": "unsigned"}


# Hits are whole, so that tails hold less than 2.5 %: of a Poisson law of mean 2.5, 1.4 % and none.
FEW_HITS = 0.99


@pytest.mark.long
def test_sets_of_one_map_show_ghosts(seed):
    """The mutant of the test below: codes that share a row with a held key never have its bin."""
    people, truth = same(20_000, 6, 4_096)
    wanted = {"epsilon": 4.0, "sparsity": 6, "maps": 1, "bits": 12, "bins": 4, **SETS}
    seen = observe(people, truth, seed, RUNS, **wanted)
    assert seen.covered <= RUNS - binomial_limit(RUNS, PROMISED, FALSE_ALARM), seen


def corners(*chosen):
    """Parametrize by sparsity and epsilon: the chosen ones in CI, all with --whole."""
    every = itertools.product((6, 14, 32), (1.0, 2.0, 4.0))
    cases = [pytest.param(*one, marks=LONG if one in chosen else WHOLE) for one in every]
    return pytest.mark.parametrize(("items", "epsilon"), cases)


@corners((6, 4.0), (14, 2.0), (32, 1.0))
def test_all_hold_the_same_set(items, epsilon, seed, times):
    """Readings are coins of few hits, so that intervals hold a little more often than promised."""
    people, truth = same(20_000, items, 8_192)
    wanted = {"epsilon": epsilon, "sparsity": items, **SETS, **TABLE}
    seen = observe(people, truth, seed, runs=FEWER_RUNS * times, **wanted)
    limit = binomial_limit(seen.runs, PROMISED, FALSE_ALARM)
    assert seen.false < limit, seen
    assert seen.false_share < limit, seen
    assert seen.covered > seen.runs - limit, seen
    assert 0.95 - CLOSE < seen.pointwise < FEW_HITS, seen


EVENT_SETS = {"protect": "event", "values": "set", "mechanism": "orthogonal"}


@pytest.mark.long
def test_all_hold_the_same_set_of_events(seed):
    """Long rows read true, and one map of a table shows ghosts of two keys."""
    people, truth = same(10_000, 6, 4_096)
    own = {"epsilon": 2.0, "sparsity": 6, **EVENT_SETS}
    judge(observe(people, truth, seed, RUNS, decode="direct", **own))
    one = {"decode": "table", "maps": 1, "rows": 2, "bits": 16, "blocks": 1}
    seen = observe(people, truth, seed, RUNS, **one, **own)
    assert seen.covered <= RUNS - binomial_limit(RUNS, PROMISED, FALSE_ALARM), seen


@corners((6, 4.0), (14, 2.0), (32, 1.0))
def test_all_hold_the_same_set_of_events_read_directly(items, epsilon, seed, times):
    people, truth = same(20_000, items, 8_192)
    wanted = {"epsilon": epsilon, "sparsity": items, "decode": "direct", **EVENT_SETS}
    judge(observe(people, truth, seed, runs=FEWER_RUNS * times, **wanted))


@pytest.mark.long
@pytest.mark.parametrize(("items", "epsilon"), [(6, 0.5), (6, 1.0), (14, 0.5), (14, 1.0)])
def test_all_hold_the_same_set_of_events_in_tables(items, epsilon, seed, times):
    """Where tables can keep the rules: no ghost above 0.3 standard errors."""
    people, truth = same(20_000, items, 8_192)
    wanted = {"epsilon": epsilon, "sparsity": items, **TABLE, **EVENT_SETS}
    judge(observe(people, truth, seed, runs=FEWER_RUNS * times, **wanted))


@pytest.mark.long
@pytest.mark.parametrize(("items", "epsilon"), [(6, 4.0), (14, 2.0)])
def test_all_hold_the_same_in_signed_bins(items, epsilon, seed, times):
    """As with sets; who counts hits calls no bin emptier than one of a key that nobody holds."""
    people, truth = same(20_000, items, 8_192)
    bins = {**SETS, "values": "signed", "form": "bins", "share": 0.05}
    wanted = {"epsilon": epsilon, "sparsity": items, **bins, **TABLE}
    seen = observe(people, truth, seed, runs=FEWER_RUNS * times, **wanted)
    limit = binomial_limit(seen.runs, PROMISED, FALSE_ALARM)
    assert seen.false < limit, seen
    assert seen.false_share < limit, seen
    assert seen.covered > seen.runs - limit, seen
    assert 0.95 - CLOSE < seen.pointwise < FEW_HITS, seen


@pytest.mark.long
@pytest.mark.parametrize(
    ("items", "epsilon"), [(6, 4.0), (14, 4.0)], ids=["strong ghosts", "many ghosts"]
)
def test_one_map_shows_ghosts_at_user_level(items, epsilon, seed):
    """The mutant of the test above, where ghosts are large: at epsilon 1 noise hides them."""
    people, truth = same(20_000, items, 8_192)
    wanted = {"epsilon": epsilon, "sparsity": items, "maps": 1, "bits": 16, **USER}
    seen = observe(people, truth, seed, RUNS, **wanted)
    assert seen.covered <= RUNS - binomial_limit(RUNS, PROMISED, FALSE_ALARM), seen


@pytest.mark.parametrize(
    ("unit", "epsilon"),
    [
        pytest.param({"protect": "event"}, 1.0, marks=LONG, id="event"),
        pytest.param(USER, 1.0, marks=LONG, id="user"),
        pytest.param(USER, 4.0, marks=WHOLE, id="user, epsilon 4"),
    ],
)
def test_a_click_stream(unit, epsilon, seed, records, times):
    """Real clients, cut to the sparsity: what they hold beyond it is another matter."""
    wanted = {"epsilon": epsilon, "sparsity": 32, **unit, **TABLE}
    plan = make_plan(clients=100_000, universe=23_496, **wanted)
    people, _ = cut(to_vectors(records("kosarak100k"), plan), 32, np.random.default_rng(1))
    truth = true_means(people, np.arange(23_496, dtype=np.uint64))
    judge(observe(people, truth, seed, RUNS * times, **wanted))
