"""Merging is associative and commutative, with the empty sketch as its identity."""

from functools import reduce

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from faintly.core import ReportBatch, Sketch
from faintly.engine import Reader, aggregate, merge_all
from faintly.mechanisms import mechanism_of
from spec.generator import cases
from spec.generator.vectors import plan_of, sketch_bytes

PLANS = {name: plan_of(name) for name in cases.PLANS}
names = st.sampled_from(sorted(PLANS))


@st.composite
def batches(draw, plan):
    layout = mechanism_of(plan).layout
    count = draw(st.integers(0, 4))
    seeds = [draw(st.integers(0, 256**layout.seed_bytes - 1)) for _ in range(count)]
    fields = [[draw(st.integers(0, limit - 1)) for limit in layout.limits] for _ in range(count)]
    shaped = np.array(fields, dtype=np.uint32).reshape(count, len(layout.widths))
    return ReportBatch(plan.digest, np.array(seeds, dtype=np.uint64), shaped)


def three(data, plan):
    return [aggregate(plan, [data.draw(batches(plan))]) for _ in range(3)]


@given(names, st.data())
def test_merging_is_associative_and_commutative(name, data):
    plan = PLANS[name]
    a, b, c = three(data, plan)
    empty = mechanism_of(plan).tables.empty_sketch()
    assert a.merge(b) == b.merge(a)
    assert a.merge(b.merge(c)) == a.merge(b).merge(c)
    assert a.merge(empty) == a == empty.merge(a)


@given(names, st.data())
def test_merging_is_adding(name, data):
    plan = PLANS[name]
    a, b, _ = three(data, plan)
    both = a.merge(b)
    ids = np.arange(2, dtype=np.uint64)
    assert both.count == a.count + b.count
    assert both.squares == a.squares + b.squares
    left, right = Reader(a).totals(ids), Reader(b).totals(ids)
    assert Reader(both).totals(ids).tolist() == (left + right).tolist()


@given(names, st.data())
def test_merging_equals_counting_all_at_once(name, data):
    plan = PLANS[name]
    first, second = data.draw(batches(plan)), data.draw(batches(plan))
    joined = ReportBatch(
        plan.digest,
        np.concatenate([first.hash_seeds, second.hash_seeds]),
        np.concatenate([first.fields, second.fields]),
    )
    whole = aggregate(plan, [joined])
    assert aggregate(plan, [second, first]) == whole
    assert aggregate(plan, [first]).merge(aggregate(plan, [second])) == whole


@given(names, st.data(), st.integers(1, 3))
def test_a_merge_of_many_forgets_their_order(name, data, threads):
    plan = PLANS[name]
    parts = [
        aggregate(plan, [data.draw(batches(plan))]) for _ in range(data.draw(st.integers(1, 5)))
    ]
    order = data.draw(st.permutations(range(len(parts))))
    wanted = sketch_bytes(reduce(Sketch.merge, parts))
    assert sketch_bytes(merge_all([parts[place] for place in order], threads)) == wanted


@given(names, st.data())
def test_the_order_of_reports_is_forgotten(name, data):
    plan = PLANS[name]
    batch = data.draw(batches(plan))
    order = data.draw(st.permutations(range(len(batch))))
    assert aggregate(plan, [batch.take(np.array(order, dtype=np.int64))]) == aggregate(
        plan, [batch]
    )
