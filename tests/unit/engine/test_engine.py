"""From reports to answers: any split gives the same integers, and lists say what is noise."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from faintly.client import randomize_all
from faintly.core import ReportBatch, SparseVector, VectorBatch
from faintly.engine import Aggregator, Reader, aggregate, answers
from faintly.errors import InvalidInput, Reject, ReportRejected, UnknownKey
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded
from spec import independent
from spec.generator import cases, vectors
from spec.generator.vectors import plan_of
from tests.every import every
from tests.unit.engine.samples import reports_of

EVERY = pytest.mark.parametrize("name", sorted(cases.PLANS))


def some_ids(plan):
    return np.arange(min(plan.universe.size or 5, 5), dtype=np.uint64)


@EVERY
@every("cuts", [[], [1], [0, 5], [3, 3, 7], list(range(1, 12))])
def test_any_split_equals_all_at_once(name, cuts):
    plan, batch = plan_of(name), reports_of(name, 12)
    whole = aggregate(plan, [batch])
    edges = [0, *cuts, 12]
    parts = [batch.take(slice(a, b)) for a, b in itertools.pairwise(edges)]
    assert aggregate(plan, parts) == whole
    assert aggregate(plan, parts[::-1]) == whole
    merged = aggregate(plan, [])
    for part in parts[::-1]:
        merged = merged.merge(aggregate(plan, [part]))
    assert merged == whole
    ids = some_ids(plan)
    assert Reader(merged).totals(ids).tolist() == Reader(whole).totals(ids).tolist()
    document = cases.document(name)
    pairs = list(zip(batch.hash_seeds.tolist(), batch.fields.tolist(), strict=True))
    wanted = [independent.total(document, pairs, item) for item in ids.tolist()]
    assert Reader(whole).totals(ids).tolist() == wanted


@pytest.mark.long
@EVERY
@every("readings", [1, 30])
def test_keys_that_are_read_some_at_a_time_give_the_same_integers(name, readings, monkeypatch):
    plan, batch = plan_of(name), reports_of(name, 12)
    sketch, ids, calls = aggregate(plan, [batch]), some_ids(plan), []
    wanted = Reader(sketch).totals(ids).tolist()
    plainly = Reader(sketch).estimate_ids(ids, ids)
    monkeypatch.setattr(answers, "READINGS", readings)
    monkeypatch.setattr(answers, "WATCHED", 5)
    watched = Reader(sketch).watched(lambda: calls.append(1))
    assert watched.totals(ids).tolist() == wanted
    assert (len(calls) > 1) == (plan.decode == "direct")
    watchfully = watched.estimate_ids(ids, ids)
    for name_of, column in plainly.columns().items():
        assert list(watchfully.columns()[name_of]) == list(column), name_of


@pytest.mark.parametrize("name", [name for name in sorted(cases.PLANS) if "direct" in name])
def test_variances_are_watched_as_well(name, monkeypatch):
    """Those of some mechanisms read all reports again."""
    monkeypatch.setattr(answers, "READINGS", 1)
    plan = plan_of(name)
    sketch, ids, calls = aggregate(plan, [reports_of(name, 12)]), some_ids(plan), []
    reader = Reader(sketch).watched(lambda: calls.append(1))
    reader.totals(ids)
    read = len(calls)
    reader.estimate_ids(ids, ids)
    assert len(calls) == 2 * read + len(ids)


@EVERY
@every("size", [2**22, 24])
def test_simulated_totals_are_those_of_the_reports_that_are_made(name, size, monkeypatch):
    """One block of reports, or several: `size` fields are held at once."""
    monkeypatch.setattr("faintly.mechanisms.simulation.SIMULATED_FIELDS", size)
    plan = plan_of(name)
    mechanism, ids = mechanism_of(plan), some_ids(plan)
    each = max(1, size // len(mechanism.layout.widths))
    monkeypatch.setattr("faintly.client.bulk.BATCH_REPORTS", each)
    clients = VectorBatch.of([SparseVector(ids[: count % 3]) for count in range(50)])
    sources = lambda: (seeded(1, "public"), seeded(1, "secret"))  # noqa: E731
    sketch = aggregate(plan, randomize_all(plan, clients, *sources()))
    wanted = Reader(sketch).totals(ids).tolist()
    assert mechanism.simulation.totals(clients, ids, *sources()).tolist() == wanted
    empty = VectorBatch.of([])
    assert not mechanism.simulation.totals(empty, ids, *sources()).any()


@pytest.mark.parametrize("name", ["event-two-bins", "event-open"])
def test_table_and_direct_agree_integer_for_integer(name):
    table, direct = plan_of(name), plan_of(f"{name}-direct")
    batch = reports_of(name, 40)
    moved = ReportBatch(direct.digest, batch.hash_seeds, batch.fields)
    left = Reader(aggregate(table, [batch]))
    right = Reader(aggregate(direct, [moved]))
    ids = some_ids(table)
    assert left.totals(ids).tolist() == right.totals(ids).tolist()
    assert left.sketch.squares == right.sketch.squares
    assert left.sketch.reports.tolist() == right.sketch.reports.tolist()


def test_a_sketch_does_not_change_when_more_reports_arrive():
    for name in ("event-two-bins", "event-prf"):
        plan, batch = plan_of(name), reports_of(name, 4)
        aggregator = Aggregator(plan)
        aggregator.add(batch.take(slice(2)))
        before = aggregator.sketch()
        aggregator.add(batch.take(slice(2, 4)))
        assert before == aggregate(plan, [batch.take(slice(2))])
        assert aggregator.sketch() == aggregate(plan, [batch])


def test_reports_in_columns_of_another_memory_order_count_the_same():
    plan, batch = plan_of("event-two-bins"), reports_of("event-two-bins", 4)
    fortran = ReportBatch(plan.digest, batch.hash_seeds, np.asfortranarray(batch.fields))
    assert aggregate(plan, [fortran]) == aggregate(plan, [batch])


def test_another_plans_reports_are_refused():
    with pytest.raises(ReportRejected) as caught:
        aggregate(plan_of("event-one-bin"), [reports_of("user-clip", 2)])
    assert caught.value.code == Reject.OTHER_PLAN


@EVERY
def test_no_reports_have_no_answer(name):
    reader = Reader(aggregate(plan_of(name), []))
    key = 0 if reader.sketch.plan.universe.names is None else "ash"
    with pytest.raises(InvalidInput, match="no reports yet"):
        reader.estimate([key])


def test_unknown_keys_and_open_lists_are_refused():
    with pytest.raises(UnknownKey, match="'oak'"):
        Reader(vectors.some_sketch("event-two-bins")).estimate(["oak"])
    reader = Reader(vectors.some_sketch("event-open"))
    with pytest.raises(InvalidInput, match="cannot be listed"):
        reader.estimate_all()
    with pytest.raises(InvalidInput, match="cannot be listed"):
        reader.top(3)
    with pytest.raises(InvalidInput, match="confidence level"):
        Reader(reader.sketch, level=0.0)


def clients_holding(plan, keys, holders, count, label):
    vectors_ = [plan.vector(keys)] * holders + [SparseVector([])] * (count - holders)
    public, secret = seeded(1, f"public {label}"), seeded(1, f"secret {label}")
    return list(randomize_all(plan, VectorBatch.of(vectors_), public, secret))


@pytest.fixture(scope="module")
def popular():
    """2000 clients, of whom 1600 hold the keys 3 and 7 of ten."""
    plan = plan_of("event-one-bin")
    return Reader(aggregate(plan, clients_holding(plan, [3, 7], 1600, 2000, "popular")))


def test_estimates_of_all_keys_are_estimates_of_each(popular):
    every = popular.estimate_all()
    some = popular.estimate([7, 3])
    assert some.mean.tolist() == [every.mean[7], every.mean[3]]
    assert abs(every.mean[3] - 0.8) < 6 * every.stderr[3]
    assert popular.estimate(np.array([7, 3])).keys == [7, 3]
    assert len(popular.estimate([])) == 0


def test_all_keys_are_read_from_the_tables_once(popular, monkeypatch):
    """For ghosts, estimates and lists alike: with many maps that is most of an answer's time."""
    read, of = [], type(popular.mechanism.tables)
    gather = of.gather
    monkeypatch.setattr(of, "gather", lambda *case: (read.append(len(case[-1])), gather(*case))[1])
    reader = Reader(popular.sketch)
    every, again = reader.estimate_all(), reader.top(3).estimates
    assert read == [len(every)]
    assert again.mean[0] == every.mean.max()
    assert reader.estimate([3]).mean[0] == every.mean[3]


