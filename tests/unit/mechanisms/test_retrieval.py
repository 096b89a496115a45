"""Retrieval: its sizes, its refusals, and its two kernels and two decodings that must agree."""

from dataclasses import replace

import numpy as np
import pytest

from faintly import kernels
from faintly.client import Client
from faintly.core import Plan, ReportBatch, SparseVector, Universe, VectorBatch
from faintly.engine import Reader, aggregate, decode
from faintly.errors import BoundDoesNotApply, InvalidPlan, UnsupportedUnit
from faintly.kernels import reference
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.retrieval import sizes
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded, uniform_seeds
from tests.unit.kernels.helpers import needs_c


def plan_of(**changes) -> Plan:
    wanted = {
        "protect": "event",
        "epsilon": 1.0,
        "sparsity": 6,
        "clients": 1000,
        "universe": 1378,
        "mechanism": "retrieval",
        "decode": "table",
        "salt": bytes(range(16)),
    }
    return make_plan(**(wanted | changes))


def mechanism(**changes):
    return mechanism_of(plan_of(**changes))


def vectors_of(count, items, size, seed=1):
    source = np.random.default_rng(seed)
    return VectorBatch.of(
        [
            SparseVector(source.choice(size, items, replace=False), source.uniform(-1, 1, items))
            for _ in range(count)
        ]
    )


# Sizes and constants.


@pytest.mark.parametrize(
    ("epsilon", "printed"), [(0.5, "16.67"), (1.0, "4.683"), (2.0, "1.724"), (3.0, "1.221")]
)
def test_variance_is_the_note_s_channel(epsilon, printed):
    made = mechanism(epsilon=epsilon)
    assert f"{made.forecast.variance(3.0):.4g}" == printed
    assert made.forecast.variance(0.0) == made.forecast.influence() ** 2
    assert 1 < made.forecast.worst_variance() / made.forecast.variance(0.0) <= 1.02
    assert 0 < made.forecast.largest_ghost() <= 0.3
    alone = mechanism(epsilon=epsilon, decode="direct")
    assert alone.forecast.worst_variance() == alone.forecast.variance(0.0)
    assert alone.forecast.largest_ghost() == 0
    assert epsilon - 1e-8 < made.guarantee().budget.epsilon <= epsilon
    assert made.guarantee().conditions == ()


@pytest.mark.parametrize(
    ("changes", "bits", "blocks", "maps", "bytes_"),
    [
        ({}, 12, 1, 16, 2),  # clothing
        ({"sparsity": 11, "universe": 5850}, 16, 1, 16, 3),  # renting
        ({"sparsity": 14, "universe": 5850}, 19, 1, 16, 3),
        ({"sparsity": 1, "universe": 2**20}, 21, 1, 16, 4),  # people may hold more than planned
        ({"sparsity": 1, "universe": 2**23}, 24, 1, 8, 4),  # 256 MiB
        ({"sparsity": 11, "universe": Universe.open()}, 16, 1, 64, 3),
        ({"sparsity": 15}, 20, 1, 16, 3),
        ({"sparsity": 32, "universe": 23496}, 16, 4, 16, 9),
        ({"sparsity": 32, "universe": 23496, "clients": 100_000}, 17, 4, 128, 10),  # kosarak
        ({"sparsity": 32, "universe": Universe.open()}, 16, 4, 64, 9),
        ({"sparsity": 14, "universe": 65_536, "clients": 1_000_000}, 17, 2, 512, 6),
        ({"sparsity": 14, "universe": 65_536, "clients": 10**8}, 17, 4, 256, 10),  # 256 MiB
        ({"decode": "direct"}, 22, 1, 0, 8),
        ({"decode": "direct", "sparsity": 100}, 116, 1, 0, 20),
        ({"decode": "direct", "sparsity": 100, "max_bytes": 19}, 112, 1, 0, 19),
        ({"decode": "direct", "family": "linear"}, 12, 1, 16, 2),
    ],
    ids=str,
)
def test_sizes(changes, bits, blocks, maps, bytes_):
    made = mechanism(**changes)
    assert (made.bits, made.blocks, made.plan.hashing.maps) == (bits, blocks, maps)
    assert made.layout.record_bytes == bytes_
    assert made.layout.seed_bytes == (0 if maps else 5)
    assert made.forecast.relative_bias() < 2.0**-8
    assert Plan.from_json(made.plan.to_json()).digest == made.plan.digest


