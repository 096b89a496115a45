"""Retrieval keeps epsilon for every map, dependent ones and any number of items included.

A cut to k items before the elimination, which looks harmless, fails the same check; so do
half the noise and a biased threshold. What dropping items costs is enumerated as well, and
equals what the mechanism prints.
"""

import itertools
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

from faintly.audit import checks
from faintly.core import ReportBatch, Universe
from faintly.errors import InvalidPlan
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.retrieval import Retrieval, sizes
from faintly.mechanisms.retrieval.law import RetrievalLaw
from faintly.planner import make_plan
from faintly.primitives import hashing
from tests.conformance import suite

EPSILONS = [0.5, 1.0, 2.0, 3.0]
SIGNS = (-1.0, 0.0, 1.0)
DIRECT = {"decode": "direct"}


def small(epsilon=1.0, kind=Retrieval, **changes):
    wanted = {"sparsity": 2, "bits": 2, "clients": 4, "universe": 8, "salt": bytes(16)}
    plan = make_plan(protect="event", epsilon=epsilon, mechanism="retrieval", **(wanted | changes))
    mechanism_of(plan)
    return kind.from_plan(plan)


def over(mechanism, maps):
    """The mechanism with these maps for outcomes.

    Signs are left at +1: a sign turns v into -v, and the grids hold both.
    """
    outcomes = [tuple((0, row, 1) for row in rows) for rows in maps]
    mechanism.law.outcomes = lambda items: iter(outcomes)
    return mechanism


def every_map(items, bits):
    return list(itertools.product(range(2**bits), repeat=items))


def some_maps(count, items, bits):
    drawn = np.random.default_rng(1).integers(0, 2**bits, (count, items))
    return [tuple(rows) for rows in drawn.tolist()]


# sparsity, bits, items and maps: more items than bits, and k+2 of them.
MAPS = {
    "all 256 maps of 4 items into 2 bits": (2, 2, 4, every_map(4, 2)),
    "all 512 maps of 3 items into 3 bits": (1, 3, 3, every_map(3, 3)),
    "40 maps of 5 items into 3 bits": (3, 3, 5, some_maps(40, 5, 3)),
}
LARGEST = "40 maps of 5 items into 3 bits"  # 3125 vectors each: two epsilons are enough


CASES = [(e, name) for name in MAPS for e in (EPSILONS if name != LARGEST else [1.0, 3.0])]


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "name"), CASES)
def test_every_map_keeps_epsilon(epsilon, name):
    sparsity, bits, items, maps = MAPS[name]
    mechanism = over(small(epsilon, sparsity=sparsity, bits=bits, **DIRECT), maps)
    verdict = checks.check_privacy(mechanism, checks.GRID, items)
    assert verdict.holds, verdict
    assert verdict.measured == pytest.approx(mechanism.guarantee().budget.epsilon, abs=1e-12)
    assert verdict.measured > epsilon - 1e-8


TABLES = {
    "direct": (DIRECT, 3),
    "one cell": ({"universe": 2}, 4),
    "two blocks": ({"universe": 4, "blocks": 2}, 3),
    "open": ({"universe": Universe.open(), "bits": 3}, 3),
}


@pytest.mark.parametrize(("changes", "items"), TABLES.values(), ids=TABLES)
def test_every_outcome_of_the_hash_keeps_epsilon(changes, items):
    """Blocks, rows and signs, as the mechanism itself lists them, and the whole suite."""
    mechanism = small(**changes)
    for verdict in suite.conformance(mechanism, SIGNS, items):
        assert verdict.holds, verdict
    assert verdict.measured > 1 - 1e-8


class CutFirstLaw(RetrievalLaw):
    def probabilities(self, values, outcome):
        kept = self.plan.sparsity
        return super().probabilities(values[:kept], outcome[:kept])


class CutFirst(Retrieval):
    """Mutant: only the first k items of the public order enter the elimination."""

    law = cached_property(CutFirstLaw)


class CutRandomLaw(RetrievalLaw):
    def probabilities(self, values, outcome):
        kept = min(len(values), self.plan.sparsity)
        chosen = list(itertools.combinations(range(len(values)), kept))
        laws = [
            RetrievalLaw.probabilities(self, [values[i] for i in some], [outcome[i] for i in some])
            for some in chosen
        ]
        return sum(laws) / len(laws)


class CutRandom(Retrieval):
    """Mutant: a uniform random k of the items enter the elimination."""

    law = cached_property(CutRandomLaw)


PLAN = {
    "protect": "event",
    "epsilon": 1.0,
    "clients": 1000,
    "universe": 1378,
    "mechanism": "retrieval",
}


@pytest.mark.parametrize(
    "changes",
    [DIRECT, *(pytest.param(one, marks=pytest.mark.long) for one in ({}, {"sparsity": 40}))],
    ids=str,
)
def test_small_cases_are_sound_and_notice_a_cut(changes):
    mechanism = mechanism_of(make_plan(**PLAN, **{"sparsity": 6} | changes))
    noticed = False
    for case in mechanism.law.small_cases():
        verdict = checks.check_privacy(case.mechanism, case.grid, case.items)
        assert verdict.holds, verdict
        mutant = CutFirst.from_plan(case.mechanism.plan)
        noticed = noticed or not checks.check_privacy(mutant, case.grid, case.items).holds
    assert noticed


def threshold(mechanism, by):
    return replace(mechanism, keep=mechanism.keep + by)


