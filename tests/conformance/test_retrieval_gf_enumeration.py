"""Retrieval over GF(q), enumerated: losses, the exact delta and biases, and what breaks them.

Rows are listed, not drawn: dependent ones, repeated ones and zero are among them. Signs stay at
+1 where only losses are compared, since a sign turns v into -v and the grids hold both.
"""

import itertools
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

from faintly.audit import checks
from faintly.errors import InvalidPlan, TooManyItems
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.retrieval_gf import RetrievalGf
from faintly.mechanisms.retrieval_gf.channel import full_channel, span_safe_channel
from faintly.mechanisms.retrieval_gf.law import RetrievalGfLaw
from faintly.planner import make_plan
from faintly.primitives import galois
from faintly.primitives.fields import inner_products
from tests.conformance import suite

SIGNS = (-1.0, 0.0, 1.0)
TIGHT = 0.999999  # the worst pair must come this close to epsilon, or the check is vacuous


def small(form, epsilon=1.0, *, sparsity=2, universe=4, kind=RetrievalGf, **options):
    plan = make_plan(
        protect="event",
        epsilon=epsilon,
        sparsity=sparsity,
        clients=4,
        universe=universe,
        mechanism="retrieval-gf",
        decode="direct",
        salt=bytes(16),
        form=form,
        **options,
    )
    mechanism_of(plan)
    return kind.from_plan(plan)


def over(mechanism, outcomes):
    """The mechanism with these outcomes of the hash and no others."""
    listed = list(outcomes)
    mechanism.law.outcomes = lambda items: iter(listed)
    return mechanism


def placed(rows, sign=1):
    return tuple((row, sign, rank) for rank, row in enumerate(rows))


def every_map(items, bits, symbols):
    rows = list(itertools.product(range(2**bits), repeat=symbols))
    return [placed(chosen) for chosen in itertools.product(rows, repeat=items)]


def some_maps(count, items, bits, symbols):
    drawn = np.random.default_rng(1).integers(0, 2**bits, (count, items, symbols))
    return [placed([tuple(row) for row in rows]) for rows in drawn.tolist()]


# symbol_bits, symbols, sparsity, items, grid and maps: k+1 or k+2 items, more than symbols.
SPAN_SAFE = {
    "all 64 maps of 3 items into GF(4)": (2, 1, 1, 3, checks.GRID, every_map(3, 2, 1)),
    "all 256 maps of 2 items into GF(4)²": (2, 2, 1, 2, checks.GRID, every_map(2, 2, 2)),
    "150 maps of 4 items into GF(4)²": (2, 2, 2, 4, SIGNS, some_maps(150, 4, 2, 2)),
    "100 maps of 3 items into GF(8)²": (3, 2, 1, 3, SIGNS, some_maps(100, 3, 3, 2)),
    "all 256 maps of 2 items into GF(16)": (4, 1, 1, 2, checks.GRID, every_map(2, 4, 1)),
}


@pytest.mark.parametrize("case", SPAN_SAFE.values(), ids=SPAN_SAFE)
@pytest.mark.parametrize("epsilon", [2.0, pytest.param(3.0, marks=pytest.mark.long)])
def test_span_safe_keeps_epsilon_for_every_map_and_any_number_of_items(epsilon, case):
    bits, symbols, sparsity, items, grid, maps = case
    mechanism = small("span-safe", epsilon, sparsity=sparsity, symbol_bits=bits, symbols=symbols)
    verdict = checks.check_privacy(over(mechanism, maps), grid, items)
    assert verdict.holds, verdict
    assert verdict.measured >= TIGHT * epsilon, verdict


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_span_safe_keeps_small_epsilons_as_well(epsilon):
    mechanism = small("span-safe", epsilon, symbol_bits=2, symbols=2)
    verdict = checks.check_privacy(over(mechanism, some_maps(60, 4, 2, 2)), SIGNS, 4)
    assert verdict.holds, verdict


class CutFirstLaw(RetrievalGfLaw):
    def probabilities(self, values, outcome):
        order = sorted(zip(outcome, values, strict=True), key=lambda one: one[0][2])
        held = order[: self.plan.sparsity]
        return super().probabilities([value for _, value in held], [place for place, _ in held])


class CutFirst(RetrievalGf):
    """Mutant: keeps the first k items of the order before the elimination."""

    law = cached_property(CutFirstLaw)


