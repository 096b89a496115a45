"""Simulations work in blocks that stay in a cache: no number may depend on their size."""

import itertools

import numpy as np
import pytest

from faintly.core import VectorBatch
from faintly.mechanisms import mechanism_of, simulation
from faintly.planner import make_plan
from faintly.primitives import rounding
from faintly.primitives.entropy import seeded, uniform_seeds
from faintly_baselines import alp, coverage
from faintly_baselines.rings import Rings

UNITS = {"alp": "event", "collision": "user", "collision-signed": "user", "wheel": "user"}


def build(name):
    fixed = {"epsilon": 2.0, "sparsity": 3, "clients": 100, "universe": 12, "salt": bytes(16)}
    plan = make_plan(mechanism=name, protect=UNITS[name], decode="direct", **fixed)
    return mechanism_of(plan)


def vectors_of(sets):
    """Clients of no item up to five, two more than planned."""
    draws = np.random.default_rng(7)
    lengths = draws.integers(0, 6, 100)
    ids = np.concatenate([np.sort(draws.permutation(12)[:count]) for count in lengths])
    values = np.ones(len(ids)) if sets else draws.uniform(-1, 1, len(ids))
    return VectorBatch(np.append(0, np.cumsum(lengths)), ids.astype(np.uint64), values)


@pytest.mark.parametrize("name", UNITS)
def test_blocks_change_nothing(name, monkeypatch):
    mechanism, vectors = build(name), vectors_of(name in ("collision", "wheel"))
    seeds, ids = uniform_seeds(seeded(1, "public"), 100, 8), np.arange(12, dtype=np.uint64)

    def numbers():
        reports = mechanism.randomize(vectors, seeds, seeded(1, "secret"))
        totals = mechanism.simulation.totals(vectors, ids, seeded(2, "p"), seeded(2, "s"))
        return reports, totals, mechanism.forecast.variances(vectors, ids)

    whole = numbers()
    for module in (coverage, alp, rounding, simulation):
        monkeypatch.setattr(module, "BLOCK", 7)
    monkeypatch.setattr(alp.simulation, "CLIENTS", 3)
    for found, expected in zip(numbers(), whole, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_no_clients_give_no_reports():
    nobody = VectorBatch(np.zeros(1, np.int64), np.zeros(0, np.uint64), np.zeros(0))
    reports = build("collision-signed").randomize(nobody, np.zeros(0, np.uint64), seeded(1, "s"))
    assert reports.shape == (0, 1)


@pytest.mark.parametrize("arc", [1, 2, 3])
def test_ranks_list_the_slots_of_a_ring(arc):
    """Every set of up to three starts on seven slots, equal ones included, side by side."""
    slots = 7
    starts = [s for size in range(4) for s in itertools.product(range(slots), repeat=size)]
    sizes = np.array([len(one) for one in starts])
    rings = Rings.of(sizes, np.array([x for one in starts for x in one]), arc, slots)
    covered = [{(x + step) % slots for x in one for step in range(arc)} for one in starts]
    reach = np.array([len(one) for one in covered])
    assert rings.reach().tolist() == reach.tolist()
    for hit in (True, False):
        count = reach if hit else slots - reach
        found = [set() for _ in starts]
        for rank in range(slots):
            asked = np.minimum(rank, np.maximum(count - 1, 0))
            # Where there is no such slot, ask for one of the other kind, and leave it out.
            kind = np.where(count > 0, hit, not hit)
            slot = rings.find(kind, asked) % slots
            for place in np.flatnonzero(count > rank):
                found[place].add(int(slot[place]))
        wanted = covered if hit else [set(range(slots)) - one for one in covered]
        assert found == wanted


@pytest.mark.parametrize("far", [0, 2**63])
def test_positions_by_table_and_by_search(far):
    asked = np.array([1, 4, 5], dtype=np.uint64)
    keys = np.array([4, 0, 1, 6, 5, 4, far, 0], dtype=np.uint64)
    assert simulation.positions(asked, keys).tolist() == [1, 3, 0, 3, 2, 1, 3, 3]
    assert simulation.positions(asked[:0], keys).tolist() == [0] * 8
