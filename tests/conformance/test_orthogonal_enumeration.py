"""Orthogonal keeps epsilon for every map: rows that repeat, depend or are 0, more items than fit.

A greedy basis and signs per key, which look harmless, fail the same check; so does half the noise.
Means over all maps are enumerated too, and a zero report that is read as a hit shows there.
"""

import itertools
import math
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

from faintly.audit import checks
from faintly.core import Universe
from faintly.errors import InvalidPlan
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.orthogonal import Orthogonal
from faintly.mechanisms.orthogonal.law import OrthogonalLaw, mask_of
from faintly.planner import make_plan
from tests.conformance import suite

EPSILONS = [0.5, 1.0, 2.0, 3.0]
SETS, VALUES = (0.0, 1.0), (0.0, 0.5, 1.0)


def small(epsilon=1.0, kind=Orthogonal, **changes):
    wanted = {"decode": "direct", "sparsity": 2, "bits": 2, "clients": 4, "universe": 8, "maps": 1}
    wanted |= {"rows": 1, "levels": 1, "values": "nonnegative", "salt": bytes(16)}
    plan = make_plan(protect="event", epsilon=epsilon, mechanism="orthogonal", **wanted | changes)
    mechanism_of(plan)
    return kind.from_plan(plan)


def entry(rows, mechanism):
    """The outcome of one item with these rows."""
    first = rows[: mechanism.channel.rows]
    return 0, mask_of(first, mechanism.bits), mask_of(rows, mechanism.bits)


def over(mechanism, maps):
    """The mechanism with these maps for outcomes: each has the rows of every item."""
    outcomes = [tuple(entry(rows, mechanism) for rows in one) for one in maps]
    mechanism.law.outcomes = lambda items: iter(outcomes)
    return mechanism


def every_map(items, rows, bits):
    return itertools.product(itertools.product(range(2**bits), repeat=rows), repeat=items)


def some_maps(count, items, rows, bits):
    return np.random.default_rng(1).integers(0, 2**bits, (count, items, rows)).tolist()


ONE, TWO, LEVELS = {"rows": 1}, {"rows": 2}, {"rows": 1, "levels": 2}
# options, bits, items, values and maps: more items than fit, and k+2 of them.
MAPS = {
    "1 row, all 256 maps of 4 items into 2 bits": (ONE, 2, 4, SETS, every_map(4, 1, 2)),
    "1 row, all 512 maps of 3 items into 3 bits": (ONE, 3, 3, SETS, every_map(3, 1, 3)),
    "1 row, all 64 maps of 3 items into 2 bits": (ONE, 2, 3, VALUES, every_map(3, 1, 2)),
    "2 rows, all 256 maps of 2 items into 2 bits": (TWO, 2, 2, VALUES, every_map(2, 2, 2)),
    "2 rows, 300 maps of 3 items into 3 bits": (TWO, 3, 3, SETS, some_maps(300, 3, 2, 3)),
    "2 rows, 100 maps of 4 items into 2 bits": (TWO, 2, 4, SETS, some_maps(100, 4, 2, 2)),
    "2 rows, 40 maps of 3 items into 5 bits": (TWO, 5, 3, SETS, some_maps(40, 3, 2, 5)),
    "1 and 2 rows, 40 maps of 3 items": (LEVELS, 3, 3, VALUES, some_maps(40, 3, 2, 3)),
}
MAPS = {name: (*case[:-1], list(case[-1])) for name, case in MAPS.items()}
CASES = [(e, name) for name in MAPS for e in EPSILONS if "and" not in name or e <= 1.0]


@pytest.mark.parametrize(("epsilon", "name"), CASES)
def test_every_map_keeps_epsilon(epsilon, name):
    options, bits, items, grid, maps = MAPS[name]
    mechanism = over(small(epsilon, bits=bits, **options), maps)
    proven = mechanism.guarantee().budget.epsilon
    verdict = checks.check_privacy(mechanism, grid, items)
    assert verdict.holds, verdict
    assert verdict.measured <= proven + 1e-12
    assert verdict.measured == pytest.approx(proven, abs=1e-8)  # and it is reached


