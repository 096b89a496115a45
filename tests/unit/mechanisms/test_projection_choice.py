"""Projection choice: calibration, refusals, bytes, and the two ways to decode."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from faintly import kernels
from faintly.client.bulk import randomize
from faintly.core import Plan, ReportBatch, SparseVector, Universe, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.errors import BoundDoesNotApply, InvalidPlan, InvalidVector
from faintly.mechanisms import Request, mechanism_class, mechanism_of
from faintly.mechanisms.projection_choice import constants
from faintly.mechanisms.tokens import draw_tokens
from faintly.planner import make_plan
from faintly.primitives.entropy import secure, seeded
from faintly.wire import report_v1

SALT = bytes(range(16))


def build(**changes):
    wanted = {"protect": "user", "epsilon": 1.0, "sparsity": 4, "clients": 1000}
    wanted |= {"universe": 500, "decode": "table"}
    if changes.get("form") == "unsigned":
        wanted["values"] = "nonnegative"
    return make_plan(mechanism="projection-choice", salt=SALT, **{**wanted, **changes})


def mechanism(**changes):
    return mechanism_of(build(**changes))


def some_vectors(count, sizes, values=(1.0, -1.0, 0.5, -0.25), size=500):
    source = np.random.default_rng(5)
    return VectorBatch.of(
        [
            SparseVector(
                source.choice(size, sizes[i % len(sizes)], replace=False),
                source.choice(values, sizes[i % len(sizes)]),
            )
            for i in range(count)
        ]
    )


def reports_of(plan, vectors, seed=1):
    public, secret = seeded(seed, "public"), seeded(seed, "secret")
    return randomize(plan, mechanism_of(plan), vectors, public, secret)


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 3.3, 16.0])
@pytest.mark.parametrize("form", ["dense", "bins", "unsigned"])
def test_the_stated_loss_is_within_epsilon_and_close_to_it(epsilon, form):
    for k in (1, 5, 30):
        chosen = mechanism(epsilon=epsilon, sparsity=k, form=form, decode="direct")
        loss = chosen.guarantee().budget.epsilon
        assert epsilon * 0.99 < loss <= epsilon, chosen.plan.parameters
        assert bool(chosen.guarantee().conditions) == (form == "unsigned")


@pytest.mark.parametrize("protect", ["user", "event", "l1:1", "l1:7.5"])
def test_every_unit_is_protected(protect):
    chosen = mechanism(protect=protect)
    assert str(chosen.guarantee().unit) == protect
    assert chosen.guarantee().budget.epsilon <= 1.0
    assert chosen.guarantee().budget.delta == 0


def test_plans_that_lie_are_refused():
    plan = build()
    truth = dict(plan.parameters)
    lies = {
        "threshold": [truth["threshold"] + 5, truth["threshold"] * 5 // 4],
        "top": [truth["top"] - 1],
    }
    for name, values in lies.items():
        for value in values:
            with pytest.raises(InvalidPlan, match="only keep"):
                mechanism_of(replace(plan, parameters={**truth, name: value}))


BROKEN = [
    ({"threshold": 0}, "threshold"),
    ({"threshold": 2**32}, "threshold"),
    ({"threshold": 1}, "no likelier"),
    ({"threshold": True}, "threshold"),
    ({"top": 0}, "top"),
    ({"top": 257}, "top"),
    ({"groups": 100}, "nearest is 128"),
    ({"groups": 2**14}, "groups"),
    ({"bins": 2}, "bins"),
    ({"tokens": 5}, "tokens must be the sparsity"),
    ({"form": "wide"}, "form"),
    ({"form": "bins", "bins": 1}, "bins must be between 2"),
    ({"form": "bins", "bins": 3}, "bins must be a power of two, got 3"),
    ({"form": "unsigned", "bins": 2}, "no report for a negative value"),
    ({"rounding": "up"}, "rounding"),
]


@pytest.mark.parametrize(("change", "rule"), BROKEN, ids=str)
def test_broken_parameters_are_refused(change, rule):
    plan = build()
    with pytest.raises(InvalidPlan, match=rule):
        mechanism_of(replace(plan, parameters={**plan.parameters, **change}))
    with pytest.raises(InvalidPlan, match="has the parameters"):
        mechanism_of(replace(plan, parameters={**plan.parameters, "c": 1}))


REFUSED = [
    ({"form": "bins", "bins": 1}, "bins must be between 2"),
    ({"form": "bins", "bins": 64, "bits": 12}, "64 bins need codes of at least 14 bits"),
    ({"form": "bins", "bins": 256, "bits": 16}, "256 bins need codes of at least 17 bits"),
    ({"form": "unsigned", "values": "signed"}, "plan for values nonnegative or set"),
    ({"form": "unsigned", "bins": 3}, "bins must be a power of two, got 3"),
    ({"form": "unsigned", "bins": 64, "bits": 12}, "64 bins need codes of at least 14 bits"),
    ({"form": "bins", "decode": "direct", "family": "linear"}, "linear by table alone"),
    ({"form": "unsigned", "decode": "direct", "family": "linear"}, "linear by table alone"),
    ({"decode": "direct", "family": "blake2s"}, "use family prf"),
    ({"form": "sparse"}, "form must be one of"),
    ({"groups": 100}, "power of two, got 100; the nearest is 128"),
    ({"groups": 0}, "the nearest is 1"),
    ({"groups": "many"}, "groups must be an integer"),
    ({"top": 300}, "the nearest is 256"),
    ({"bins": 4}, "use form bins"),
    ({"form": "bins", "decode": "direct", "bins": 2**20}, "the nearest is 32768"),
    ({"form": "unsigned", "decode": "direct", "bins": 1}, "the nearest is 2"),
    ({"form": "bins", "decode": "direct", "sparsity": 5000}, "use form dense"),
    ({"rounding": "up"}, "rounding must be one of"),
    ({"steps": 3}, "no option 'steps'"),
    ({"universe": 2**27}, "use decode direct"),
    ({"maps": 3}, "maps must be a power of two"),
    ({"protect": "l1:9"}, "protect user"),
    ({"epsilon": 17.0}, "epsilon"),
]


@pytest.mark.parametrize(("changes", "rule"), REFUSED, ids=str)
def test_requests_it_cannot_honour_are_refused_with_the_rule(changes, rule):
    with pytest.raises(InvalidPlan, match=rule):
        build(**changes)


def test_an_epsilon_below_the_thresholds_is_refused():
    with pytest.raises(BoundDoesNotApply, match="use a larger epsilon"):
        build(epsilon=1e-12)


def test_plans_survive_json():
    for changes in ({}, {"decode": "direct", "form": "bins"}, {"rounding": "systematic"}):
        plan = build(**changes)
        again = Plan.from_json(plan.to_json())
        assert again.digest == plan.digest
        assert mechanism_of(again).scale == mechanism_of(plan).scale


@pytest.mark.parametrize("size", [2, 500, 100_000, 2**20])
@pytest.mark.parametrize("clients", [10, 10**5, 10**7])
def test_a_table_report_is_one_cell_of_at_most_four_bytes(size, clients):
    chosen = mechanism(universe=size, clients=clients)
    hashing = chosen.plan.hashing
    bits = hashing.bits + hashing.maps.bit_length() - 1
    assert 2**hashing.bits >= size
    assert chosen.layout.payload_bits == bits + 1 <= 32
    assert chosen.layout.seed_bytes == 0
    assert chosen.seed_bytes == 8
    assert chosen.layout.record_bytes == (bits + 8) // 8 <= 4
    if bits < 26:  # what 256 MiB hold
        assert chosen.forecast.worst_variance() <= 1.02 * chosen.forecast.variance(0)
        assert chosen.forecast.largest_ghost() <= 0.3


def test_where_memory_ends_ghosts_are_told_and_more_memory_helps():
    wanted = {"epsilon": 4.0, "sparsity": 6, "clients": 20_000_000, "universe": 50_000}
    chosen = mechanism(**wanted)
    assert chosen.plan.hashing.maps * 2**chosen.plan.hashing.bits == 2**26
    assert chosen.forecast.largest_ghost() > 1
    assert chosen.forecast.worst_variance() > 1.1 * chosen.forecast.variance(0)
    larger = mechanism(**wanted, memory=2**28)
    assert larger.forecast.largest_ghost() == pytest.approx(chosen.forecast.largest_ghost())
    larger = mechanism(**wanted, memory=2**30)
    assert larger.forecast.largest_ghost() == pytest.approx(chosen.forecast.largest_ghost() / 4)


def test_the_largest_ghost_is_that_of_the_law():
    """Over all patterns of k tokens: what the product of m signs says, relative to one sign."""
    for tokens, groups, top in ((3, 2, 1), (4, 3, 2), (5, 2, 2), (5, 3, 1)):
        signs = 1 - 2 * np.array(list(itertools.product((0, 1), repeat=tokens)))
        sums = signs.sum(axis=1)
        products = {m: signs[:, :m].prod(axis=1) for m in range(1, tokens + 1, 2)}
        said = dict.fromkeys(products, 0.0)
        for rows in itertools.product(range(len(signs)), repeat=groups):
            scores = np.abs(sums[list(rows)])
            reached = np.sort(scores)[-top]
            share = (top - (scores > reached).sum()) / (scores == reached).sum()
            for row, score in zip(rows, scores, strict=True):
                weight = 1.0 if score > reached else share * (score == reached)
                for m, product in products.items():
                    said[m] += weight * np.sign(sums[row]) * product[row]
        wanted = max(abs(said[m]) for m in said if m > 1) / said[1]
        found = constants.ghost_strength(constants.Shape(tokens, groups), top)
        assert found == pytest.approx(wanted, rel=1e-12)


def test_asked_bits_and_maps_are_kept_and_widen_the_intervals():
    chosen = mechanism(bits=9, maps=1, clients=10**6)
    assert (chosen.plan.hashing.bits, chosen.plan.hashing.maps) == (9, 1)
    assert chosen.forecast.worst_variance() > 10 * chosen.forecast.variance(0)
    assert mechanism(maps=64).plan.hashing.maps == 64
    assert mechanism(universe=Universe.open()).plan.hashing.maps >= 4


@pytest.mark.parametrize(
    ("options", "size"),
    [({}, 7), ({"groups": 64}, 6), ({"form": "bins", "epsilon": 4.0}, 7), ({"groups": 1}, 6)],
)
def test_a_direct_report_is_seed_and_slot(options, size):
    chosen = mechanism(decode="direct", **options)
    assert chosen.layout.seed_bytes == chosen.seed_bytes == 5
    assert chosen.layout.limits == (chosen.shape.slots,)
    assert chosen.layout.record_bytes == size


CASES = [
    {},
    {"groups": 64, "maps": 4},
    {"decode": "direct"},
    {"decode": "direct", "family": "linear", "groups": 16},
    {"decode": "direct", "form": "bins", "epsilon": 3.0},
    {"decode": "direct", "form": "unsigned"},
    {"form": "bins", "epsilon": 3.0},
    {"form": "bins", "epsilon": 3.0, "universe": Universe.open()},
    {"form": "unsigned"},
    {"form": "unsigned", "universe": Universe.open(), "epsilon": 3.0},
    {"decode": "direct", "rounding": "systematic"},
    {"universe": Universe.open()},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_reports_round_trip_and_repeat(options):
    plan = build(**options)
    values = (1.0, 0.5) if options.get("form") == "unsigned" else (1.0, -0.5, 1e-300)
    vectors = some_vectors(300, (0, 1, 4, 6), values)
    batch = reports_of(plan, vectors)
    layout = mechanism_of(plan).layout
    again = report_v1.decode_batch(report_v1.encode_batch(batch, layout), plan.digest, layout)
    np.testing.assert_array_equal(again.fields, batch.fields)
    np.testing.assert_array_equal(again.hash_seeds, batch.hash_seeds)
    np.testing.assert_array_equal(reports_of(plan, vectors).fields, batch.fields)
    assert (reports_of(plan, vectors, seed=2).fields != batch.fields).any()
    parts = aggregate(plan, [batch.take(slice(0, 100)), batch.take(slice(100, None))])
    assert parts == aggregate(plan, [batch])
    estimates = Reader(parts).estimate_ids(np.arange(20, dtype=np.uint64), list(range(20)))
    assert np.isfinite(estimates.mean).all()
    assert (estimates.stderr > 0).all()


def test_no_clients_give_no_reports():
    for options in CASES:
        plan = build(**options)
        assert reports_of(plan, VectorBatch.of([])).fields.shape[0] == 0


def test_the_real_source_serves_too():
    """Secure words may not be written to."""
    for options in CASES:
        chosen = mechanism(**options)
        vectors = some_vectors(20, (0, 3), (1.0, 0.5))
        fields = chosen.randomize(vectors, np.arange(20, dtype=np.uint64), secure())
        assert (fields < np.array(chosen.layout.limits)).all()


def test_a_negative_value_in_the_unsigned_form_is_named_by_position_alone():
    chosen = mechanism(form="unsigned", decode="direct")
    vectors = VectorBatch.of([SparseVector([1, 2, 3], [1.0, 0.5, -0.125])])
    with pytest.raises(InvalidVector, match="value at position 2 is negative") as caught:
        chosen.randomize(vectors, np.zeros(1, np.uint64), seeded(1, "noise"))
    assert "0.125" not in str(caught.value)


def as_tables(chosen, batch):
    tables = np.zeros(chosen.tables.shape, dtype=np.int64)
    cells = chosen.tables.cells(batch)
    kernels.scatter_add(tables, cells.index, cells.weight, 0)
    return chosen.tables.transform(tables)


@pytest.mark.parametrize("decode", ["direct", "table"])
@pytest.mark.parametrize("maps", [1, 8])
def test_tables_and_direct_reading_give_the_same_integers(decode, maps):
    plan = build(decode=decode, family="linear", maps=maps, bits=10, groups=64)
    chosen = mechanism_of(plan)
    batch = reports_of(plan, some_vectors(500, (0, 2, 4)))
    ids = np.arange(500, dtype=np.uint64)
    gathered = chosen.tables.gather(as_tables(chosen, batch), ids)[0]
    np.testing.assert_array_equal(gathered, chosen.read(batch, ids))
    assert np.abs(gathered).max() <= 500


def test_a_cell_is_what_the_direct_report_stands_for():
    """Same vectors, seeds and noise: the table plan sends a function of (seed, slot)."""
    common = {"bits": 10, "maps": 8, "groups": 64, "family": "linear"}
    cell, slot = mechanism(**common), mechanism(decode="direct", **common)
    vectors, seeds = some_vectors(400, (0, 2, 4, 7)), np.arange(400, dtype=np.uint64) * 977
    sent = [
        one.tables.cells(
            ReportBatch(
                one.plan.digest,
                seeds if one is slot else np.zeros_like(seeds),
                one.randomize(vectors, seeds, seeded(1, "noise")),
            )
        )
        for one in (cell, slot)
    ]
    for column in ("index", "weight"):
        np.testing.assert_array_equal(getattr(sent[0], column), getattr(sent[1], column))
    assert len(np.unique(sent[0].index >> np.uint32(10))) == 8


def test_blocks_of_clients_do_not_change_a_single_client(monkeypatch):
    """A report is a function of its own vector, seed and words, whoever else is in the batch."""
    chosen = mechanism(decode="direct", groups=64)
    vectors, seeds = some_vectors(3, (2, 4)), np.arange(3, dtype=np.uint64)
    each = [
        chosen.randomize(vectors.slice(i, i + 1), seeds[i : i + 1], seeded(1, "noise"))[0]
        for i in (0, 0)
    ]
    assert each[0] == each[1]
    monkeypatch.setattr("faintly.mechanisms.projection_choice.BLOCK", 1)
    source = seeded(1, "noise")
    alone = [
        chosen.randomize(vectors.slice(i, i + 1), seeds[i : i + 1], source)[0] for i in range(3)
    ]
    together = chosen.randomize(vectors, seeds, seeded(1, "noise"))
    np.testing.assert_array_equal(np.stack(alone), together)


def test_systematic_rounding_meets_at_most_the_rounded_total():
    source = np.random.default_rng(3)
    values = source.uniform(-1, 1, 200 * 40)
    vectors = VectorBatch.from_rows(np.repeat(np.arange(200), 40), np.arange(8000), values)
    tokens = draw_tokens(vectors, 40, "systematic", seeded(1, "noise"))
    totals = np.add.reduceat(np.abs(values), np.arange(0, 8000, 40))
    assert (tokens.counts >= np.floor(totals)).all()
    assert (tokens.counts <= np.ceil(totals)).all()


@pytest.mark.parametrize("rounding", ["independent", "systematic"])
def test_tokens_never_exceed_the_limit(rounding):
    vectors = some_vectors(200, (0, 3, 5, 40), (1.0, -1.0))
    tokens = draw_tokens(vectors, 4, rounding, seeded(1, "noise"))
    np.testing.assert_array_equal(tokens.counts, np.minimum(vectors.lengths, 4))
    np.testing.assert_array_equal(np.bincount(tokens.owners, minlength=200), tokens.counts)
    assert (np.diff(tokens.owners) >= 0).all()


def test_variance_of_the_forms():
    ids = np.arange(50, dtype=np.uint64)
    for options in CASES:
        plan = build(**options)
        chosen = mechanism_of(plan)
        values = (1.0, 0.5) if options.get("form") == "unsigned" else (1.0, -1.0)
        sketch = aggregate(plan, [reports_of(plan, some_vectors(400, (2, 4), values))])
        null = chosen.variance(sketch, None, np.zeros(1))
        assert null[0] == pytest.approx(chosen.forecast.variance(0))
        wild = np.linspace(-3, 3, 50) / chosen.attenuation
        for means in (np.zeros(50), wild):
            assert (chosen.variance(sketch, ids, means) > 0).all()
        assert chosen.forecast.worst_variance() >= chosen.forecast.variance(0)
        assert chosen.forecast.relative_bias() < 1e-3
        assert chosen.forecast.influence() > 0


@pytest.mark.long
def test_influence_is_the_most_one_report_says():
    for options in CASES:
        plan = build(**options)
        chosen = mechanism_of(plan)
        vectors = some_vectors(200, (1,), (1.0,))
        batch = reports_of(plan, vectors)
        said = [
            np.abs(chosen.read(batch.take(slice(i, i + 1)), np.arange(200, dtype=np.uint64))).max()
            for i in range(15)
        ]
        assert max(said) * chosen.scale == pytest.approx(chosen.forecast.influence())


def test_variants_depend_on_what_is_asked():
    def options(share=0.05, **changes):
        plan = build(**changes)
        request = Request(
            unit=plan.unit,
            budget=plan.budget,
            sparsity=plan.sparsity,
            clients=plan.clients,
            universe=plan.universe,
            decode=plan.decode,
            values=plan.values,
            share=share,
        )
        found = list(mechanism_class("projection-choice").variants(request))
        for one in found:
            mechanism_class("projection-choice").calibrate(replace(request, options=one))
        return [one.get("form", one.get("groups")) for one in found]

    assert options() == [64, 256]
    assert options(decode="direct") == [64, 256]
    assert options(decode="direct", epsilon=2.0) == [64, 256, "bins"]
    assert options(decode="direct", values="set") == [64, 256, "unsigned"]
    assert options(epsilon=4.0, values="nonnegative") == [64, 256, "unsigned"]
    assert options(epsilon=4.0) == [64, 256, "bins"]
    assert options(epsilon=4.0, share=1.0) == [64, 256]


# epsilon, bins, N, T, c, V0/k and V1/k for k = 16: computed once by an independent program.
TABLE_OF_SETS = [
    (0.5, 32, 812, 2233192167, 0.009632, 20.39, 26.41),
    (1.0, 64, 913, 1881660228, 0.015024, 4.259, 8.227),
    (2.0, 128, 966, 2134301401, 0.025031, 0.7733, 3.169),
    (3.0, 256, 994, 2425373112, 0.032373, 0.2320, 2.085),
    (4.0, 512, 1008, 2723352996, 0.038223, 0.0834, 1.650),
]


@pytest.mark.parametrize(
    ("epsilon", "bins", "top", "threshold", "c", "unheld", "held"), TABLE_OF_SETS
)
def test_sets_by_table_have_the_sizes_and_errors_of_the_table(
    epsilon, bins, top, threshold, c, unheld, held
):
    wanted = {"form": "unsigned", "sparsity": 16, "clients": 100_000, "universe": 23_496}
    chosen = mechanism(epsilon=epsilon, values="set", bins=bins, **wanted)
    assert (chosen.groups, chosen.top, chosen.threshold) == (64, top, threshold)
    assert chosen.attenuation == pytest.approx(c, abs=5e-7)
    assert chosen.forecast.variance(0) / 16 == pytest.approx(unheld, rel=6e-4)
    assert (
        chosen.forecast.worst_variance() - chosen.forecast.ghost_variance()
    ) / 16 == pytest.approx(held, rel=4e-4)
    assert chosen.layout.record_bytes == 3
    assert chosen.forecast.ghost_variance() <= 0.02 * chosen.forecast.variance(0) * (1 + 1e-9)
    assert chosen.forecast.largest_ghost() <= 0.3


@pytest.mark.parametrize(
    ("epsilon", "least"), [(0.5, 20.4), (1.0, 4.26), (2.0, 0.773), (3.0, 0.232), (4.0, 0.0772)]
)
@pytest.mark.parametrize("share", [{}, {"share": 0.001}])
def test_sets_of_rare_keys_have_the_least_error(epsilon, least, share):
    wanted = {"form": "unsigned", "sparsity": 16, "clients": 100_000, "universe": 23_496}
    chosen = mechanism(epsilon=epsilon, values="set", **share, **wanted)
    assert chosen.forecast.variance(0) / 16 == pytest.approx(least, rel=1e-3)


@pytest.mark.parametrize("decode", ["table", "direct"])
def test_rare_keys_decide_between_bins_that_err_alike_at_the_share(decode):
    wanted = {"form": "unsigned", "sparsity": 16, "clients": 100_000, "universe": 23_496}
    bins = {
        share: mechanism(epsilon=6.0, values="set", share=share, decode=decode, **wanted).bins
        for share in (0.001, 0.05)
    }
    # At 5 % half as many bins err less by a thousandth, and by half more at keys that few hold.
    assert bins[0.001] > bins[0.05] > 1024


def test_tables_of_many_reports_are_transformed_in_wider_integers():
    chosen = mechanism(form="unsigned", bins=64, bits=14, maps=16)
    tables = np.zeros(chosen.tables.shape, dtype=np.int32)
    tables[3, 77] = 2**30
    wide = chosen.tables.transform(tables)
    assert wide.dtype == np.int64
    assert wide[3].max() == 63 * 2**30
    assert chosen.tables.transform(tables >> 10).dtype == np.int32


def test_unsigned_tables_and_direct_reading_give_the_same_integers():
    for options in ({"maps": 1, "bits": 12, "bins": 16}, {"universe": Universe.open()}):
        plan = build(form="unsigned", **options)
        chosen = mechanism_of(plan)
        batch = reports_of(plan, some_vectors(300, (0, 2, 5), (1.0, 0.5)))
        ids = np.arange(0, 500, 7, dtype=np.uint64)
        read = chosen.read(batch, ids)
        np.testing.assert_array_equal(chosen.tables.gather(as_tables(chosen, batch), ids)[0], read)
        np.testing.assert_array_equal(Reader(aggregate(plan, [batch])).totals(ids), read)


def test_one_signed_bin_in_several_groups_is_read_as_it_was_written():
    """The form bins with one bin is not the dense form: each group has a word of its own."""
    made = mechanism(form="bins", epsilon=8.0, sparsity=1, decode="direct", groups=4, bins=1)
    vector = SparseVector(np.array([3], dtype=np.uint64), [1.0])
    seeds = np.arange(400, dtype=np.uint64)
    fields = made.randomize(VectorBatch.of([vector] * 400), seeds, seeded(7, "one bin"))
    total = made.read(ReportBatch(made.plan.digest, seeds, fields), vector.indices)[0]
    assert total * made.scale / 400 == pytest.approx(1.0, abs=0.05)
