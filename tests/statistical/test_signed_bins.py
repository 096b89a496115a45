"""Signed bins read from tables: errors as predicted, and intervals that know who holds a key.

Half of the clients hold the first keys with 1 and the other half with -1, so that their means are
0 and their noise is not that of keys nobody holds; a real data set of ratings stands beside.
FALSE_ALARM: 1e-4 for each figure, under the fixed seed. The mutants are intervals that do not
count how often a key's bin is reported, and a server that takes the wrong bit for the sign.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest

from faintly import Reader, make_plan
from faintly.core import VectorBatch
from faintly.data import cut, to_vectors, true_means
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.projection_choice import ProjectionChoice
from faintly.mechanisms.projection_choice.bin_tables import SignedTables
from tests.statistical.readers import reader_of

FALSE_ALARM = 1e-4
Z = -NormalDist().inv_cdf(FALSE_ALARM / 2)
BINS = {"protect": "user", "mechanism": "projection-choice", "form": "bins", "decode": "table"}


def covered(found, truth):
    return ((found.low <= truth) & (truth <= found.high)).mean()


def gain_of(found, truth):
    """What is found of the truth: 1 without noise."""
    return found.mean @ truth / (truth @ truth)


def limit(count):
    """The least share of 95 % intervals that so many keys have by chance."""
    return 0.95 - Z * math.sqrt(0.05 * 0.95 / count)


COUNTED = ProjectionChoice.variance_of_hits


def without_counts(mechanism, hits, count, means):
    return COUNTED(mechanism, hits * 0, count, means)


@pytest.mark.long
@pytest.mark.parametrize(("universe", "runs"), [(4_000, 16), ("open", 6)])
def test_intervals_know_how_many_hold_a_key(universe, runs, seed, monkeypatch):
    """Several collections of 20,000 clients who hold four of twenty keys, with either sign."""
    clients, held = 20_000, 20
    source = np.random.default_rng(seed)
    ids = np.sort(np.argsort(source.random((clients, held)), axis=1)[:, :4], axis=1)
    signs = np.where(np.arange(clients) % 2, -1.0, 1.0)
    values = np.repeat(signs, 4)
    people = VectorBatch(np.arange(clients + 1) * 4, ids.ravel().astype(np.uint64), values)
    asked = np.arange(2_000, dtype=np.uint64)
    truth = true_means(people, asked)
    squares, common, rare, blind = [], [], [], []
    for run in range(runs):
        salt = np.random.default_rng([seed, run]).bytes(16)
        sizes = {"epsilon": 4.0, "sparsity": 4, "clients": clients, "universe": universe}
        plan = make_plan(share=0.05, salt=salt, **BINS, **sizes)
        reader = reader_of(plan, people, seed + run)
        found = reader.estimate_ids(asked, asked)
        squares.append((((found.mean - truth) / found.stderr)[held:] ** 2).mean())
        rare.append(covered(found.take(np.arange(held, 2_000)), truth[held:]))
        common.append(covered(found.take(np.arange(held)), truth[:held]))
        with monkeypatch.context() as mutant:
            mutant.setattr(ProjectionChoice, "variance_of_hits", without_counts)
            narrow = Reader(reader.sketch).estimate_ids(asked[:held], asked[:held])
            blind.append(covered(narrow, truth[:held]))
    # Hits below those of a key that nobody holds do not count, so that intervals are a little wide.
    spread = Z * math.sqrt(2 / (runs * (2_000 - held)))
    assert 0.9 - spread < np.mean(squares) < 1 + spread, squares
    assert np.mean(rare) > limit(runs * (2_000 - held))
    assert np.mean(common) > limit(runs * held)
    assert np.mean(blind) < limit(runs * held), blind


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [2.0, 3.0, 4.0])
def test_ratings_have_the_predicted_errors(epsilon, records, seed, monkeypatch):
    clients, size = 47_958, 1_378
    sizes = {"epsilon": epsilon, "sparsity": 6, "clients": clients, "universe": size}
    plan = make_plan(share=0.05, salt=bytes(16), **BINS, **sizes)
    people, _ = cut(to_vectors(records("clothing"), plan), 6, np.random.default_rng(1))
    ids = np.arange(size, dtype=np.uint64)
    people = people.padded(clients)
    truth, mechanism = true_means(people, ids), mechanism_of(plan)
    reader = reader_of(plan, people, seed)
    found = reader.estimate_ids(ids, ids)
    quiet = (found.mean - truth) / math.sqrt(mechanism.forecast.variance(0) / clients)
    most = mechanism.forecast.variances(people, ids).mean() / mechanism.forecast.variance(0)
    spread = Z * math.sqrt(2 / size)
    assert 1 - spread < (quiet**2).mean() < most * (1 + spread)
    assert covered(found, truth) > limit(size)
    # A dense table errs more: half as much again at epsilon 3, and three times at 4.
    dense = mechanism_of(make_plan(**{**BINS, "form": "dense"}, salt=bytes(16), **sizes))
    least = {2.0: 1.08, 3.0: 1.4, 4.0: 2.0}[epsilon]
    assert dense.forecast.variance(0) > least * mechanism.forecast.variance(0)
    gain, noise = gain_of(found, truth), Z * found.stderr.mean() / math.sqrt(truth @ truth)
    assert gain == pytest.approx(1, abs=noise)
    # Mutant: a server that forgets to turn what it reads by the public signs finds nothing.
    monkeypatch.setattr(SignedTables, "signed", False)
    lost = gain_of(Reader(reader.sketch).estimate_ids(ids, ids), truth)
    assert lost == pytest.approx(0, abs=noise)
    assert epsilon < 4 or noise < 0.5