TABLES = {
    "direct": ({}, 4),
    "one cell": ({"decode": "table", "rows": 2, "bits": 4, "universe": 4, "blocks": 1}, 3),
    "two blocks": ({"decode": "table", "bits": 2, "universe": 4, "blocks": 2}, 3),
    "open": ({"decode": "table", "bits": 3, "universe": Universe.open(), "maps": 4}, 3),
    "two levels": ({"decode": "table", "bits": 4, "universe": 4, "levels": 2}, 3),
}


@pytest.mark.parametrize(("changes", "items"), TABLES.values(), ids=TABLES)
def test_every_outcome_of_the_hash_keeps_epsilon(changes, items):
    """Blocks and rows, as the mechanism itself lists them, and the whole suite."""
    for verdict in suite.conformance(small(**changes), SETS, items):
        assert verdict.holds, verdict
    assert verdict.measured > 1 - 1e-8


def uniform(rows, targets, bits):
    """The law of a uniform cell with these answers; None where they contradict each other."""
    asked = list(zip(rows, targets, strict=True))
    fits = np.array(
        [
            all((cell & row).bit_count() % 2 == target for row, target in asked)
            for cell in range(2**bits)
        ],
        dtype=float,
    )
    return fits / fits.sum() if fits.any() else None


class RowLaw(OrthogonalLaw):
    """A law whose outcomes are rows, and of which every item asks or does not."""

    def probabilities(self, values, outcome):
        total, tau = np.zeros(2**self.mechanism.bits), self.mechanism.channel.tau
        for spoken in itertools.product((False, True), repeat=len(values)):
            chance = math.prod(
                tau * value if said else 1 - tau * value
                for said, value in zip(spoken, values, strict=True)
            )
            total += chance * self.report(list(itertools.compress(outcome, spoken)))
        return total

    def report(self, asked):
        return uniform([row for row, _ in asked], [0] * len(asked), self.mechanism.bits)


class SignsPerKeyLaw(RowLaw):
    def report(self, asked):
        taken, bits = [], self.mechanism.bits
        for one in asked:
            if uniform(*zip(*taken, one, strict=True), bits) is not None:
                taken.append(one)
        return uniform(*(zip(*taken, strict=True) if taken else ((), ())), bits)


class GreedyBasisLaw(OrthogonalLaw):
    def probabilities(self, values, outcome):
        bits, tau = self.mechanism.bits, self.mechanism.channel.tau
        law, basis, hit = np.full(2**bits, 2.0**-bits), [0], (1 + tau) / 2
        for value, (row, _) in zip(values, outcome, strict=True):
            if row in basis:
                continue
            basis += [known ^ row for known in basis]
            even = uniform([row], [0], bits) > 0
            law *= np.where(even, 1 + value * (2 * hit - 1), 1 - value * (2 * hit - 1))
        return law


class Rows(Orthogonal):
    """The mechanism itself, known by rows."""

    law = cached_property(RowLaw)


class SignsPerKey(Orthogonal):
    """Mutant: a public target for each key; what contradicts earlier askings is dropped."""

    law = cached_property(SignsPerKeyLaw)


class GreedyBasis(Orthogonal):
    """Mutant: of items whose rows depend on each other the first alone answers, hit or miss."""

    law = cached_property(GreedyBasisLaw)


def with_targets(mechanism, maps, signs):
    outcomes = [
        tuple(zip(rows, targets, strict=True))
        for rows in maps
        for targets in itertools.product(signs, repeat=len(rows))
    ]
    mechanism.law.outcomes = lambda items: iter(outcomes)
    return mechanism


PLAIN = list(itertools.product(range(4), repeat=3))


def test_outcomes_of_rows_are_the_same_law():
    mechanism = with_targets(small(kind=Rows), PLAIN, (0,))
    verdict = checks.check_privacy(mechanism, SETS, 3)
    assert verdict.holds, verdict
    assert verdict.measured > 1 - 1e-8