def with_channel(mechanism, channel):
    return replace(mechanism, channel=channel)


def moved_weight(mechanism):
    """A twentieth of the light weight of the first class goes to its heavy one."""
    channel = mechanism.channel
    moved = channel.minus[0] // 20
    plus = (channel.plus[0] + moved, *channel.plus[1:])
    minus = (channel.minus[0] - moved, *channel.minus[1:])
    return with_channel(mechanism, replace(channel, plus=plus, minus=minus))


SPAN = small("span-safe", 2.0, symbol_bits=2, symbols=2)
POINTS = small("polynomial", 1.0, symbol_bits=2, symbols=2, seed_bytes=2)
SPAN_MUTANTS = {
    "half the noise": with_channel(SPAN, span_safe_channel(2, 4.0)),
    "a weight moved": moved_weight(SPAN),
    "a channel for independent rows": with_channel(SPAN, full_channel(2, 2.0)),
}


@pytest.mark.parametrize("mechanism", SPAN_MUTANTS.values(), ids=SPAN_MUTANTS)
def test_span_safe_mutants_fail_the_same_check_and_their_plans_are_refused(mechanism):
    verdict = checks.check_privacy(over(mechanism, some_maps(60, 3, 2, 2)), SIGNS, 3)
    assert not verdict.holds, verdict
    assert verdict.measured > 1.01 * 2.0, verdict
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(lying(mechanism))


def test_a_cut_to_k_before_the_elimination_fails():
    mechanism = small("span-safe", 2.0, symbol_bits=2, symbols=2, kind=CutFirst)
    verdict = checks.check_privacy(over(mechanism, some_maps(150, 4, 2, 2)), SIGNS, 4)
    assert not verdict.holds, verdict
    assert verdict.measured > 1.2 * 2.0, verdict


def lying(mechanism):
    """The plan that would carry a mutant's weights."""
    channel = mechanism.channel
    changed = {
        name: list(getattr(channel, name)) for name in ("pairs", "plus", "minus", "readings")
    }
    return replace(mechanism.plan, parameters={**mechanism.plan.parameters, **changed})


# symbol_bits, sparsity = items, symbols and grid; with and without a seed.
POLYNOMIAL = {
    "q = 4, k = 2": (2, 2, 2, checks.GRID),
    "q = 4, k = 3": (2, 3, 3, SIGNS),
    "q = 4, k = 3, a spare symbol": (2, 3, 4, SIGNS),
    "q = 8, k = 2": (3, 2, 2, checks.GRID),
    "q = 8, k = 3": (3, 3, 3, SIGNS),
}


@pytest.mark.parametrize("case", POLYNOMIAL.values(), ids=POLYNOMIAL)
@pytest.mark.parametrize("epsilon", [0.5, pytest.param(1.0, marks=pytest.mark.long), 2.0])
def test_polynomial_keeps_epsilon_with_all_collisions(epsilon, case):
    bits, sparsity, symbols, grid = case
    mechanism = small(
        "polynomial", epsilon, sparsity=sparsity, symbol_bits=bits, symbols=symbols, seed_bytes=2
    )
    points = [(point, 1) for point in range(2**bits)]
    maps = itertools.product(points, repeat=sparsity)
    verdict = checks.check_privacy(over(mechanism, maps), grid, sparsity)
    assert verdict.holds, verdict
    assert verdict.measured >= TIGHT * epsilon, verdict


def test_polynomial_refuses_more_than_k_items_whatever_their_points():
    for outcome in (((0, 1), (1, 1), (2, 1)), ((0, 1), (0, 1), (0, -1))):
        with pytest.raises(TooManyItems, match="at most 2 items"):
            POINTS.law.probabilities((1.0, 1.0, 1.0), outcome)
    assert POINTS.law.probabilities(
        (1.0, 0.0, 1.0), ((0, 1), (1, 1), (2, 1))
    ).sum() == pytest.approx(1)


class OneByOneLaw(RetrievalGfLaw):
    def probabilities(self, values, outcome):
        law = np.full(self.mechanism.order**self.mechanism.symbols, 1.0)
        for value, place in zip(values, outcome, strict=True):
            if value:
                law *= super().probabilities((value,), (place,))
        return law / law.sum()


class OneByOne(RetrievalGf):
    """Mutant: items that share a point answer one after the other, as if their bin were two."""

    law = cached_property(OneByOneLaw)