@pytest.mark.parametrize("control", ["family", "fdr"])
def test_a_top_list_tells_signal_from_noise(popular, control):
    top = popular.top(5, control=control)
    assert set(list(top.estimates.keys)[:2]) == {3, 7}
    assert top.significant[:2].all()
    assert not top.significant[2:].any()
    assert (np.diff(top.estimates.mean) <= 0).all()
    assert (top.compared, top.control, top.false_rate) == (10, control, 0.05)


def test_fewer_comparisons_need_less(popular):
    alone = popular.top(1, candidates=[3])
    assert alone.threshold < popular.top(1).threshold
    assert popular.top(1, false_rate=0.5).threshold < popular.top(1).threshold
    assert popular.top(99).compared == len(popular.top(99).estimates) == 10
    assert len(popular.top(3, candidates=[]).estimates) == 0


def test_fdr_finds_at_least_what_family_finds(popular):
    family, fdr = popular.top(10), popular.top(10, control="fdr")
    assert (fdr.significant | ~family.significant).all()


def test_fdr_of_pure_noise_may_find_nothing():
    plan = plan_of("event-one-bin")
    reader = Reader(aggregate(plan, clients_holding(plan, [], 0, 500, "noise")))
    top = reader.top(10, control="fdr", false_rate=1e-6)
    assert top.threshold == math.inf
    assert not top.significant.any()


