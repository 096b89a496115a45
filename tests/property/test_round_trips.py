"""What is written can be read back, whatever it was."""

import io
import json

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from faintly.core import Hashing, Layout, Plan, ReportBatch, SparseVector, Universe
from faintly.core.privacy import Budget, EventLevel, UserLevel, WithinL1, decimal_text
from faintly.engine import aggregate
from faintly.errors import FaintlyError, InvalidPlan, InvalidVector, Rejected
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1, sketch_v1
from spec.generator import cases, vectors
from spec.generator.vectors import plan_of

DIGEST = bytes(range(16))
PLANS = {name: plan_of(name) for name in cases.PLANS}

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
universes = st.one_of(
    st.integers(1, 2**16).map(Universe.indexed),
    st.lists(texts, min_size=1, max_size=5, unique=True).map(Universe.named),
    st.just(Universe.open()),
)
units = st.one_of(
    st.just(EventLevel()),
    st.just(UserLevel()),
    st.floats(0.001, 2.0).map(WithinL1),
)
fractions = st.floats(1e-12, 0.999)
parameter_values = st.one_of(
    st.integers(0, 2**32), st.none(), texts, st.lists(st.integers(0, 2**32), max_size=3)
)


@st.composite
def plans(draw):
    universe = draw(universes)
    family = draw(st.sampled_from(["linear", "prf", "blake2s"]))
    linear = {"bits": 16, "maps": draw(st.sampled_from([4, 8, 64]))} if family == "linear" else {}
    return Plan(
        unit=draw(units),
        budget=Budget(draw(st.floats(1e-6, 16.0)), draw(st.one_of(st.just(0.0), fractions))),
        sparsity=draw(st.integers(1, 2**20)),
        clients=draw(st.integers(1, 2**40)),
        universe=universe,
        mechanism=draw(texts),
        parameters=draw(st.dictionaries(texts, parameter_values, max_size=4)),
        hashing=Hashing(family=family, **linear),
        decode="direct" if family != "linear" else draw(st.sampled_from(["table", "direct"])),
        salt=draw(st.binary(min_size=16, max_size=16)),
        failure=draw(fractions),
    )


@given(plans())
def test_plans(plan):
    for text in (plan.to_json(), plan.canonical, json.dumps(plan.document())):
        back = Plan.from_json(text)
        assert back == plan
        assert back.canonical == plan.canonical
        assert back.digest == plan.digest


@given(plans(), plans())
def test_plans_that_differ_have_other_names(left, right):
    assert (left.digest == right.digest) == (left == right)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_other_json_is_refused_as_a_plan(document):
    try:
        Plan.from_json(json.dumps(document))
    except InvalidPlan:
        return
    raise AssertionError("nothing of this shape is a plan")


@given(
    st.sampled_from(sorted(cases.BASE)),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers()),
)
def test_a_plan_with_any_field_replaced_is_refused_or_read(name, value):
    text = json.dumps(cases.BASE | {name: value})
    try:
        plan = Plan.from_json(text)
        mechanism_of(plan)
    except FaintlyError:
        return
    assert Plan.from_json(plan.canonical).digest == plan.digest


@given(st.floats(1e-30, 1e15))
def test_decimals_are_exact(number):
    text = decimal_text(number)
    assert float(text) == number
    assert "e" not in text


@st.composite
def layouts(draw):
    widths = draw(st.lists(st.integers(1, 32), min_size=1, max_size=9))
    limits = [draw(st.integers(2 ** (width - 1), 2**width)) for width in widths]
    seed_bytes = draw(st.integers(0, 8))
    return Layout(seed_bytes=seed_bytes, widths=tuple(widths), limits=tuple(limits))


@st.composite
def batches(draw, layout=None, digest=DIGEST):
    layout = draw(layouts()) if layout is None else layout
    count = draw(st.integers(0, 5))
    seeds = [draw(st.integers(0, 256**layout.seed_bytes - 1)) for _ in range(count)]
    fields = [[draw(st.integers(0, limit - 1)) for limit in layout.limits] for _ in range(count)]
    shaped = np.array(fields, dtype=np.uint32).reshape(count, len(layout.widths))
    return layout, ReportBatch(digest, np.array(seeds, dtype=np.uint64), shaped)


def same(left, right):
    return np.array_equal(left.hash_seeds, right.hash_seeds) and np.array_equal(
        left.fields, right.fields
    )