def test_relative_bias_is_within_the_dropped_item_bound():
    """At most the mean of 2^(load-1-t), which is (1+1/B)^(k-1)·2^-t over random blocks."""
    for changes in ({}, {"sparsity": 32, "universe": 23496}, {"decode": "direct"}):
        made = mechanism(**changes)
        bound = (1 + 1 / made.blocks) ** (made.plan.sparsity - 1) * 2.0**-made.bits
        assert 0 < made.forecast.relative_bias() < bound


def test_ghosts_are_those_of_the_law():
    """Everybody holds k keys: the squares of what all codes read, in the mean over random rows."""
    theta = mechanism().shrink
    for items, bits, fold in ((3, 7, False), (4, 7, False), (4, 6, True), (5, 8, True)):
        source, energy, runs = np.random.default_rng(items), 0.0, 200
        for _ in range(runs):
            codes = source.choice(2 ** (bits - 1), items, replace=fold)
            made = mechanism(universe=2 ** (bits - 1), sparsity=1, bits=bits, maps=1)
            law = made.law.probabilities(
                [1.0] * items, [(0, 2 * int(code) + 1, 1) for code in codes]
            )
            read = law.copy()[None, :]
            kernels.walsh_hadamard(scaled := np.round(read * 2**50).astype(np.int64))
            every = scaled[0, 1::2] / 2**50 / theta  # rows begin with a one
            own = 0.0 if fold else (every[codes] ** 2).sum()
            energy += (every**2).sum() - own
        wanted = sizes.ghost_energy(items, 1, theta, None if fold else 2 ** (bits - 1))
        assert energy / runs == pytest.approx(wanted, rel=0.15 if fold else 0.03)


@pytest.mark.parametrize(
    ("changes", "error", "rule"),
    [
        ({"protect": "user"}, UnsupportedUnit, "protects event"),
        ({"protect": "l1:1"}, UnsupportedUnit, "protects event"),
        ({"epsilon": 1e-10}, BoundDoesNotApply, "use a larger epsilon"),
        ({"bits": 5}, InvalidPlan, "use at least 6 bits"),
        ({"bits": 8}, InvalidPlan, "use at least 12 bits"),
        ({"bits": 29}, InvalidPlan, "between 2 and 28"),
        ({"maps": 3}, InvalidPlan, "power of two"),
        ({"universe": Universe.open(), "maps": 2}, InvalidPlan, "at least 4 maps"),
        ({"blocks": 0}, InvalidPlan, "blocks must be"),
        ({"blocks": 5000}, InvalidPlan, "blocks must be"),
        ({"max_bytes": 1}, InvalidPlan, "reports within 1 bytes"),
        ({"memory": 2**10}, InvalidPlan, "no tables within"),
        ({"decode": "direct", "max_bytes": 6}, InvalidPlan, "needs 7 bytes"),
        ({"decode": "direct", "sparsity": 8177}, InvalidPlan, "use sparsity 8176"),
        ({"decode": "direct", "blocks": 2}, InvalidPlan, "linear family"),
        ({"decode": "direct", "bits": 3}, InvalidPlan, "use at least 6 bits"),
        ({"decode": "direct", "family": "blake2s"}, InvalidPlan, "every hash"),
        ({"bins": 4}, InvalidPlan, "no option 'bins'"),
    ],
    ids=str,
)
def test_refusals_say_the_rule(changes, error, rule):
    with pytest.raises(error, match=rule):
        plan_of(**changes)


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"keep": 3139872687}, "only keep"),  # one word more than epsilon allows
        ({"keep": 2**31}, "keep must be"),
        ({"keep": 2**32}, "keep must be"),
        ({"keep": True}, "keep must be"),
        ({"bits": 15}, "need codes of 14 bits"),
        ({"bits": 0}, "bits must be"),
        ({"blocks": 2}, "need codes"),
        ({"extra": 1}, "has the parameters"),
    ],
    ids=str,
)
def test_lying_plans_are_refused(parameters, rule):
    plan = plan_of()
    with pytest.raises(InvalidPlan, match=rule):
        mechanism_of(replace(plan, parameters={**plan.parameters, **parameters}))


FORMS = {
    "one cell": {},
    "one cell, one map": {"maps": 1},
    "blocks": {"sparsity": 20, "universe": 3000},
    "named blocks": {"sparsity": 3, "blocks": 3, "universe": [f"key {i}" for i in range(50)]},
    "open": {"universe": Universe.open(), "bits": 14},
    "open blocks": {"universe": Universe.open(), "sparsity": 20, "bits": 12},
}