def by_definition(reader, false_rate):
    """Return how many keys the step-up procedure accepts."""
    every = reader.estimate_all()
    tails = sorted(math.erfc(m / every.null_stderr / math.sqrt(2)) / 2 for m in every.mean)
    passing = [i + 1 for i, tail in enumerate(tails) if tail <= false_rate * (i + 1) / len(tails)]
    return max(passing, default=0)


@every("run", range(30))
def test_the_key_at_the_fdr_threshold_is_significant(run):
    """The threshold is a key's own mean, so rounding must not push that key below it."""
    plan = plan_of("event-one-bin")
    reader = Reader(aggregate(plan, clients_holding(plan, [3, 7], 150 + run, 400, f"fdr {run}")))
    top = reader.top(10, control="fdr")
    assert top.significant.sum() == by_definition(reader, 0.05)


@every("arguments", [{"control": "luck"}, {"count": 0}, {"count": -1}])
def test_impossible_lists(popular, arguments):
    with pytest.raises(InvalidInput):
        popular.top(**{"count": 3, **arguments})


@every("false_rate", [0.0, 1.0, -0.5, 2.0, float("nan")])
@every("control", ["family", "fdr"])
def test_impossible_false_rates(popular, false_rate, control):
    with pytest.raises(InvalidInput):
        popular.top(3, control=control, false_rate=false_rate)


def collided(plan, keys):
    """Return a heavy key, and another that shares its code in exactly one map."""
    document = cases.document("event-open")
    codes = {}
    for key in keys:
        item = int(plan.ids([key])[0])
        codes[key] = [independent.code(document, item, j) for j in range(4)]
    for heavy in keys:
        for other in keys:
            shared = sum(a == b for a, b in zip(codes[heavy], codes[other], strict=True))
            if heavy != other and shared == 1:
                return heavy, other
    raise AssertionError("no collision among these keys")


def test_a_collision_in_one_map_does_not_stand_out():
    plan = plan_of("event-open")
    keys = [f"key {number}" for number in range(30)]
    heavy, ghost = collided(plan, keys)
    sketch = aggregate(plan, clients_holding(plan, [heavy], 4000, 4000, "collision"))
    top = Reader(sketch).top(2, candidates=[heavy, ghost])
    assert top.estimates.keys == [heavy, ghost]
    null = mechanism_of(plan).variance(sketch, None, np.zeros(1))[0]
    alone = top.estimates.mean[1] * math.sqrt(4000 / null)
    assert abs(alone) > 5, "the collision must look significant"
    assert top.significant.tolist() == [True, False]


def test_verdicts():
    reader = Reader(vectors.some_sketch("event-open", 8))
    top = reader.top(3, candidates=["a", "b", "c"])
    verdicts = ((True, 9.0, "yes"), (False, 0.0, "no"), (False, 9.0, "one map"))
    for significant, mean, said in verdicts:
        row = replace(top.estimates, mean=np.full(3, mean) * top.threshold)
        found = replace(top, estimates=row, significant=np.full(3, significant))
        assert found.verdicts == [said] * 3