@pytest.mark.parametrize(
    "mechanism",
    [
        with_channel(POINTS, full_channel(2, 2.0)),
        moved_weight(POINTS),
        small("polynomial", symbol_bits=2, symbols=2, seed_bytes=2, kind=OneByOne),
    ],
    ids=["half the noise", "a weight moved", "colliding items answer one by one"],
)
def test_polynomial_mutants_fail_the_same_check(mechanism):
    verdict = checks.check_privacy(mechanism, SIGNS, 2)
    assert not verdict.holds, verdict
    assert verdict.measured > 1.02, verdict


# epsilon, symbol_bits and the loss of two items with dependent rows.
DEPENDENT = [
    (1.0, 2, 1.870),
    (2.0, 2, 3.189),
    pytest.param(1.0, 3, 2.000, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("epsilon", "bits", "loss"), DEPENDENT)
def test_full_keeps_epsilon_on_independent_rows_and_twice_that_on_all(epsilon, bits, loss):
    options = {"symbol_bits": bits, "symbols": 2, "delta": 0.4}
    mechanism = small("full", epsilon, **options)
    free, tied = [], []
    for first, second in itertools.product(itertools.product(range(2**bits), repeat=2), repeat=2):
        maps = free if _independent(first, second, bits) else tied
        maps.append(placed([first, second]))
    pairs = list(checks.neighbours(mechanism.plan.unit, SIGNS, 2))
    assert checks.worst_pair(over(mechanism, free), pairs)[0] <= epsilon + checks.SLACK
    worst = checks.worst_pair(over(mechanism, tied), pairs)[0]
    assert worst == pytest.approx(loss, abs=6e-4)
    assert worst <= 2 * epsilon + checks.SLACK


def _independent(first, second, bits):
    both = np.stack([inner_products(first, 2**bits), inner_products(second, 2**bits)])
    return len(np.unique(both, axis=1).T) == 4**bits


@pytest.mark.long
@pytest.mark.parametrize("symbols", [2, 3])
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_full_keeps_its_delta_exactly(epsilon, symbols):
    delta = 4.0 ** (2 - symbols) / 3 + 1e-9
    mechanism = small("full", epsilon, symbol_bits=2, symbols=symbols, delta=delta)
    mechanism = over(mechanism, every_map(2, 2, symbols))
    proven = mechanism.guarantee().budget.delta
    pairs = [
        ((0.0, 1.0), (1.0, 1.0)),
        ((0.0, -1.0), (1.0, -1.0)),
        ((0.0, 1.0), (-1.0, 1.0)),
    ]
    worst = checks.exact_deltas(mechanism, pairs, epsilon).max()
    assert 0 < worst <= proven <= delta


def test_dependent_codes_break_the_delta_of_the_full_form():
    """What a linear hash could do to a chosen pair of keys: rows that are always dependent."""
    delta = 4.0**-1 / 3 + 1e-9
    mechanism = small("full", symbol_bits=2, symbols=3, delta=delta)
    rows = [row for row in itertools.product(range(4), repeat=3) if any(row)]
    doubled = [tuple(galois.multiply(np.array(row), np.array(2), 2).tolist()) for row in rows]
    tied = over(mechanism, [placed(pair) for pair in zip(rows, doubled, strict=True)])
    assert checks.exact_delta(tied, (0.0, -1.0), (1.0, -1.0), 1.0) > 4 * delta


@pytest.mark.long
def test_biases_of_points_drawn_by_a_seed_are_what_is_printed():
    bias = suite.exact_bias(POINTS, (1.0, 1.0))
    assert bias[:2] == pytest.approx([-POINTS.forecast.relative_bias()] * 2, abs=checks.SLACK)
    assert bias[2] == pytest.approx(0.0, abs=checks.SLACK)
    mixed = suite.exact_bias(POINTS, (1.0, -0.5))
    assert (np.abs(mixed[:2]) <= POINTS.forecast.relative_bias() * np.array([1, 0.5]) + 1e-12).all()
    assert mixed[2] == pytest.approx(0.0, abs=checks.SLACK)


@pytest.mark.parametrize("values", [(1.0, 1.0), (1.0, -0.5), (0.25, -1.0), (-1.0, -1.0)])
def test_without_a_seed_a_spare_symbol_makes_estimates_exactly_unbiased(values):
    spare = small("polynomial", symbol_bits=2, seed_bytes=0)
    assert spare.symbols == 3
    assert spare.forecast.relative_bias() == 0
    assert np.abs(suite.exact_bias(spare, values)).max() <= checks.SLACK
    # With k symbols a client of k items says something about keys that it does not hold.
    tight = small("polynomial", symbol_bits=2, symbols=2, seed_bytes=0)
    bias = suite.exact_bias(tight, values)
    assert np.abs(bias[:2]).max() <= checks.SLACK
    assert abs(bias[2]) <= tight.forecast.relative_bias()


def test_the_spare_symbol_is_needed():
    tight = small("polynomial", symbol_bits=2, symbols=2, seed_bytes=0)
    assert suite.exact_bias(tight, (1.0, 1.0))[2] > 0.5
    assert np.abs(suite.exact_bias(tight, (1.0,))).max() <= checks.SLACK


def span_bias(mechanism, values, watched):
    """Mean reading over all rows and signs at an item (or one not held) minus its value."""
    bits, symbols = mechanism.bits, mechanism.symbols
    rows = list(itertools.product(range(2**bits), repeat=symbols))
    total, count = 0.0, 0
    for chosen in itertools.product(rows, repeat=max(len(values), watched + 1)):
        for signs in itertools.product((1, -1), repeat=len(chosen)):
            outcome = tuple(zip(chosen, signs, strict=True))
            law = mechanism.law.probabilities(values, outcome[: len(values)])
            read = (
                mechanism.channel.counted[inner_products(chosen[watched], 2**bits)] * signs[watched]
            )
            total += mechanism.scale * float(law @ read)
            count += 1
    truth = values[watched] if watched < len(values) else 0.0
    return total / count - truth


@pytest.mark.long
def test_dropped_items_of_span_safe_lose_what_is_printed():
    one = small("span-safe", 2.0, sparsity=1, symbol_bits=2, symbols=2)
    assert span_bias(one, (1.0,), 0) == pytest.approx(
        -one.forecast.relative_bias(), abs=checks.SLACK
    )
    assert one.forecast.relative_bias() == 1 / 16
    two = small("span-safe", 2.0, symbol_bits=2, symbols=2)
    first, last = span_bias(two, (1.0, -0.5), 0), span_bias(two, (1.0, -0.5), 1)
    assert first == pytest.approx(-1 / 16, abs=checks.SLACK)
    assert last == pytest.approx(0.5 * (1 / 16 / 16 + 15 / 16 / 4), abs=checks.SLACK)
    assert max(abs(first), abs(last) / 0.5) <= two.forecast.relative_bias()
    assert span_bias(two, (1.0, -0.5), 2) == pytest.approx(0.0, abs=checks.SLACK)
    with pytest.raises(InvalidPlan, match="1 symbols cannot hold 2 items; use at least 2"):
        small("span-safe", 2.0, symbol_bits=2, symbols=1)


@pytest.mark.parametrize("form", ["span-safe", "polynomial", "full"])
def test_a_key_outside_the_span_reads_exactly_uniform(form):
    options = {"delta": 0.4, "symbols": 2} if form == "full" else {"symbols": 2}
    mechanism = small(form, symbol_bits=2, **options)
    polynomial = form == "polynomial"
    held = ((1, 1),) if polynomial else placed([(1, 1)])
    law = mechanism.law.probabilities((1.0,), held)
    symbols = inner_products((1, 2), 4)
    assert np.bincount(symbols, law, 4) == pytest.approx([0.25] * 4, abs=checks.SLACK)
    assert np.bincount(inner_products((1, 1), 4), law, 4) == pytest.approx(
        mechanism.channel.factors(1) / 4, abs=checks.SLACK
    )


@pytest.mark.long
def test_small_cases_of_every_form_pass_the_auditor_s_check():
    for options in (
        {"form": "span-safe", "symbol_bits": 4},
        {"form": "polynomial"},
        {"form": "polynomial", "symbol_bits": 8, "seed_bytes": 2},
        {"form": "full", "delta": 1e-9},
    ):
        mechanism = small(options.pop("form"), 1.5, sparsity=6, universe=1000, **options)
        cases = list(mechanism.law.small_cases())
        assert cases
        for case in cases:
            verdict = checks.check_privacy(case.mechanism, case.grid, case.items)
            assert verdict.holds, verdict