@given(batches())
def test_records(made):
    layout, batch = made
    records = report_v1.pack(batch, layout)
    assert records.shape == (len(batch), layout.record_bytes)
    assert same(report_v1.unpack(records, DIGEST, layout), batch)
    for position in range(len(batch)):
        # The definition: one little-endian integer, first field lowest.
        report, payload, shift = batch[position], 0, 0
        for field, width in zip(report.fields, layout.widths, strict=True):
            payload, shift = payload | field << shift, shift + width
        wanted = report.hash_seed.to_bytes(layout.seed_bytes, "little")
        wanted += payload.to_bytes((shift + 7) // 8, "little")
        assert records[position].tobytes() == wanted
        assert report_v1.encode_report(report, layout) == wanted


@given(layouts(), st.data())
def test_every_record_is_read_back_to_itself_or_refused(layout, data):
    record = data.draw(st.binary(min_size=layout.record_bytes, max_size=layout.record_bytes))
    try:
        batch = report_v1.unpack(np.frombuffer(record, np.uint8)[None, :], DIGEST, layout)
    except Rejected:
        return
    assert all(field < limit for field, limit in zip(batch[0].fields, layout.limits, strict=True))
    assert report_v1.pack(batch, layout).tobytes() == record


@given(batches())
def test_batches(made):
    layout, batch = made
    data = report_v1.encode_batch(batch, layout)
    assert same(report_v1.decode_batch(data, DIGEST, layout), batch)
    assert len(data) == 31 + len(batch) * layout.record_bytes


@given(layouts(), st.data())
def test_files_of_batches(layout, data):
    parts = data.draw(st.lists(batches(layout=layout), min_size=1, max_size=3))
    stream = io.BytesIO(b"".join(report_v1.encode_batch(part, layout) for _, part in parts))
    found = list(report_v1.read_batches(stream, DIGEST, layout))
    assert len(found) == len(parts)
    assert all(same(left, right) for left, (_, right) in zip(found, parts, strict=True))


@given(batches(), st.data())
def test_damage_is_noticed(made, data):
    layout, batch = made
    good = report_v1.encode_batch(batch, layout)
    start = data.draw(st.integers(0, len(good) - 1))
    patch = data.draw(st.binary(min_size=1, max_size=4))
    bad = good[:start] + patch + good[start + len(patch) :]
    assume(bad != good)
    try:
        report_v1.decode_batch(bad, DIGEST, layout)
    except Rejected:
        return
    raise AssertionError("damaged bytes were read")


@given(st.binary(max_size=80))
def test_noise_is_refused(data):
    plan = PLANS["event-one-bin"]
    for read in (
        lambda: report_v1.decode_batch(data, plan.digest, mechanism_of(plan).layout),
        lambda: sketch_v1.decode_sketch(data, lambda plan: mechanism_of(plan).tables.sketch_shape),
    ):
        try:
            read()
        except Rejected:
            continue
        raise AssertionError("random bytes were read")


@given(st.sampled_from(sorted(PLANS)), st.data())
def test_sketches(name, data):
    plan = PLANS[name]
    layout = mechanism_of(plan).layout
    _, batch = data.draw(batches(layout=layout, digest=plan.digest))
    sketch = aggregate(plan, [batch])
    written = vectors.sketch_bytes(sketch)
    back = sketch_v1.decode_sketch(written, lambda plan: mechanism_of(plan).tables.sketch_shape)
    assert back == sketch
    assert vectors.sketch_bytes(back) == written


@given(st.dictionaries(st.integers(0, 2**64 - 1), st.floats(-1, 1)))
def test_vectors_do_not_depend_on_the_order_of_their_items(items):
    vector = SparseVector(np.array(list(items), np.uint64), list(items.values()))
    again = SparseVector(np.array(list(items)[::-1], np.uint64), list(items.values())[::-1])
    held = {item: value for item, value in items.items() if value != 0}
    assert dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True)) == held
    assert vector.indices.tolist() == again.indices.tolist() == sorted(held)
    assert vector.values.tolist() == again.values.tolist()


@given(st.lists(st.one_of(st.floats(), st.just(0.5)), min_size=1, max_size=5))
def test_values_outside_are_refused_by_their_first_position(values):
    bad = [position for position, value in enumerate(values) if not -1 <= value <= 1]
    if not bad:
        held = [value for value in values if value != 0]
        assert SparseVector(range(len(values)), values).values.tolist() == held
        return
    with pytest.raises(InvalidVector) as caught:
        SparseVector(range(len(values)), values)
    assert str(caught.value) == f"value at position {bad[0]} is outside [-1, 1]"