MUTANTS = {
    "cut to the first k": (over(small(kind=CutFirst, **DIRECT), every_map(4, 2)), 1.62),
    "cut to a random k": (over(small(kind=CutRandom, **DIRECT), every_map(4, 2)), 1.07),
    "half the noise": (over(replace(small(**DIRECT), keep=3782994644), every_map(4, 2)), 2.0),
    "a biased coin": (over(threshold(small(**DIRECT), 2**26), every_map(4, 2)), 1.08),
    "half the noise, table": (replace(small(universe=2), keep=3782994644), 2.0),
}


@pytest.mark.parametrize(("mechanism", "loss"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_fail_the_same_check(mechanism, loss):
    verdict = checks.check_privacy(mechanism, SIGNS, 4)
    assert not verdict.holds, verdict
    assert verdict.measured == pytest.approx(loss, abs=0.01), verdict


@pytest.mark.parametrize("keep", [3782994644, 3139872686 + 2**26, 3139872687])
def test_plans_that_carry_a_mutant_threshold_are_refused(keep):
    plan = small(**DIRECT).plan
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(replace(plan, parameters={**plan.parameters, "keep": keep}))


# Bias: what dropping loses is what `relative_bias` says, to the last digits.


def enumerated_bias(mechanism, values, outcomes):
    """Expectation minus truth at each item, over equally likely outcomes, relative to values."""
    total = np.zeros(len(values))
    for outcome in outcomes:
        law = mechanism.law.probabilities(values, outcome)
        for place, (_, row, sign) in enumerate(outcome):
            signs = hashing.to_signs(hashing.parity(np.arange(len(law)) & row))
            total[place] += sign * float(law @ signs)
    return total / len(outcomes) * mechanism.scale / np.array(values) - 1


def distinct(outcomes):
    return [one for one in outcomes if len({row for _, row, _ in one}) == len(one)]


BIAS = {
    "direct, one item": ({**DIRECT, "bits": 2, "sparsity": 1}, False),
    "direct, two items": ({**DIRECT, "bits": 2}, False),
    "direct, three items": ({**DIRECT, "bits": 3, "sparsity": 3}, False),
    "folded, three items": ({"universe": Universe.open(), "bits": 3, "sparsity": 3}, False),
    "distinct, four items": ({"universe": 4, "bits": 3, "sparsity": 4, "blocks": 2}, True),
}


@pytest.mark.parametrize(("changes", "apart"), BIAS.values(), ids=BIAS)
def test_enumerated_bias_is_the_printed_one(changes, apart):
    mechanism = small(**changes)
    k, shape = mechanism.plan.sparsity, sizes.Shape(mechanism.bits, 1, mechanism.plan.hashing.maps)
    mechanism = replace(mechanism, blocks=1)  # one cell; blocks only mix loads, below
    outcomes = list(mechanism.law.outcomes(k))
    bias = enumerated_bias(
        mechanism, (0.5, -1.0, 0.25, 1.0)[:k], distinct(outcomes) if apart else outcomes
    )
    chances = sizes.drop_chances(k, shape, apart)
    np.testing.assert_allclose(bias, -chances, atol=1e-12)
    assert (chances <= 2.0 ** (np.arange(k) - mechanism.bits) + 1e-15).all()
    printed = sizes.relative_bias(k, shape, apart)
    assert -bias.mean() == pytest.approx(printed, abs=1e-12)
    if changes["sparsity" if "sparsity" in changes else "bits"] == 1:
        assert printed == 2.0**-mechanism.bits


def test_blocks_mix_the_loads():
    """Three items thrown into two blocks, all ways: the loss is the mean over their loads."""
    shape = sizes.Shape(3, 2, 1)
    total = 0.0
    for blocks in itertools.product(range(2), repeat=3):
        load = blocks.count(blocks[0])
        total += sizes.drop_chances(load, shape, False).mean()
    assert sizes.relative_bias(3, shape, False) == pytest.approx(total / 8, abs=1e-15)


def test_reports_read_by_the_server_have_the_printed_bias():
    """Hash, order, law and `read` together: one seed for each outcome, all equally likely."""
    mechanism, values = small(**DIRECT), np.array([1.0, -0.5])
    ids, seeds = np.arange(3, dtype=np.uint64), np.arange(2**15, dtype=np.uint64)
    each = [np.repeat(seeds, 3), np.tile(ids, len(seeds))]
    rows, coins, order = (
        hashing.hash_words(*each, tag, 1, "prf").reshape(-1, 3)
        for tag in (hashing.EQUATION, hashing.COIN, hashing.ORDER)
    )
    straight = order[:, :1] <= order[:, 1:2]
    outcomes = np.concatenate([rows & 3, coins & 1, straight], axis=1)
    found, first = np.unique(outcomes, axis=0, return_index=True)
    assert len(found) == 2 * 8**3  # every outcome of the hash and of the order of two items
    total = np.zeros(3)
    for outcome, seed in zip(found.tolist(), seeds[first], strict=True):
        entry = [
            (0, row, 1 - 2 * coin) for row, coin in zip(outcome[:3], outcome[3:6], strict=True)
        ]
        taken = [0, 1] if outcome[6] else [1, 0]
        law = mechanism.law.probabilities(values[taken], [entry[place] for place in taken])
        for report, chance in enumerate(law):
            fields = np.array([[report]], dtype=np.uint32)
            batch = ReportBatch(mechanism.plan.digest, np.array([seed]), fields)
            total += chance * mechanism.read(batch, ids) * mechanism.scale
    bias = total / len(found) - np.array([*values, 0.0])
    np.testing.assert_allclose(bias[:2], -mechanism.forecast.relative_bias() * values, atol=1e-12)
    assert abs(bias[2]) < 1e-12
