"""Retrieval: the sampler follows its law, and estimates err as predicted, on real data too.

Beside each check stands a mutant that must fail it.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from faintly.client import randomize_all
from faintly.core import ReportBatch, SparseVector, Universe, VectorBatch
from faintly.data import cut, to_vectors, true_means
from faintly.engine import Reader, aggregate
from faintly.kernels import compiled, reference
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.retrieval import Retrieval
from faintly.planner import make_plan
from faintly.primitives import hashing
from faintly.primitives.entropy import uniform_seeds
from faintly.simulate import simulate

FALSE_ALARM = 1e-9  # per assertion
LIMIT = stats.norm.isf(FALSE_ALARM / 2)  # 6.1 standard errors, where a statistic is normal
SAMPLES = 20_000
VALUES = np.array([1.0, -1.0, 0.5, 1.0, -0.25])  # five items where the plans expect three


def plan_of(**changes):
    wanted = {
        "protect": "event",
        "epsilon": 1.0,
        "sparsity": 3,
        "clients": 1000,
        "universe": 8,
        "mechanism": "retrieval",
        "salt": bytes(range(16)),
    }
    return make_plan(**(wanted | changes))


# The sampler against the law.

FORMS = {
    "direct": plan_of(decode="direct", bits=3),
    "one cell": plan_of(bits=4, maps=1),
    "two blocks": plan_of(bits=3, blocks=2, maps=1),
}


def outcome_under(mechanism, seed):
    """What the hash makes of items 0..4 under one seed, in the order of elimination."""
    ids, seeds = np.arange(5, dtype=np.uint64), np.full(5, seed, dtype=np.uint64)
    order = np.argsort(hashing.hash_words(seeds, ids, hashing.ORDER, 1, "prf")[:, 0], kind="stable")
    if mechanism.plan.hashing.linear:
        block, code = np.divmod(mechanism.tables.entries(ids, 0), mechanism.tables.shape[1])
        rows, signs = 2 * code.astype(int) + 1, mechanism.tables.maps.masks(ids, np.array([0]))
    else:
        block = np.zeros(5, int)
        rows = hashing.hash_words(seeds, ids, hashing.EQUATION, 1, "prf")[:, 0] & 7
        signs = hashing.to_signs(hashing.hash_words(seeds, ids, hashing.COIN, 1, "prf")[:, 0])
    entries = list(zip(block.tolist(), rows.tolist(), signs.tolist(), strict=True))
    return [entries[place] for place in order], order


def telling_seed(mechanism):
    """A seed under which some item is dropped and a cut to the first three would show."""
    for seed in range(1000):
        outcome, order = outcome_under(mechanism, seed)
        law = mechanism.law.probabilities(VALUES[order], outcome)
        short = mechanism.law.probabilities(VALUES[order][:3], outcome[:3])
        if np.abs(law - short).max() > 0.01 and len(np.unique(law.round(9))) > 2:
            return seed, law
    raise AssertionError("no seed shows a cut")


def chi_square(mechanism, law, seed, source, samples=SAMPLES):
    """The p-value of `samples` reports of one client under one seed against a law."""
    one = SparseVector(np.arange(5), VALUES)
    vectors = VectorBatch(
        np.arange(samples + 1) * 5, np.tile(one.indices, samples), np.tile(one.values, samples)
    )
    fields = mechanism.randomize(vectors, np.full(samples, seed, dtype=np.uint64), source)
    index = np.zeros(samples, dtype=np.int64)
    for column, limit in enumerate(mechanism.layout.limits):
        index = index * limit + fields[:, column]
    seen = np.bincount(index, minlength=len(law))
    assert (seen[law == 0] == 0).all()
    return stats.chisquare(seen, samples * law).pvalue


@pytest.mark.parametrize("plan", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("kernel", [reference, compiled], ids=["numpy", "c"])
def test_sampler_follows_the_law(plan, kernel, rng_of, monkeypatch):
    """Chi-square over every report, p-value uniform: below 1e-9 is a false alarm of 1e-9."""
    if kernel is compiled and not compiled.available():
        pytest.skip("no compiled kernels")
    for name in ("solve_gf2", "hash_words"):
        monkeypatch.setattr(f"faintly.kernels.{name}", getattr(kernel, name))
    mechanism = mechanism_of(plan)
    seed, law = telling_seed(mechanism)
    chance = chi_square(mechanism, law, seed, rng_of(f"law/{kernel.name}"))
    assert chance > FALSE_ALARM, f"p = {chance:.3g} over {SAMPLES} reports"


class Skewed:
    """A source whose words are too often small."""

    def __init__(self, source):
        self.source = source

    def words(self, count):
        pair = self.source.words(2 * count).reshape(2, count)
        lower = self.source.words(count) % 4 == 0
        return np.where(lower, pair.min(axis=0), pair[0])


class Stuck(Retrieval):
    """The lowest bit of every report is one."""

    def randomize(self, vectors, hash_seeds, rng):
        return super().randomize(vectors, hash_seeds, rng) | np.uint32(1)


class Cut(Retrieval):
    """The first three items of the order enter the elimination, the others are cut."""

    def equations(self, vectors, owners, seeds):
        made = super().equations(vectors, owners, seeds)
        order = made.order.reshape(-1, 5)
        kept = order.argsort(axis=1).argsort(axis=1) < 3
        rows = np.where(kept.reshape(-1, 1), made.rows, np.uint32(0))
        return made._replace(rows=rows)


HALF_NOISE = 3782994644  # the threshold of epsilon 2
MUTANTS = {
    "half the noise": (lambda sound: replace(sound, keep=HALF_NOISE), lambda source: source),
    "a biased coin": (lambda sound: sound, Skewed),
    "a stuck bit": (lambda sound: Stuck.from_plan(sound.plan), lambda source: source),
    "a cut to k": (lambda sound: Cut.from_plan(sound.plan), lambda source: source),
}


@pytest.mark.parametrize(("made", "drawn"), MUTANTS.values(), ids=MUTANTS)
def test_mutant_samplers_do_not_follow_the_law(made, drawn, rng_of):
    sound = mechanism_of(FORMS["direct"])
    seed, law = telling_seed(sound)
    chance = chi_square(made(sound), law, seed, drawn(rng_of("mutant")), 2 * SAMPLES)
    assert chance < FALSE_ALARM, f"p = {chance:.3g}"


# Estimates. The errors of distinct keys are uncorrelated and nearly normal, so that n·MSE over
# d keys and R runs has the standard error n·Var·√(2/(dR)).


def simulated(records, name, runs, seed, **changes):
    plan = plan_of(**changes)
    vectors = to_vectors(records(name), plan)
    vectors, _ = cut(vectors, plan.sparsity, np.random.default_rng(1))
    vectors = vectors.padded(plan.clients)
    ids = np.arange(plan.universe.size, dtype=np.uint64)
    return simulate(plan, vectors, ids, true_means(vectors, ids), runs=runs, seed=seed)


CLOTHING = {"sparsity": 6, "clients": 47_958, "universe": 1378}
DATA = {
    "clothing": ("clothing", 4, 3, CLOTHING),
    "clothing, direct": ("clothing", 2, 8, {**CLOTHING, "decode": "direct"}),
    "renting": ("renting", 4, 4, {"sparsity": 11, "clients": 105_571, "universe": 5850}),
    "kosarak": ("kosarak100k", 4, 10, {"sparsity": 32, "clients": 100_000, "universe": 23_496}),
}


@pytest.mark.parametrize(
    ("name", "runs", "size", "changes"),
    [
        pytest.param(*case, id=label, marks=[] if "clothing" in label else [pytest.mark.long])
        for label, case in DATA.items()
    ],
)
def test_real_data_err_as_predicted(name, runs, size, changes, records, seed):
    result = simulated(records, name, runs, seed, **changes)
    assert result.bytes == size
    spread = 4.683 * math.sqrt(2 / (result.keys * runs))
    z = (result.mean("n_mse") - result.mean("predicted_n_var")) / spread
    assert result.mean("predicted_n_var") == pytest.approx(4.683, abs=0.002)
    assert abs(z) < LIMIT, f"n·MSE {result.mean('n_mse'):.4f} is {z:.1f} standard errors off"
    for times in (0.5, 2):  # mutants: half and twice the predicted variance
        assert abs(result.mean("n_mse") - times * 4.683) > LIMIT * times * spread
    for measure, cases in (("coverage95", result.keys * runs), ("coverage95_top20", 20 * runs)):
        allowed = LIMIT * math.sqrt(0.05 * 0.95 / cases)
        assert abs(result.mean(measure) - 0.95) < allowed, (measure, result.mean(measure), allowed)


@pytest.mark.usefixtures("half_the_variance")
def test_intervals_of_half_the_variance_are_noticed(records, seed):
    result = simulated(records, "clothing", 2, seed, **CLOTHING)
    assert result.mean("coverage95") < 0.95 - LIMIT * math.sqrt(0.05 * 0.95 / (2 * result.keys))


@pytest.mark.long
def test_the_prediction_notices_less_noise(records, seed, monkeypatch):
    """Mutant: answers are flipped as rarely as epsilon 2 allows, and read as if they were not."""
    plain = Retrieval.randomize
    monkeypatch.setattr(
        Retrieval, "randomize", lambda self, *case: plain(replace(self, keep=HALF_NOISE), *case)
    )
    plan = {"sparsity": 32, "clients": 100_000, "universe": 23_496}
    result = simulated(records, "kosarak100k", 1, seed, **plan)
    assert result.mean("coverage95_top20") < 0.95 - LIMIT * math.sqrt(0.05 * 0.95 / 20)


class Linear(Retrieval):
    """Mutant: rows without the leading one, so that the key of code 0 has no equation."""

    def equations(self, vectors, owners, seeds):
        made = super().equations(vectors, owners, seeds)
        return made._replace(rows=made.rows & ~np.uint32(1))


@pytest.mark.parametrize(("kind", "holds"), [(Retrieval, True), (Linear, False)])
def test_the_key_of_code_zero_reads_like_any_other(kind, holds, rng_of):
    plan = plan_of(universe=64, sparsity=1, bits=7, maps=1)
    mechanism = kind.from_plan(plan)
    codes = mechanism.tables.maps.codes(np.arange(64, dtype=np.uint64), np.array([0]))
    zero = np.flatnonzero(codes == 0)
    assert len(zero) == 1
    count = 5000
    vectors = VectorBatch(
        np.arange(count + 1), np.repeat(zero, count).astype(np.uint64), np.full(count, 0.5)
    )
    seeds = uniform_seeds(rng_of("public"), count, 8)
    fields = mechanism.randomize(vectors, seeds, rng_of("noise"))
    batch = ReportBatch(plan.digest, np.zeros_like(seeds), fields)
    mean = mechanism.scale * mechanism.read(batch, zero.astype(np.uint64))[0] / count
    z = abs(mean - 0.5) / math.sqrt((mechanism.scale**2 - 0.25) / count)
    assert bool(z < LIMIT) is holds, f"{z:.1f} standard errors off"


def test_an_open_universe_finds_its_keys(rng_of):
    """Four keys that everyone holds stand out of a thousand that nobody does: by 65 errors."""
    plan = plan_of(universe=Universe.open(), sparsity=4, clients=20_000)
    keys = [f"key {number}" for number in range(4)]
    others = [f"other {number}" for number in range(1000)]
    vector = plan.vector(dict.fromkeys(keys, 1.0))
    vectors = VectorBatch(
        np.arange(20_001) * 4, np.tile(vector.indices, 20_000), np.tile(vector.values, 20_000)
    )
    sketch = aggregate(plan, randomize_all(plan, vectors, rng_of("public"), rng_of("secret")))
    found = Reader(sketch).estimate(keys)
    limit = stats.norm.isf(FALSE_ALARM / 2 / len(keys)) * found.stderr.max()
    assert np.abs(found.mean - 1).max() < limit
    assert set(Reader(sketch).top(4, [*keys, *others]).estimates.keys) == set(keys)
    # Mutants: a server that takes the signs of a quarter of the maps the wrong way round, and one
    # that hashes keys with another salt, for which the four are four of 1004.
    tables = sketch.tables.copy()
    tables[: len(tables) // 4] *= -1
    turned = Reader(replace(sketch, tables=tables)).estimate(keys)
    assert np.abs(turned.mean - 1).max() > limit
    salted = replace(plan, salt=bytes(16)).ids([*keys, *others])
    largest = np.argsort(-Reader(sketch).estimate_ids(salted, [*keys, *others]).mean)[:4]
    assert set(largest.tolist()) != {0, 1, 2, 3}
