"""Orthogonal: its channels and sizes, its refusals, and two decodings that must agree."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from faintly.client import Client, randomize_all
from faintly.core import ReportBatch, SparseVector, VectorBatch
from faintly.engine import Reader, aggregate, decode
from faintly.errors import (
    BoundDoesNotApply,
    FaintlyError,
    InvalidPlan,
    InvalidVector,
    UnsupportedUnit,
)
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.orthogonal import channel as channels
from faintly.mechanisms.orthogonal import rows, sizes
from faintly.mechanisms.orthogonal.channel import Channel
from faintly.planner import make_plan, rank
from faintly.primitives.entropy import seeded

WANTED = {
    "protect": "event",
    "epsilon": 2.0,
    "sparsity": 6,
    "clients": 1000,
    "universe": 500,
    "values": "set",
    "mechanism": "orthogonal",
    "salt": bytes(range(16)),
}


def mechanism(**changes):
    return mechanism_of(make_plan(**WANTED | changes))


def vectors_of(count, items, size, seed=1):
    source = np.random.default_rng(seed)
    held = (np.sort(source.choice(size, items, replace=False)) for _ in range(count))
    return VectorBatch.of([SparseVector(ids) for ids in held])


# Channels: words, variances and readings.


@pytest.mark.parametrize(
    ("epsilon", "rows_", "speak", "unheld", "held"),
    [
        (0.5, 1, (1141788602, 548149346), "5.337", "5.462"),
        (1.0, 2, (2459988086,), "1.016", "1.18"),
        (1.5, 2, (2100668299, 1235962256), "0.4673", "0.6118"),
        (2.0, 3, (3713706680,), "0.1911", "0.1824"),
        (3.0, 4, (2783961282, 1297172183), "0.06667", "0.1523"),
        (4.0, 5, (1107023084, 3109279141), "0.02144", "0.1319"),
    ],
)
def test_the_best_channels_are_those_of_the_note(epsilon, rows_, speak, unheld, held):
    best = channels.best(epsilon, 0.05)[0]
    assert (best.rows, best.speak) == (rows_, speak)
    assert (f"{best.unheld:.4g}", f"{best.held:.4g}") == (unheld, held)
    ratio = Fraction(np.exp(epsilon)) * (1 + Fraction(1, 10**12))
    assert best.growth <= ratio
    assert Fraction(2**32, best.silent) <= ratio
    assert float(best.loss()) <= epsilon
    assert best.unheld > np.exp(epsilon) / np.expm1(epsilon) ** 2  # the bound for any report


@pytest.mark.parametrize("channel", channels.best(1.5, 0.05) + channels.best(0.5, 0.05))
def test_readings_have_the_means_that_scale_undoes(channel):
    readings = np.array(channel.readings)
    assert channel.unheld_chances.sum() == pytest.approx(1)
    assert channel.held_chances.sum() == pytest.approx(1)
    assert channel.unheld_chances @ readings == pytest.approx(0, abs=1e-12)
    assert channel.held_chances @ readings * channel.scale == pytest.approx(1)
    second = channel.unheld_chances @ readings**2 * channel.scale**2
    assert channel.unheld == pytest.approx(second)
    assert channel.law.deviation * channel.scale == pytest.approx(np.sqrt(channel.unheld))


def test_fewer_rows_cost_variance_and_more_of_them_bits():
    found = channels.best(4.0, 0.05)
    assert [one.most for one in found] == sorted((one.most for one in found), reverse=True)
    assert [one.unheld for one in found] == sorted(one.unheld for one in found)
    assert {one.rows for one in found} >= {1, 2, 3, 4, 5}


def test_two_levels_are_taken_where_they_gain():
    levels = {epsilon: len(channels.best(epsilon, 0.05)[0].speak) for epsilon in (0.5, 1, 2, 4)}
    assert levels == {0.5: 2, 1: 1, 2: 1, 4: 2}
    # One level of six rows errs as little at a key that nobody holds, and more at one of 5 %.
    nobody, everybody = (channels.best(4.0, share)[0] for share in (1e-6, 1.0))
    assert (nobody.rows, nobody.speak) == (6, (3654004786,))
    assert (everybody.rows, everybody.speak) == (5, (4216302225,))
    assert len(channels.best(1.0, 0.05, levels=2)[0].speak) == 2
    with pytest.raises(BoundDoesNotApply, match="leave the options out"):
        channels.best(2.0, 0.05, 1, 2)
    with pytest.raises(BoundDoesNotApply, match="too small"):
        channels.best(1e-11, 0.05)


# Sizes.


@pytest.mark.parametrize(
    ("changes", "bytes_"),
    [
        ({"epsilon": 1.0, "sparsity": 16, "clients": 200_000}, 6),
        ({"sparsity": 16, "clients": 200_000}, 9),
        ({"sparsity": 32, "clients": 100_000}, 15),
        ({"epsilon": 4.0, "sparsity": 16, "clients": 200_000}, 15),
        ({"sparsity": 1}, 4),
    ],
    ids=str,
)
def test_direct_reports_are_small_and_lose_next_to_nothing(changes, bytes_):
    made = mechanism(decode="direct", **changes)
    assert made.layout.record_bytes == bytes_
    assert made.layout.seed_bytes == 0
    assert 0 < made.forecast.relative_bias() <= 2**-16
    assert made.forecast.ghost_variance() <= 0.02 * made.channel.unheld
    assert made.forecast.largest_ghost() == 0
    with pytest.raises(TypeError, match="decodes directly"):
        made.tables.cells(
            ReportBatch(made.plan.digest, np.zeros(0, np.uint64), np.zeros((0, 2), np.uint32))
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.5},
        {"epsilon": 0.5, "sparsity": 16, "clients": 200_000, "universe": 32_768},
        {"epsilon": 1.0, "sparsity": 4},
        {"epsilon": 0.25, "universe": "open"},
    ],
    ids=str,
)
def test_tables_keep_the_rules_where_they_can(changes):
    made = mechanism(decode="table", **changes)
    share = 0.125 if changes.get("universe") == "open" else 0.02
    assert made.plan.hashing.maps >= 16
    assert made.forecast.largest_ghost() <= 0.3
    assert made.forecast.ghost_variance() <= share * made.channel.unheld * (1 + 1e-9)
    assert made.forecast.relative_bias() <= 2**-8
    assert 4 * np.prod(made.tables.shape) <= 2**28
    size = made.plan.universe.size
    if size is not None:
        places = [made.rows(np.arange(size, dtype=np.uint64), np.zeros(size, dtype=np.int64))]
        ((blocks, rows_),) = places
        assert len(np.unique(np.column_stack([blocks, rows_[:, 0, 0]]), axis=0)) == size


def test_a_byte_limit_takes_fewer_rows():
    few = rank(**{k: v for k, v in WANTED.items() if k != "salt"} | {"sparsity": 16}, max_bytes=7)
    assert all(one.bytes <= 7 for one in few)
    assert {one.options["rows"] for one in few if one.decode == "direct"} == {1, 2}


def product(left, right, bits):
    return int(rows.products(np.array([left], np.uint32), np.array([right], np.uint32), bits)[0])


@pytest.mark.parametrize(("count", "bits"), [(2, 16), (3, 15), (4, 11), (2, 8), (6, 18)])
def test_products_of_sums_of_constants_all_differ(count, bits):
    chosen = rows.constants(count, bits)
    sums = rows.combined(chosen)[1:].tolist()
    products = [product(a, b, bits) for i, a in enumerate(sums) for b in sums[i:]]
    assert chosen[0] == 1
    assert len(set(products)) == len(products)
    assert 0 not in products


def test_products_are_those_of_a_field():
    for bits in (1, 4, 8, 11):
        element = 1
        for _ in range(2**bits - 1):
            element = product(element, 2, bits) if bits > 1 else 1
        assert element == 1  # every element but 0 has an order that divides 2^bits - 1
    assert product(0x57, 0x83, 8) == 0xC1  # as in the standard of AES, which has this field


def test_what_is_lost_grows_with_the_items():
    loads = [
        sizes.Loads(channels.best(2.0, 0.05, 3, 1)[0], items, 1, 40).lost(40)
        for items in (1, 8, 40)
    ]
    assert loads[0] == pytest.approx(2.0**-37)
    assert loads[0] < loads[1] < 0.01 < 0.99 < loads[2] <= 1


# Refusals.


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"protect": "user"}, UnsupportedUnit, "protects event"),
        ({"values": "signed"}, InvalidPlan, "no report for a negative value"),
        ({"family": "prf", "decode": "direct"}, InvalidPlan, "public maps"),
        ({"rows": 9}, InvalidPlan, "rows must be between 1 and 8"),
        ({"levels": 3}, InvalidPlan, "levels must be between 1 and 2"),
        ({"blocks": 2, "decode": "direct"}, InvalidPlan, "blocks belong to tables"),
        ({"colour": 1}, InvalidPlan, "has no option 'colour'; it has rows"),
        ({"sparsity": 100_000, "decode": "direct"}, InvalidPlan, "no report for sparsity"),
        ({"rows": 3, "memory": 2**10, "decode": "table"}, InvalidPlan, "no report for sparsity"),
    ],
    ids=str,
)
def test_requests_that_it_cannot_serve_are_refused(changes, error, words):
    with pytest.raises(FaintlyError, match=words) as caught:
        make_plan(**WANTED | changes)
    assert isinstance(caught.value, error | InvalidPlan)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": True}, "rows must be an integer"),
        ({"speak": 5}, "speak must be a list"),
        ({"speak": [2**32 - 1, 1]}, "words for silence"),
        ({"rows": 8, "speak": [1, 1]}, "rows of both levels"),
        ({"bits": 0}, "bits must be between"),
        ({"constants": [1]}, "constants must be a list of 0 integers"),
        ({"blocks": 2}, "blocks must be between 1 and 1"),
    ],
    ids=str,
)
def test_plans_from_elsewhere_are_checked(changes, words):
    plan = mechanism(decode="direct").plan
    with pytest.raises(InvalidPlan, match=words):
        mechanism_of(replace(plan, parameters={**plan.parameters, **changes}))


@pytest.mark.parametrize("changes", [{"values": "signed"}, {"decode": "table"}], ids=str)
def test_plans_that_contradict_themselves_are_refused(changes):
    with pytest.raises(InvalidPlan):
        mechanism_of(replace(mechanism(decode="direct").plan, **changes))


def test_a_negative_value_is_refused_without_telling_it_and_a_device_moves_it():
    made = mechanism(values="nonnegative", decode="direct")
    with pytest.raises(InvalidVector, match="position 1 is negative") as caught:
        made.check_vector(SparseVector([3, 417], [0.5, -0.75]))
    assert "417" not in str(caught.value)
    assert "0.75" not in str(caught.value)
    with pytest.raises(InvalidVector):
        made.randomize(
            VectorBatch.of([SparseVector([3], [-1.0])]), np.zeros(1, np.uint64), seeded(1, "noise")
        )
    assert made.domain == "nonnegative"
    assert mechanism().domain == "set"
    client = Client(made.plan)
    assert len(client.encode(client.report({3: -1.0, 4: 0.5}))) > 0


# Decoding.


@pytest.mark.parametrize(
    "changes",
    [
        {"decode": "table", "rows": 2, "bits": 12, "blocks": 3, "maps": 4},
        {"decode": "table", "epsilon": 0.5, "rows": 1, "levels": 2, "bits": 11, "maps": 2},
        {"decode": "table", "rows": 1, "bits": 12, "maps": 4, "blocks": 1, "universe": "open"},
    ],
    ids=str,
)
def test_tables_and_reports_give_the_same_integers(changes):
    made = mechanism(**changes)
    vectors = vectors_of(300, 6, 500)
    batches = list(randomize_all(made.plan, vectors, seeded(1, "public"), seeded(1, "secret")))
    fields = batches[0].fields.copy()
    fields[::10, 1:] = 0  # cells that say nothing
    batch = ReportBatch(made.plan.digest, batches[0].hash_seeds, fields)
    ids = np.arange(0, 500, 7, dtype=np.uint64)
    totals = Reader(aggregate(made.plan, [batch])).totals(ids)
    np.testing.assert_array_equal(totals, made.read(batch, ids))
    halves = [made.read(batch.take(part), ids) for part in (slice(0, 99), slice(99, None))]
    np.testing.assert_array_equal(totals, sum(halves))


def test_heavy_tables_are_widened_before_they_are_folded():
    made = mechanism(decode="table", rows=2, bits=11, blocks=1, maps=1)
    tables = np.zeros(made.tables.shape, dtype=np.int32)
    tables[0, 5] = 2**31 - 1
    folded = made.tables.transform(tables)
    assert folded.dtype == np.int64
    assert folded.max() == 3 * (2**31 - 1)
    assert made.tables.transform(tables // 8).dtype == np.int32
    assert tables[0, 5] == 2**31 - 1


def test_reports_of_all_maps_are_read_by_their_own(monkeypatch):
    made = mechanism(decode="direct", maps=4)
    vectors = vectors_of(2_000, 6, 20)
    batches = list(randomize_all(made.plan, vectors, seeded(1, "public"), seeded(1, "secret")))
    reader = Reader(aggregate(made.plan, batches))
    shares: list[float] = []
    watched = reader.watched(lambda: None, shares.append)
    ids = np.arange(500, dtype=np.uint64)
    totals = reader.totals(ids)
    np.testing.assert_array_equal(watched.totals(ids), totals)
    assert shares[-1] == 1
    monkeypatch.setattr("faintly.engine.answers.READ_ENTRIES", 300)  # several parts of keys
    shares.clear()
    np.testing.assert_array_equal(watched.totals(ids), totals)
    assert len(shares) > 1
    assert shares == sorted(shares)
    held = reader.estimate_ids(ids[:20], ids[:20])
    assert abs(held.mean.mean() - 0.3) < 0.03
    assert (reader.sketch.reports > 400).all()


def test_one_report_travels_alone():
    plan = mechanism(decode="direct", universe=["tea", "milk", "water"]).plan
    client = Client(plan)
    reports = [client.encode(client.report({"tea", "milk"})) for _ in range(300)]
    reader = Reader(aggregate(plan, (decode(plan, one) for one in reports)))
    tea, water = reader.estimate(["tea", "water"]).mean
    assert tea > 0.7
    assert water < 0.3


def test_the_planner_takes_it_for_sets_at_event_level():
    wanted = {"protect": "event", "epsilon": 2.0, "sparsity": 16, "clients": 200_000}
    best = rank(universe=50_000, values="set", **wanted)[0]
    assert (best.mechanism, best.decode, best.bytes) == ("orthogonal", "direct", 9)
    assert best.ratio < 1.1
    assert not best.drawbacks
    assert rank(universe=50_000, **wanted)[0].mechanism != "orthogonal"


def test_a_channel_of_two_levels_needs_room_for_its_last_row():
    with pytest.raises(InvalidPlan):
        channels.check(8, [5, 5])
    assert channels.check(7, [5, 5]) == Channel(7, (5, 5))
