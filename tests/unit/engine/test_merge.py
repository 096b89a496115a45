"""Merging many sketches: the same bytes whatever the order, the threads and the groups."""

import numpy as np
import pytest

from faintly.core import Sketch
from faintly.engine import aggregate, merge, merge_all
from faintly.engine.files import save_sketch
from faintly.errors import InvalidInput, Reject, SketchRejected
from spec.generator import cases, vectors
from spec.generator.vectors import plan_of, sketch_bytes
from tests.unit.engine.samples import reports_of


def parts_of(name, count, parts):
    plan, batch = plan_of(name), reports_of(name, count)
    cut = [batch.take(np.arange(start, count, parts)) for start in range(parts)]
    return aggregate(plan, [batch]), [aggregate(plan, [part]) for part in cut]


@pytest.mark.parametrize("name", sorted(cases.PLANS))
def test_merging_at_once_and_in_groups(name, monkeypatch, tmp_path):
    whole, parts = parts_of(name, 20, 7)
    if whole.tables is not None:
        monkeypatch.setattr(merge, "RANGE", max(5, whole.tables.size // 29))  # the last is shorter
    kept = [sketch_bytes(part) for part in parts]
    wanted = sketch_bytes(whole)
    paths = [tmp_path / str(number) for number in range(len(parts))]
    for part, path in zip(parts, paths, strict=True):
        save_sketch(part, path)
    mixed = [*paths[:3], *parts[3:]]
    for fan_in, threads in ((1, 3), (3, 1), (64, 3)):
        monkeypatch.setattr(merge, "MERGE_FAN_IN", fan_in)
        assert sketch_bytes(merge_all(parts, threads)) == wanted, (fan_in, threads)
        assert sketch_bytes(merge_all(parts[::-1], threads, tmp_path)) == wanted, (fan_in, threads)
        assert sketch_bytes(merge_all(mixed, threads, tmp_path)) == wanted, (fan_in, threads)
    assert [sketch_bytes(part) for part in parts] == kept, "what is merged must not change"
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert merge_all(parts[:1]) == parts[0]


def test_masses_that_widen_on_the_way(monkeypatch):
    monkeypatch.setattr(merge, "MERGE_FAN_IN", 2)
    plan = plan_of("event-coarse")
    most = 2**30
    one = Sketch(plan, np.array([1]), 0, most, tables=np.array([[-most, 0]], np.int32))
    assert merge_all([one]).tables.dtype == np.int32
    for count in (2, 3, 4, 5, 6):
        found = merge_all([one] * count)
        assert found.tables.tolist() == [[-most * count, 0]]
        assert found.tables.dtype == np.int64
        assert found.mass == count * most


def test_what_cannot_be_merged(tmp_path):
    with pytest.raises(InvalidInput, match="at least one"):
        merge_all([])
    with pytest.raises(SketchRejected) as caught:
        merge_all([vectors.some_sketch("event-prf"), vectors.some_sketch("event-coarse")])
    assert caught.value.code == Reject.OTHER_PLAN
    with pytest.raises(InvalidInput, match="cannot read"):
        merge_all([tmp_path / "missing"])
