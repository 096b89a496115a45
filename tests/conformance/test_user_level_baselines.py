"""Harmony, PrivKV, PCKV, collision and wheel, exactly: every pair, every hash, every report.

Of the collision mechanism with signs the estimates; its privacy is in test_collision_signed.py.

Privacy, bias and variance are enumerated with the server's own reading; mutants (more budget than
promised, a cut that keeps the first items, no padding) must fail the very same checks.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from faintly.audit import checks
from faintly.core import ReportBatch, SparseVector, VectorBatch
from faintly.errors import FaintlyError, InvalidPlan
from faintly.mechanisms import mechanism_class, mechanism_of
from faintly.planner import make_plan
from faintly.primitives.noise import FULL
from faintly_baselines.pckv import odds
from faintly_baselines.pckv.odds import Odds
from tests.conformance import suite

EXACT = 1e-9
SIGNED = (-1.0, 0.0, 0.5, 1.0)
SETS = (0.0, 1.0)
NAMES = ("harmony", "privkv", "pckv grr", "pckv ue", "collision", "wheel")
ESTIMATED = (*NAMES, "collision-signed")
OF_SETS = ("collision", "wheel")
SMALL = {"collision": {"slots": 4}, "wheel": {"slots": 6, "arc": 2}}
SMALL["collision-signed"] = {"slots": 3}


def build(name, *, sparsity=2, epsilon=1.0, universe=4, **options):
    name, *form = name.split()
    if form:
        options["form"] = form[0]
    return mechanism_of(
        make_plan(
            mechanism=name,
            protect="user",
            epsilon=epsilon,
            sparsity=sparsity,
            clients=1000,
            universe=universe,
            decode="direct",
            salt=bytes(16),
            **options,
        )
    )


def small(name, **changes):
    return build(name, **{**SMALL.get(name, {}), **changes})


def grid_of(name):
    return SETS if name in OF_SETS else SIGNED


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("sparsity", [1, 2])
def test_any_change_stays_within_epsilon_for_any_number_of_items(name, epsilon, sparsity):
    """Vectors of k, k+1 and k+2 items against all others."""
    mechanism = small(name, epsilon=epsilon, sparsity=sparsity)
    verdict = checks.check_privacy(mechanism, grid_of(name), sparsity + 2)
    assert verdict.holds, verdict
    proven = mechanism.guarantee().budget.epsilon
    assert verdict.measured == pytest.approx(proven, abs=EXACT)  # the theorem gives nothing away
    if name != "privkv":
        assert proven >= 0.999 * epsilon


def test_privkv_leaves_a_part_of_its_budget_unspent():
    """Presence and sign are told together, so halves of epsilon do not add up."""
    mechanism = build("privkv", epsilon=1.0)
    wanted = 0.5 + math.log(2 / (1 + math.exp(-0.5)))
    assert mechanism.guarantee().budget.epsilon == pytest.approx(wanted, abs=1e-8)


def bolder(mechanism):
    """The same mechanism with the coins of a tenth more budget."""
    plan = mechanism.plan
    name = plan.mechanism if plan.mechanism != "pckv" else f"pckv {mechanism.odds.form}"
    other = small(name, sparsity=plan.sparsity, epsilon=1.1 * plan.budget.epsilon)
    return replace(other, plan=plan)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "privkv"])
def test_more_budget_than_promised_is_noticed(name):
    mechanism = small(name)
    mutant = bolder(mechanism)
    verdict = checks.check_privacy(mutant, grid_of(name), 4)
    assert not verdict.holds, verdict
    lying = small(name, epsilon=1.1).plan
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(replace(lying, budget=mechanism.plan.budget))


def test_privkv_with_all_of_epsilon_for_each_part_is_noticed():
    mechanism = build("privkv")
    mutant = replace(build("privkv", epsilon=2.0), plan=mechanism.plan)
    assert not checks.check_privacy(mutant, SIGNED, 4).holds


@pytest.mark.parametrize("name", ["pckv grr"])
def test_grr_without_padding_is_noticed(name, monkeypatch):
    """Mutant: a client of one item always samples it, while the odds count on one in ℓ."""
    mechanism = small(name)
    sampled = mechanism.law.grr_law
    law = lambda values, outcome: (  # noqa: E731
        sum(sampled(key, value) for key, value in zip(outcome, values, strict=True)) / len(values)
        if len(values)
        else sampled(mechanism.keys, 0.0)
    )
    monkeypatch.setattr(mechanism.law, "probabilities", law)
    verdict = checks.check_privacy(mechanism, SIGNED, 3)
    assert verdict.measured > 1.3, verdict


@pytest.mark.parametrize("name", OF_SETS)
def test_sets_that_are_not_cut_are_noticed(name):
    """Mutant: all of k+2 items cover slots, where the chances count on k at most."""
    ring = {"slots": 8} if name == "collision" else {"slots": 16, "arc": 2}
    sound = small(name, sparsity=1, **ring)
    loose = replace(sound, plan=replace(sound.plan, sparsity=3))
    pairs = list(checks.neighbours(sound.plan.unit, SETS, 3))
    assert checks.worst_pair(sound, pairs)[0] <= 1.0
    assert checks.worst_pair(loose, pairs)[0] > 1.3


def predicted(mechanism, values):
    """The n·Var stated for clients who all hold these items, at each and at one not held."""
    vectors = VectorBatch.of([SparseVector(np.arange(len(values)), np.array(values))] * 3)
    return mechanism.forecast.variances(vectors, np.arange(len(values) + 1, dtype=np.uint64))


VALUES = {name: (1.0, 1.0) if name in OF_SETS else (1.0, -0.3) for name in ESTIMATED}
VALUES["collision-signed"] = (-0.3, 1.0)


@pytest.mark.parametrize("name", ESTIMATED)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_estimates_are_unbiased_and_their_variance_is_as_stated(name, count):
    mechanism = small(name)
    values = VALUES[name][:count]
    mean, variance = suite.exact_moments(mechanism, values)
    assert mean == pytest.approx([*values, 0.0], abs=1e-12)
    assert variance[-1] == pytest.approx(mechanism.forecast.variance(count), rel=1e-12)
    assert variance.max() <= mechanism.forecast.worst_variance() * (1 + 1e-12)
    assert variance == pytest.approx(predicted(mechanism, values), rel=1e-9)
    if name in (*OF_SETS, "harmony"):
        exact = mechanism.variance(mechanism.tables.empty_sketch(), None, np.array([*values, 0.0]))
        assert variance == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "values", "changes"),
    [
        ("pckv grr", (1.0, -0.5, 0.25), {}),
        ("pckv ue", (1.0, -0.5, 0.25), {}),
        ("collision", (1.0, 1.0, 1.0), {}),
        ("wheel", (1.0, 1.0, 1.0), {"slots": 5, "arc": 2}),
        ("collision-signed", (1.0, -1.0), {"sparsity": 1}),
    ],
)
def test_above_k_items_estimates_shrink_by_the_share_that_is_kept(name, values, changes):
    mechanism = small(name, **changes)
    mean, variance = suite.exact_moments(mechanism, values)
    if name != "collision-signed":  # whose prediction is for at most k items
        assert variance == pytest.approx(predicted(mechanism, values), rel=1e-9)
    kept = mechanism.plan.sparsity / len(values)
    assert mean[:-1] == pytest.approx(np.array(values) * kept, abs=1e-12)
    assert mean[-1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ESTIMATED)
def test_the_variance_check_notices_a_wrong_constant(name):
    """Mutant: the constants of a tenth more budget over reports of the sound one."""
    sound, mutant = small(name), bolder(small(name))
    _, variance = suite.exact_moments(sound, ())
    assert variance[-1] != pytest.approx(mutant.forecast.variance(0), rel=0.02)


def test_padding_below_k_is_biased_as_stated():
    mechanism = small("pckv grr", padding=1)
    mean, _ = suite.exact_moments(mechanism, (1.0, 1.0))
    assert mean[0] == pytest.approx(0.5, abs=1e-12)
    assert mechanism.forecast.relative_bias() == 0.5


@pytest.mark.parametrize("form", ["grr", "ue"])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
@pytest.mark.parametrize(("keys", "padding"), [(1, 1), (1000, 1), (1000, 6), (10**5, 64)])
def test_pckv_has_the_published_odds(form, epsilon, keys, padding):
    made = odds.best(form, keys, padding, epsilon)
    grown, excess = math.exp(epsilon), padding * math.expm1(epsilon)
    if form == "ue":
        wanted = (0.5, 2 / (grown + 3), grown / (grown + 1))
    else:
        every = excess + 2 * (keys + padding)
        wanted = ((excess + 2) / every, 2 / every, (excess + 1) / (excess + 2))
    assert [float(one) for one in (made.a, made.b, made.p)] == pytest.approx(wanted, rel=1e-5)
    assert 0.999 * epsilon < math.log(made.ratio) <= epsilon


def test_the_ratio_of_pckv_counts_signs_that_are_hardly_ever_true():
    """Odds that no calibration makes: the rarest report is then a turned sign."""
    made = Odds("grr", 4, 2, FULL // 2, 0, FULL - 1)
    mechanism = replace(small("pckv grr"), odds=made)
    worst, _ = checks.worst_pair(mechanism, checks.neighbours(mechanism.plan.unit, SIGNED, 4))
    assert worst == pytest.approx(math.log(made.ratio), abs=1e-9)


def counts_law(mechanism, clients, holders):
    """The joint law of plus (row) and minus (column) signs of a key that some hold with value 1."""
    a, b, p = (float(one) for one in (mechanism.odds.a, mechanism.odds.b, mechanism.odds.p))
    sampled = 1 / mechanism.odds.padding
    others = np.array([[1 - b, b / 2], [b / 2, 0.0]])
    mine = np.array([[1 - a, a * (1 - p)], [a * p, 0.0]])
    one = sampled * mine + (1 - sampled) * others
    size = (clients + 1, clients + 1)
    product = np.fft.fft2(one, size) ** holders * np.fft.fft2(others, size) ** (clients - holders)
    return np.maximum(np.fft.ifft2(product).real, 0)


def published_products(mechanism, clients):
    """The authors' frequency times conditional mean for all counts, with their cut-offs."""
    a, b, p = (float(one) for one in (mechanism.odds.a, mechanism.odds.b, mechanism.odds.p))
    padding = mechanism.odds.padding
    plus, minus = np.indices((clients + 1, clients + 1))
    frequency = ((plus + minus) / clients - b) / (a - b) * padding
    most = clients * np.clip(frequency, 1 / clients, 1.0) / padding
    turn = np.array([[p, 1 - p], [1 - p, p]]) * a - b / 2
    signs = np.stack([plus, minus]).reshape(2, -1) - clients * b / 2
    true = np.clip(np.linalg.solve(turn, signs), 0, most.ravel())
    return (padding * (true[0] - true[1]) / clients).reshape(plus.shape)