@pytest.mark.parametrize(
    ("kind", "signs", "epsilon", "loss"),
    [
        (SignsPerKey, (0, 1), 1.0, 2.27),
        (SignsPerKey, (0, 1), 2.0, 4.55),
        (GreedyBasis, (0,), 1.0, 1.49),
        (GreedyBasis, (0,), 2.0, 2.62),
    ],
)
def test_signs_and_a_basis_fail_the_same_check(kind, signs, epsilon, loss):
    mechanism = with_targets(small(epsilon, kind=kind), PLAIN, signs)
    verdict = checks.check_privacy(mechanism, SETS, 3)
    assert not verdict.holds, verdict
    assert verdict.measured == pytest.approx(loss, abs=0.01), verdict


class NewDrawLaw(RowLaw):
    def report(self, asked):
        law = super().report(asked)
        law[0] = 0.0 if law[0] < 1 else 1.0
        return law / law.sum()


class NewDraw(Orthogonal):
    """Mutant: a cell that is 0 is drawn again, if there is another one."""

    law = cached_property(NewDrawLaw)


class FirstSpeaksLaw(RowLaw):
    def report(self, asked):
        return super().report(asked[: self.plan.sparsity - 1])


class FirstSpeaks(Orthogonal):
    """Mutant: items ask in their order, and no more of them than the plan expects."""

    law = cached_property(FirstSpeaksLaw)


@pytest.mark.parametrize("kind", [NewDraw, FirstSpeaks])
def test_new_draws_and_an_order_fail_the_same_check(kind):
    mechanism = with_targets(small(kind=kind), PLAIN, (0,))
    verdict = checks.check_privacy(mechanism, SETS, 3)
    assert not verdict.holds, verdict


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("rows", [1, 2])
def test_plans_that_carry_too_large_a_threshold_are_refused(epsilon, rows):
    plan = small(epsilon, rows=rows).plan
    words = plan.parameters["speak"][0] + 2
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(replace(plan, parameters={**plan.parameters, "speak": [words]}))


def read_rows(channel, cell, rows):
    """One report's reading at a key, by the definition."""
    first = all((cell & row).bit_count() % 2 == 0 for row in rows[: channel.rows])
    every = all((cell & row).bit_count() % 2 == 0 for row in rows)
    return (
        channel.readings[int(first) + int(every)]
        if channel.most > channel.rows
        else (channel.readings[2 if every else 0])
    )


def mean_readings(mechanism, values, *, zero_counts=False):
    """Mean of the estimate at each item and at one that is not held, and P(0 | it speaks)."""
    channel, bits = mechanism.channel, mechanism.bits
    maps = list(every_map(len(values) + 1, channel.most, bits))
    total, full = np.zeros(len(values) + 1), 0.0
    for rows in maps:
        law = mechanism.law.probabilities(values, [entry(one, mechanism) for one in rows[:-1]])
        for cell in range(0 if zero_counts else 1, 2**bits):
            said = [read_rows(channel, cell, one) for one in rows]
            total += law[cell] * mechanism.scale * np.array(said)
        others = [mask_of(one, bits) & mask_of(rows[0], bits) for one in rows[1:-1]]
        speaking = channel.tau * values[1] if len(values) > 1 else 0.0
        alone = 1 / mask_of(rows[0], bits).bit_count()
        full += (1 - speaking) * alone + sum(speaking / one.bit_count() for one in others)
    return total / len(maps), full / len(maps)


@pytest.mark.parametrize(
    ("changes", "values"),
    [({"bits": 3}, (1.0, 1.0)), ({"rows": 2}, (1.0,)), ({"bits": 3}, (1.0, 0.5))],
    ids=str,
)
def test_means_over_all_maps_are_the_values_less_full_cells(changes, values):
    mechanism = small(**changes)
    means, full = mean_readings(mechanism, values)
    assert means[-1] == pytest.approx(0.0, abs=1e-14)
    assert means[0] == pytest.approx(1 - full, abs=1e-12)
    if set(values) == {1.0} and len(values) == mechanism.plan.sparsity:
        assert 0 < full <= mechanism.forecast.relative_bias() + 1e-12
    # Mutant: where a report of 0 counts as a hit, keys that nobody holds read too high.
    wrong, _ = mean_readings(mechanism, values, zero_counts=True)
    assert wrong[-1] > 0.05
