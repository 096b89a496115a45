"""Tables in pieces add up to the sketch of one machine, whatever the cut."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from faintly import Sketch, aggregate
from faintly.core.sketch import table_type
from faintly.engine import Reader
from faintly.errors import ReportRejected
from faintly.mechanisms import mechanism_of
from faintly.spark import pieces
from faintly.spark.pieces import COUNTS, SAMPLE, Adder, Counts
from faintly.spark.query import RemoteReader
from faintly.spark.records import Sifter
from faintly.wire import report_v1
from tests.unit.spark.samples import made_up, plan_of, records

PLANS = {
    "one map": plan_of(maps=1),
    "many maps": plan_of(universe="open", clients=10_000),
    "blocks": plan_of(mechanism="retrieval", sparsity=16, maps=2, bits=12),
    "signed bins": plan_of(mechanism="projection-choice", universe="open"),
}


def added(parts, entries):
    adder = Adder(entries)
    for part in parts:
        for row in part:
            adder.add(*row)
    return dict(adder.rows())


def sketch_of(rows, plan):
    counts = Counts.of(rows.pop(COUNTS)).sketch(plan)
    shape = mechanism_of(plan).tables.shape
    flat = np.zeros(shape[0] * shape[1], dtype=table_type(counts.mass))
    pieces.join(rows.items(), flat)
    return Sketch(plan, counts.reports, counts.squares, counts.mass, flat.reshape(shape))


@pytest.mark.parametrize("memory", [pieces.MEMORY, 0])
@pytest.mark.parametrize("name", PLANS)
def test_partial_tables_add_up(name, memory, monkeypatch):
    """In one step or several, with tables whole or made range by range."""
    monkeypatch.setattr(pieces, "SPAN", 2**12)
    plan, entries = PLANS[name], pieces.entries_of(PLANS[name])
    memory = memory or entries  # a quarter of the tables
    batch = made_up(plan, 6000)
    parts = [
        list(pieces.tabulate(plan, [batch.take(slice(a, a + 1500))], Counter(), memory))
        for a in range(0, 6000, 1500)
    ]
    whole = aggregate(plan, [batch])
    assert sketch_of(added(parts, entries), plan) == whole
    twice = [added(parts[:3], entries).items(), added(parts[3:], entries).items()]
    assert sketch_of(added(twice, entries), plan) == whole
    assert sketch_of(added(parts[1:], entries), plan) != whole  # a lost task would show


def test_wide_integers_survive():
    flat = np.array([1, -(2**40), 0, 7], dtype=np.int64)
    rows = added([pieces.split(flat), pieces.split(flat)], 4)
    out = np.zeros(4, dtype=np.int64)
    pieces.join(rows.items(), out)
    assert out.tolist() == (2 * flat).tolist()


@pytest.mark.parametrize("mechanism", ["signed-binning", "projection-choice", "retrieval-gf"])
def test_scanning_reports_gives_the_estimates_of_a_direct_sketch(mechanism):
    plan = plan_of(
        "direct", mechanism=mechanism, protect="event" if mechanism == "retrieval-gf" else "user"
    )
    batch, ids = made_up(plan, 4000), np.arange(50, dtype=np.uint64)
    parts = [
        pieces.scan(plan, ids, [batch.take(slice(a, a + 1000))], Counter())
        for a in range(0, 4000, 1000)
    ]
    maps = max(1, plan.hashing.maps)
    rows = added(parts, maps * len(ids))
    counts, sample = Counts.of(rows.pop(COUNTS)), rows.pop(SAMPLE)
    values = np.zeros(maps * len(ids), dtype=np.int64)
    pieces.join(rows.items(), values)
    found = values.reshape(maps, -1)
    sums = np.stack([found.sum(axis=0), found.max(axis=0)])
    remote = RemoteReader(
        counts.sketch(plan), lambda _: sums, sample=pieces.sample_sketch(plan, sample)
    )
    here, there = (
        Reader(aggregate(plan, [batch])).estimate_ids(ids, ids),
        remote.estimate_ids(ids, ids),
    )
    assert there.mean.tolist() == here.mean.tolist()
    np.testing.assert_allclose(there.stderr, here.stderr, rtol=1e-12)


def test_a_sample_does_not_depend_on_the_steps(monkeypatch):
    monkeypatch.setattr(pieces, "SAMPLED", 100)
    plan = plan_of("direct", mechanism="signed-binning")
    batch, ids = made_up(plan, 2000), np.zeros(1, dtype=np.uint64)

    def sample(size):
        parts = [
            pieces.scan(plan, ids, [batch.take(slice(a, a + size))], Counter())
            for a in range(0, 2000, size)
        ]
        return {bytes(each) for each in pieces.sample_of(added(parts, 1)[SAMPLE])}

    assert sample(2000) == sample(500) == sample(123)
    assert len(sample(500)) == 100


@pytest.mark.parametrize("name", ["one map", "many maps", "blocks"])
def test_maps_can_be_read_one_by_one(name):
    """What a shard of the cluster computes adds up to what one machine reads."""
    plan = PLANS[name]
    mechanism, ids = mechanism_of(plan), np.arange(300, dtype=np.uint64)
    sketch = aggregate(plan, [made_up(plan, 3000)])
    each = len(sketch.tables) // plan.hashing.maps
    read = [
        mechanism.tables.gather_map(sketch.tables[j * each : (j + 1) * each], ids, j)
        for j in range(plan.hashing.maps)
    ]
    sums = np.array([one[0] for one in read])
    whole = Reader(sketch)
    assert (sums.sum(axis=0) == whole.sums(ids)[0]).all()
    assert (sums.max(axis=0) == whole.sums(ids)[1]).all()
    energy = whole.energy()
    assert sum(one[1] for one in read) == pytest.approx(energy[0])
    assert sum(one[2] for one in read) == energy[1]


def test_records_are_sorted_by_reason():
    """Good records beside bad ones are all counted, whole batches are read, nothing is lost."""
    plan = plan_of(mechanism="signed-binning")
    layout = mechanism_of(plan).layout
    batch = made_up(plan, 50)
    rows = [bytes(record) for record in records(batch, plan)]
    framed = report_v1.encode_batch(batch, layout)
    foreign = report_v1.encode_batch(
        made_up(plan_of(epsilon=2.0), 3), mechanism_of(plan_of(epsilon=2.0)).layout
    )
    high = b"\xff" * layout.record_bytes
    bad = [high, high[:-1], None, b"junk" * 20, foreign, framed[:-1] + bytes([framed[-1] ^ 1])]
    sifter = Sifter(plan, keep=True)
    values = pa.array(rows[:20] + bad + rows[20:] + [framed], pa.binary())
    found = [*sifter.batches(values.slice(3)), *sifter.batches(values.slice(0, 3))]
    assert sum(map(len, found)) == 100
    assert aggregate(plan, found) == aggregate(plan, [batch, batch])
    assert sum(sifter.counts.values()) == len(bad) == len(sifter.refused)
    assert sifter.counts["OTHER_PLAN"] == sifter.counts["BAD_CHECKSUM"] == 1
    assert sifter.counts["BAD_MAGIC"] == 1
    assert sifter.counts["TRUNCATED"] == 2  # one byte short, and no bytes
    assert {data for _, data in sifter.refused} == {each or b"" for each in bad}
    with pytest.raises(ReportRejected):
        list(Sifter(plan, strict=True).batches(values))
