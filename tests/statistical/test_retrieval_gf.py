"""Retrieval over GF(q): samplers follow their law, and estimates err as predicted.

Beside each check stands a mutant that must fail it.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from faintly.client import randomize_all
from faintly.core import VectorBatch
from faintly.data import cut, to_vectors, true_means
from faintly.engine import Reader, aggregate
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.retrieval_gf import RetrievalGf, forms
from faintly.mechanisms.retrieval_gf.channel import span_safe_channel
from faintly.planner import make_plan
from faintly.simulate import simulate

FALSE_ALARM = 1e-9  # per assertion
LIMIT = stats.norm.isf(FALSE_ALARM / 2)  # 6.1 standard errors, where a statistic is normal
SAMPLES = 20_000
VALUES = np.array([1.0, -1.0, 0.5, -0.25])


def plan_of(form, epsilon=1.0, *, sparsity=4, universe=8, clients=1000, **options):
    return make_plan(
        protect="event",
        epsilon=epsilon,
        sparsity=sparsity,
        clients=clients,
        universe=universe,
        mechanism="retrieval-gf",
        decode="direct",
        salt=bytes(range(16)),
        form=form,
        **options,
    )


def repeated(values, clients):
    """Many clients who hold items 0, 1, 2, … of the same values."""
    held = len(values)
    ids = np.tile(np.arange(held, dtype=np.uint64), clients)
    return VectorBatch(np.arange(clients + 1) * held, ids, np.tile(values, clients))


# Two symbols of GF(4) for four items (span-safe) or two of the others: rows are often dependent
# and points often collide.
LAWS = {
    "span-safe": (plan_of("span-safe", 2.0, sparsity=2, symbol_bits=2, symbols=2), VALUES),
    "polynomial": (
        plan_of("polynomial", sparsity=2, symbol_bits=2, symbols=2, seed_bytes=2),
        VALUES[1:3],
    ),
    "polynomial without a seed": (
        plan_of("polynomial", sparsity=2, universe=8, symbol_bits=3, symbols=3, seed_bytes=0),
        VALUES[1:3],
    ),
    "full": (
        plan_of("full", sparsity=2, symbol_bits=2, symbols=2, delta=0.4),
        VALUES[1:3],
    ),
}


def chi_square(sound, sampler, values, seed, source):
    """The p-value of reports of one client under one public seed against the sound law."""
    ids = np.arange(len(values), dtype=np.uint64)
    law = sound.law.probabilities(values.tolist(), sound.law.outcome_of(seed, ids))
    seeds = np.full(SAMPLES, seed, dtype=np.uint64)
    fields = sampler.randomize(repeated(values, SAMPLES), seeds, source)
    seen = np.bincount(sound.law.report_number(fields, seed), minlength=len(law))
    return stats.chisquare(seen, SAMPLES * law).pvalue


@pytest.mark.parametrize(("plan", "values"), LAWS.values(), ids=LAWS)
def test_samplers_follow_the_law(plan, values, rng_of):
    """A chi-square over every report for five seeds; each p-value is uniform."""
    mechanism = mechanism_of(plan)
    for public in range(5):
        chance = chi_square(mechanism, mechanism, values, public, rng_of(f"law/{public}"))
        assert chance > FALSE_ALARM, f"p = {chance:.3g} under seed {public}, {SAMPLES} reports"


class Stuck(RetrievalGf):
    """The lowest bit of every symbol is one."""

    def randomize(self, vectors, hash_seeds, rng):
        return super().randomize(vectors, hash_seeds, rng) | np.uint32(1)


class Cut(RetrievalGf):
    """Only the first two items of a client are looked at."""

    def randomize(self, vectors, hash_seeds, rng):
        first = vectors.offsets[:-1, None] + np.arange(2)
        short = VectorBatch(
            np.arange(len(vectors) + 1) * 2,
            vectors.indices[first.ravel()],
            vectors.values[first.ravel()],
        )
        return super().randomize(short, hash_seeds, rng)


SPAN = mechanism_of(LAWS["span-safe"][0])
SAMPLERS = {
    "half the noise": replace(SPAN, channel=span_safe_channel(2, 4.0)),
    "a stuck bit": Stuck.from_plan(SPAN.plan),
    "a cut to two items": Cut.from_plan(SPAN.plan),
}


@pytest.mark.parametrize("mutant", SAMPLERS.values(), ids=SAMPLERS)
def test_mutant_samplers_do_not_follow_the_law(mutant, rng_of):
    chances = [
        chi_square(SPAN, mutant, VALUES, public, rng_of(f"mutant/{public}")) for public in range(5)
    ]
    assert min(chances) < FALSE_ALARM, f"smallest p = {min(chances):.3g}"


ESTIMATES = {
    "span-safe": {"form": "span-safe", "epsilon": 3.0},
    "polynomial": {"form": "polynomial", "symbol_bits": 12, "seed_bytes": 3},
    "polynomial without a seed": {"form": "polynomial"},
    "full": {"form": "full", "delta": 1e-9},
}


def worst_score(plan, vectors, truth, rng_of):
    """The largest |error| in standard errors over 60 keys; each is nearly normal."""
    reports = randomize_all(plan, vectors, rng_of("public"), rng_of("secret"))
    estimates = Reader(aggregate(plan, reports)).estimate(np.arange(60))
    return float(np.abs((estimates.mean - truth) / estimates.stderr).max())


@pytest.mark.parametrize("options", ESTIMATES.values(), ids=ESTIMATES)
def test_estimates_center_on_the_truth(options, rng_of, monkeypatch):
    clients = 4000
    plan = plan_of(**options, universe=60, clients=clients)
    truth = np.concatenate([VALUES, np.zeros(56)])
    limit = stats.norm.isf(FALSE_ALARM / 2 / 60)
    score = worst_score(plan, repeated(VALUES, clients), truth, rng_of)
    assert score < limit, f"{score:.1f} standard errors off"
    # Mutant: values are rounded to their sign, 0.5 to 1 and -0.25 to -1: 14 errors and more.
    monkeypatch.setattr(
        "faintly.mechanisms.retrieval_gf.bernoulli", lambda chances, rng: np.ones(len(chances), int)
    )
    score = worst_score(plan, repeated(VALUES, clients), truth, rng_of)
    assert score > limit, f"the mutant is only {score:.1f} standard errors off"


def simulated(records, runs, seed, **options):
    plan = plan_of("polynomial", sparsity=6, clients=47_958, universe=1378, **options)
    vectors, _ = cut(to_vectors(records("clothing"), plan), 6, np.random.default_rng(1))
    vectors = vectors.padded(plan.clients)
    ids = np.arange(1378, dtype=np.uint64)
    return simulate(plan, vectors, ids, true_means(vectors, ids), runs=runs, seed=seed)


def score_of(result):
    """n·MSE against the prediction, in standard errors n·Var·√(2/(keys·runs)).

    Errors of distinct keys are uncorrelated and nearly normal.
    """
    predicted = result.mean("predicted_n_var")
    spread = predicted * math.sqrt(2 / (result.keys * len(result.runs)))
    return (result.mean("n_mse") - predicted) / spread


@pytest.mark.long
def test_eight_bytes_on_clothing_err_as_the_bound_says(records, seed, default_seed):
    result = simulated(records, 3, seed, max_bytes=8)
    z, limit = score_of(result), 3 if default_seed else LIMIT
    assert result.bytes == 8
    assert 3.196 <= result.mean("predicted_n_var") < 3.24
    assert abs(z) < limit, f"n·MSE {result.mean('n_mse'):.4f} is {z:.1f} standard errors off"
    allowed = LIMIT * math.sqrt(0.05 * 0.95 / (result.keys * len(result.runs)))
    assert abs(result.mean("coverage95") - 0.95) < allowed


def test_the_prediction_notices_a_payload_that_is_not_uniform(records, seed, monkeypatch):
    """Mutant: free coefficients are 0, so the polynomial of one item is constant and loud."""
    plain = forms.payload
    monkeypatch.setattr(forms, "payload", lambda *case: np.zeros_like(plain(*case)))
    result = simulated(records, 1, seed, max_bytes=8)
    assert result.mean("n_mse") > 3.22 * (1 + LIMIT * math.sqrt(2 / result.keys))


@pytest.mark.usefixtures("half_the_variance")
def test_intervals_of_half_the_variance_are_noticed(records, seed):
    result = simulated(records, 1, seed, max_bytes=8)
    assert result.mean("coverage95") < 0.95 - LIMIT * math.sqrt(0.05 * 0.95 / result.keys)


@pytest.mark.parametrize("values", ["sets", "ratings"])
def test_full_clients_err_as_the_moments_say(values, generator, seed):
    """k = 100 items each, span-safe GF(16), epsilon 3: 57 bytes, n·MSE 0.48 and 0.47."""
    clients, keys, k = 1500, 1000, 100
    items = np.argsort(generator.random((clients, keys)), axis=1)[:, :k]
    held = np.ones((clients, k)) if values == "sets" else generator.uniform(-1, 1, (clients, k))
    vectors = VectorBatch.from_rows(
        np.repeat(np.arange(clients), k), items.ravel().astype(np.uint64), held.ravel()
    )
    plan = plan_of("span-safe", 3.0, sparsity=k, universe=keys, clients=clients, symbol_bits=4)
    ids = np.arange(keys, dtype=np.uint64)
    result = simulate(plan, vectors, ids, true_means(vectors, ids), runs=1, seed=seed)
    assert result.bytes == 57
    size, square = k / keys * np.abs(held).mean(), k / keys * (held**2).mean()

    def moment(channel):
        """The mean square of what one report says about a key, over clients and keys."""
        return channel.absent_moment + size * (channel.present_moment - channel.absent_moment)

    def predicts(channel):
        expected = moment(channel) - square
        return abs(result.mean("n_mse") - expected) < LIMIT * expected * math.sqrt(2 / keys)

    channel = mechanism_of(plan).channel
    assert predicts(channel), result.mean("n_mse")
    # Mutants: the moments of other budgets.
    assert not predicts(span_safe_channel(4, 2.0))
    assert not predicts(span_safe_channel(4, 4.0))

    # What is stated is a mean square read from the reports, less mean². That errs on the wide
    # side, by no more than mean v². A report says 0 or ±largest, so the mean over all reports
    # and keys spreads like a share, times largest².
    share = moment(channel) / channel.largest**2
    spread = channel.largest**2 * math.sqrt(share * (1 - share) / (clients * keys))

    def allowed(stated):
        return moment(channel) - square < stated < moment(channel) + LIMIT * spread

    stated, excess = result.mean("predicted_n_var"), moment(channel) - channel.absent_moment
    assert allowed(stated), stated
    # Mutants: that held items answer more loudly is forgotten, or counted twice.
    assert not allowed(stated - excess)
    assert not allowed(stated + excess)