@pytest.mark.parametrize("form", ["grr", "ue"])
def test_the_published_cut_offs_are_what_biases_pckv(form):
    """At 100 clients, a fifth of whom hold the key: more than half of the mean is cut off."""
    mechanism = build(f"pckv {form}", universe=20)
    clients, holders = 100, 20
    law = counts_law(mechanism, clients, holders)
    plus, minus = np.indices(law.shape)
    plain = float((law * (plus - minus)).sum()) * mechanism.scale / clients
    cut = float((law * published_products(mechanism, clients)).sum())
    assert plain == pytest.approx(holders / clients, abs=1e-9)
    assert cut == pytest.approx({"grr": 0.0831, "ue": 0.0798}[form], abs=5e-5)


def test_batches_are_read_as_sums():
    mechanism = small("pckv ue")
    fields = np.array([[0, 1, 2, 0], [1, 1, 2, 0], [2, 1, 0, 0]], dtype=np.uint32)
    seeds = np.zeros(3, dtype=np.uint64)
    batch = ReportBatch(mechanism.plan.digest, seeds, fields)
    assert mechanism.read(batch, np.array([2, 0, 1, 1], dtype=np.uint64)).tolist() == [-2, 0, 3, 3]


@pytest.mark.parametrize("name", ["harmony", "privkv", "pckv"])
def test_units_and_universes_that_are_not_served(name):
    with pytest.raises(FaintlyError, match="decode direct"):
        make_plan(
            mechanism=name,
            protect="user",
            epsilon=1.0,
            sparsity=2,
            clients=10,
            universe=8,
            decode="table",
        )
    assert mechanism_class(name).baseline