@pytest.mark.parametrize("changes", FORMS.values(), ids=FORMS)
def test_tables_and_direct_reading_give_the_same_integers(changes):
    table = mechanism(**changes)
    direct = mechanism(**changes, decode="direct", family="linear")
    assert direct.layout == table.layout
    size = table.plan.universe.size or 2**40
    vectors = vectors_of(300, min(20, size), min(size, 5000))
    seeds = uniform_seeds(seeded(1, "public"), 300, 8)
    fields = table.randomize(vectors, seeds, seeded(1, "noise"))
    np.testing.assert_array_equal(fields, direct.randomize(vectors, seeds, seeded(1, "noise")))
    ids = np.arange(min(size, 200), dtype=np.uint64)
    totals = []
    for made in (table, direct):
        batch = ReportBatch(made.plan.digest, np.zeros_like(seeds), fields)
        sketch = aggregate(made.plan, [batch.take(slice(0, 100)), batch.take(slice(100, None))])
        np.testing.assert_array_equal(sketch.reports, np.bincount(made.tables.map_of(batch)))
        totals.append(Reader(sketch).totals(ids))
        np.testing.assert_array_equal(made.read(batch, ids), totals[0])
    np.testing.assert_array_equal(*totals)
    assert len(np.unique(totals[0])) > 10


@pytest.mark.parametrize("changes", [*FORMS.values(), {"decode": "direct", "sparsity": 60}])
def test_without_noise_a_report_returns_every_answer(changes):
    """A threshold of 2^32 flips nothing, so that held items read as their signs."""
    made = replace(mechanism(**changes), keep=2**32)
    size = made.plan.universe.size or 2**40
    count = min(made.plan.sparsity, 5)
    vectors = vectors_of(100, count, min(size, 5000))
    vectors = VectorBatch(vectors.offsets, vectors.indices, np.sign(vectors.values))
    seeds = uniform_seeds(seeded(2, "public"), 100, made.seed_bytes)
    fields = made.randomize(vectors, seeds, seeded(2, "noise"))
    batch = ReportBatch(made.plan.digest, seeds, fields)
    right = 0
    for client in range(100):
        own = vectors.slice(client, client + 1)
        right += (made.read(batch.take(slice(client, client + 1)), own.indices) == own.values).sum()
    assert right >= 100 * count - 6  # a handful may be dropped where cells are small


def test_public_maps_send_no_seed_and_name_their_map():
    made = mechanism()
    vectors = vectors_of(50, 6, 1378)
    seeds = uniform_seeds(seeded(1, "public"), 50, made.seed_bytes)
    batch = ReportBatch(
        made.plan.digest, np.zeros_like(seeds), made.randomize(vectors, seeds, seeded(1, "noise"))
    )
    assert made.seed_bytes == 8
    np.testing.assert_array_equal(made.tables.map_of(batch), made.tables.maps.map_of(seeds))
    client = Client(made.plan)
    report = client.report({3: 1.0, 7: -0.5})
    assert report.hash_seed == 0
    assert len(decode(made.plan, client.encode(report))) == 1


@pytest.mark.parametrize("changes", [{}, {"decode": "direct"}, {"sparsity": 20}], ids=str)
def test_every_number_of_items_gives_a_report_of_one_length(changes):
    made = mechanism(**changes)
    vectors = VectorBatch.of([SparseVector(np.arange(n)) for n in (0, 1, 6, 7, 8, 500, 0)])
    seeds = np.arange(7, dtype=np.uint64)
    fields = made.randomize(vectors, seeds, seeded(1, "noise"))
    assert fields.shape == (7, len(made.layout.widths))
    assert (fields < np.array(made.layout.limits)).all()
    assert made.randomize(vectors.slice(0, 0), seeds[:0], seeded(1, "noise")).shape[0] == 0


@needs_c
@pytest.mark.parametrize("changes", [*FORMS.values(), {"decode": "direct"}], ids=str)
def test_reports_do_not_depend_on_the_kernel(changes, monkeypatch):
    made = mechanism(**changes)
    vectors = vectors_of(60, 9, 50)
    seeds = uniform_seeds(seeded(1, "public"), 60, made.seed_bytes)
    fast = made.randomize(vectors, seeds, seeded(1, "noise"))
    for name in ("solve_gf2", "hash_words", "read_parity", "read_cells"):
        monkeypatch.setattr(f"faintly.kernels.{name}", getattr(reference, name))
    np.testing.assert_array_equal(fast, made.randomize(vectors, seeds, seeded(1, "noise")))


def test_keys_of_an_indexed_universe_never_merge():
    made = mechanism(sparsity=32, universe=23496)
    ids = np.arange(23496, dtype=np.uint64)
    for j in range(made.tables.maps.maps):
        entries = made.tables.entries(ids, j)
        assert len(np.unique(entries)) == len(ids)
        rows = entries.astype(int) // made.tables.shape[1]
        assert np.bincount(rows - j * made.blocks).min() > 3700
