"""Sketches merge, compare, and refuse another plan's."""

import numpy as np
import pytest

from faintly.core import ReportBatch
from faintly.core.report import Layout, fields_below
from faintly.engine import aggregate
from faintly.errors import Reject, SketchRejected
from faintly.mechanisms import mechanism_of
from spec.generator import cases, vectors
from spec.generator.vectors import plan_of


@pytest.mark.parametrize("name", sorted(cases.PLANS))
def test_the_empty_sketch_is_the_identity(name):
    full = vectors.some_sketch(name)
    empty = mechanism_of(full.plan).tables.empty_sketch()
    assert empty.count == 0
    assert full.merge(empty) == full == empty.merge(full)
    assert empty.merge(empty) == empty
    assert full != empty
    assert full.merge(full).count == 2 * full.count


def test_another_plan_is_refused():
    with pytest.raises(SketchRejected) as caught:
        vectors.some_sketch("event-two-bins").merge(vectors.some_sketch("event-two-bins-direct"))
    assert caught.value.code == Reject.OTHER_PLAN


def test_a_sketch_compares_by_content():
    sketch = vectors.some_sketch("event-prf")
    assert sketch == vectors.some_sketch("event-prf")
    assert sketch != vectors.some_sketch("event-prf", 2)
    assert sketch != "sketch"


def test_reports_come_back_in_parts():
    sketch = vectors.some_sketch("event-prf", 7)
    parts = list(sketch.batches(3))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert (
        np.concatenate([part.hash_seeds for part in parts]).tolist() == sketch.hash_seeds.tolist()
    )
    assert aggregate(sketch.plan, parts) == sketch
    assert not list(vectors.some_sketch("event-prf", 0).batches(3))


def test_layouts_count_bits():
    assert fields_below(911, 1, 5) == Layout(seed_bytes=5, widths=(10,), limits=(911,))
    assert fields_below(1, 3, 0).payload_bits == 3
    assert fields_below(1024, 3, 5).record_bytes == 9
    assert fields_below(1025, 3, 5).record_bytes == 10


def test_reports_are_rows_of_a_batch():
    plan = plan_of("event-prf")
    batch = vectors.some_reports(mechanism_of(plan), 4)
    assert batch[2].fields == tuple(batch.fields[2].tolist())
    assert len(batch.take(slice(1, 3))) == 2
    halves = [batch.take(slice(0, 1)), batch.take(np.array([3, 1, 2]))]
    assert aggregate(plan, halves) == aggregate(plan, [batch])
    assert isinstance(batch.take(slice(0)), ReportBatch)