def by_capping(reader, item):
    """Return the score of an id, its largest map counted for 0.3 standard errors at most."""
    mechanism, sketch = reader.mechanism, reader.sketch
    (batch,) = sketch.batches(10**6)
    maps = mechanism.tables.map_of(batch)
    own = [
        mechanism.read(batch.take(maps == one), np.array([item]))[0]
        for one in range(len(sketch.reports))
    ]
    unit = math.sqrt(mechanism.variance(sketch, None, np.zeros(1))[0] * len(batch))
    unit /= mechanism.scale
    largest = max(own)
    return (sum(own) - largest + min(largest, math.floor(0.3 * unit))) / unit


def test_one_map_adds_little_to_a_score():
    table, direct = plan_of("event-open"), plan_of("event-open-direct")
    batch = reports_of("event-open", 60)
    left = Reader(aggregate(table, [batch]))
    right = Reader(aggregate(direct, [replace(batch, plan_digest=direct.digest)]))
    ids = np.arange(7, dtype=np.uint64)
    wanted = [by_capping(right, item) for item in ids]
    np.testing.assert_allclose(left.estimate_ids(ids, ids).score, wanted, rtol=1e-12)
    np.testing.assert_allclose(right.estimate_ids(ids, ids).score, wanted, rtol=1e-12)


def test_one_map_alone_proves_nothing():
    """With a single report all but one map are empty, and one map proves nothing."""
    reader = Reader(vectors.some_sketch("event-open", 1))
    assert reader.estimate(["a"]).score[0] <= 0.3
    assert not reader.top(1, candidates=["a"], false_rate=0.3).significant.any()


@pytest.mark.parametrize("name", ["squeeze", "event-one-bin"])
def test_keys_that_no_other_is_in_the_way_of_count_in_full(name):
    found = Reader(vectors.some_sketch(name, 8)).estimate([0, 1])
    np.testing.assert_allclose(found.score, found.mean / found.null_stderr)


def test_a_million_keys_are_asked_at_once():
    reader = Reader(vectors.some_sketch("projection-open", 50))
    keys = range(10**6)
    found = reader.estimate_ids(np.arange(10**6, dtype=np.uint64), keys)
    assert found.keys is keys
    assert len(found) == 10**6
    some = np.array([0, 65_535, 65_536, 999_999], dtype=np.uint64)
    few = reader.estimate_ids(some, some.tolist())
    for column in ("mean", "stderr", "score", "low", "high"):
        assert getattr(found, column)[some].tolist() == getattr(few, column).tolist()


def test_a_sketch_without_reports_is_empty():
    plan = plan_of("event-prf")
    empty = mechanism_of(plan).tables.empty_sketch()
    assert aggregate(plan, []) == empty
    assert aggregate(plan, [reports_of("event-prf", 3).take(slice(0))]) == empty


def test_simultaneous_intervals_of_a_top_list_cover_what_was_chosen():
    """Nobody holds anything: the 20 largest of 2,000 keys must all be covered, 95 % of the time.

    In 40 runs fewer than 28 would do so with probability 5e-7. Intervals over the 20 rows alone,
    the mutant, practically never cover: the largest of 2,000 lies beyond them.
    """
    plan = make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=1,
        clients=2000,
        universe=2000,
        mechanism="retrieval",
        salt=bytes(16),
    )
    empty = VectorBatch.of([]).padded(2000)
    covered = narrow = 0
    for run in range(40):
        reports = randomize_all(plan, empty, seeded(run, "public"), seeded(run, "secret"))
        top = Reader(aggregate(plan, reports)).top(20).estimates
        covered += bool((top.low_all <= 0).all())
        narrow += bool((replace(top, compared=20).low_all <= 0).all())
    assert covered >= 28
    assert narrow < 10


def test_answers_say_what_biases_them():
    """More reports than planned, and too few maps for them: ghosts grow with the root."""
    wanted = {"protect": "event", "epsilon": 1.0, "sparsity": 4, "universe": 64}
    plan = make_plan(**wanted, clients=50, mechanism="retrieval", decode="table", salt=bytes(16))
    people = VectorBatch.of([]).padded(20_000)
    reports = list(randomize_all(plan, people, seeded(1, "public"), seeded(1, "secret")))
    (note,) = Reader(aggregate(plan, reports)).estimate([0]).notes
    assert "expected 50 reports" in note
    few = aggregate(plan, [reports[0].take(slice(50))])
    assert Reader(few).estimate([0]).notes == ()
