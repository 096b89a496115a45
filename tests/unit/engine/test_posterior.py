"""Posterior answers of a reader: whom they are about, what they refuse, and what they leave be."""

import math

import numpy as np
import pytest

from faintly.client import randomize_all
from faintly.core import Universe, VectorBatch
from faintly.engine import Aggregator, Reader, aggregate, answers, crowd
from faintly.engine.crowd import Crowd, Noisy
from faintly.engine.documents import estimate_document, top_document
from faintly.engine.posterior import FEW, FEWEST, fit
from faintly.errors import InvalidInput
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded

CLIENTS = 3_000
HELD = 4


def sketch_of(universe, keys, **options):
    """Return a sketch of clients who hold some of the first keys."""
    wanted = {"protect": "event", "epsilon": 2.0, "sparsity": HELD, "salt": bytes(16)} | options
    plan = make_plan(clients=CLIENTS, universe=universe, **wanted)
    ids = plan.ids(keys)[:HELD]
    people = VectorBatch(
        np.arange(CLIENTS + 1) * HELD, np.tile(ids, CLIENTS), np.ones(CLIENTS * HELD)
    )
    return aggregate(plan, randomize_all(plan, people, seeded(1, "public"), seeded(1, "secret")))


@pytest.fixture(scope="module")
def indexed():
    return sketch_of(400, list(range(HELD)), decode="table")


@pytest.fixture(scope="module")
def names():
    return [f"name {number}" for number in range(600)]


@pytest.fixture(scope="module")
def opened(names):
    return sketch_of(Universe.open(), names)


def test_the_unbiased_columns_stay_what_they_are(indexed):
    reader = Reader(indexed)
    plain, more = reader.estimate_all(), reader.posterior(range(400))
    for name, column in plain.columns().items():
        assert list(more.columns()[name]) == list(column)
    added = [name for name in more.columns() if name not in plain.columns()]
    assert added == [f"posterior_{name}" for name in ("mean", "stddev", "low", "high")]
    frame, table = more.to_pandas(), more.to_arrow()
    assert list(frame["posterior_mean"]) == more.posterior.mean.tolist()
    assert frame.attrs == {"population": "all 400 keys of the universe"}
    assert table.schema.metadata == {b"population": b"all 400 keys of the universe"}


def test_an_answer_does_not_depend_on_the_other_keys(indexed):
    every = Reader(indexed).posterior(range(400), above=0.1)
    some = Reader(indexed).posterior([7, 2, 2], above=0.1)
    for name, column in some.posterior.columns().items():
        np.testing.assert_allclose(column, every.posterior.columns()[name][[7, 2, 2]], rtol=1e-9)
    assert some.posterior.population == "all 400 keys of the universe"
    assert some.posterior.keys == 400


def test_top_lists_carry_the_posterior_of_their_rows(indexed):
    found = Reader(indexed).top(6, posterior=True, above=0.5)
    assert set(found.estimates.keys[:HELD]) == set(range(HELD))
    every = Reader(indexed).posterior(range(400), above=0.5)
    for name, column in found.estimates.posterior.columns().items():
        wanted = every.posterior.columns()[name][found.estimates.keys]
        np.testing.assert_allclose(column, wanted, rtol=1e-9)
    assert found.estimates.posterior.above[:HELD].min() > 0.99
    assert found.estimates.posterior.above[HELD:].max() < 0.01
    assert Reader(indexed).top(6).estimates.posterior is None


def test_a_prior_is_fitted_once_for_every_level(indexed, monkeypatch):
    fits, once = [], answers.fit
    monkeypatch.setattr(answers, "fit", lambda *a, **k: fits.append(1) or once(*a, **k))
    aggregator = Aggregator.resume(indexed)
    wide, narrow = aggregator.reader(0.99).posterior([1]), aggregator.reader(0.5).posterior([1])
    aggregator.reader().top(3, posterior=True)
    assert len(fits) == 1
    assert wide.posterior.low[0] < narrow.posterior.low[0]
    assert wide.posterior.mean == narrow.posterior.mean


def test_keys_of_an_open_universe_are_a_population_where_they_are_many(opened, names):
    reader = Reader(opened)
    found = reader.posterior(names)
    assert found.posterior.population == "the 600 keys asked"
    assert reader.populated(500)
    assert not reader.populated(499)
    for few in (names[:499], names[:10] * 60):  # repeated keys are no more of them
        with pytest.raises(InvalidInput, match="a handful of chosen keys is not one"):
            reader.posterior(few)
    with pytest.raises(InvalidInput, match="at least 500 different keys"):
        reader.top(3, names[:20], posterior=True)


def test_a_small_universe_has_no_population():
    reader = Reader(sketch_of(FEWEST - 1, list(range(HELD))))
    assert not reader.populated(FEWEST - 1)
    with pytest.raises(InvalidInput, match=f"at least {FEWEST} keys, got {FEWEST - 1}"):
        reader.posterior([0])


def test_few_keys_have_a_simpler_prior_and_say_so():
    reader = Reader(sketch_of(FEW - 1, list(range(HELD))))
    (note,) = reader.posterior([0]).posterior.notes
    assert "one normal law" in note
    noisy = Noisy(np.linspace(-0.1, 0.5, FEW), np.full(FEW, 0.01))
    assert not fit(Crowd.of(noisy), "these").notes


def test_noise_alone_is_said():
    source = np.random.default_rng(1)
    noisy = Noisy(0.01 * source.standard_normal(2_000), np.full(2_000, 0.01))
    prior = fit(Crowd.of(noisy), "these")
    assert any("could be noise" in note for note in prior.notes)
    assert np.abs(prior.posterior(noisy, 0.95).mean).max() < 0.005


def test_keys_whose_maps_disagree_have_no_posterior(indexed, monkeypatch):
    """One map of key 9 says far more than the others: as if another key were in its way."""
    sums = Reader.sums

    def tampered(reader, ids):
        found = sums(reader, ids).copy()
        found[:, ids == 9] += 2_000
        return found

    monkeypatch.setattr(Reader, "sums", tampered)
    reader = Reader(indexed)
    found = reader.posterior([9, 10], above=0.1)
    assert math.isnan(found.posterior.mean[0])
    assert math.isfinite(found.posterior.mean[1])
    rows = estimate_document(found)["estimates"]
    assert rows[0]["posterior_mean"] is None
    assert rows[0]["posterior_above"] is None
    assert rows[0]["mean"] > 0.1 > abs(rows[1]["posterior_mean"])
    (row,) = top_document(reader.top(1, [9, 10, 11], posterior=True))["estimates"]
    assert row["posterior_mean"] is None


def test_documents_name_the_population(indexed):
    about = estimate_document(Reader(indexed).posterior([0], above=0.25))["posterior"]
    assert about == {
        "population": "all 400 keys of the universe",
        "keys": 400,
        "threshold": 0.25,
        "notes": [],
    }
    assert "posterior" not in estimate_document(Reader(indexed).estimate([0]))


@pytest.mark.parametrize("above", [-1.5, 1.01, math.nan, math.inf])
def test_thresholds_that_no_mean_can_pass(indexed, above):
    with pytest.raises(InvalidInput, match="between -1 and 1"):
        Reader(indexed).posterior([0], above=above)


def test_means_that_cannot_be_negative_are_not():
    source = np.random.default_rng(1)
    noisy = Noisy(
        np.abs(source.laplace(size=900)) * 0.02 + 0.02 * source.standard_normal(900),
        np.full(900, 0.02),
    )
    one, two = (fit(Crowd.of(noisy), "these", nonnegative=sign) for sign in (True, False))
    assert one.posterior(noisy, 0.95).low.min() == 0
    assert two.posterior(noisy, 0.95).low.min() < 0
    np.testing.assert_allclose(one.posterior(noisy, 0.95, above=-0.5).above, 1.0)


def test_a_finer_lattice_says_the_same(monkeypatch):
    """Within a tenth of a standard error, also far out, where nodes are further apart."""
    source = np.random.default_rng(2)
    mean = np.concatenate([0.01 * source.standard_normal(3_000), source.uniform(0, 0.9, 300)])
    noisy = Noisy(mean, np.full(len(mean), 0.01))
    prior = fit(Crowd.of(noisy), "these")
    made = prior.posterior(noisy, 0.95)
    monkeypatch.setattr(crowd, "BINS", 128)
    fine = prior.posterior(noisy, 0.95)
    for name, column in made.columns().items():
        assert np.abs(column - fine.columns()[name]).max() < 0.1 * 0.01, name


@pytest.mark.parametrize("spread", [1e-6, 1e-3, 0.5, 20.0])
def test_any_size_of_noise_gives_numbers(spread):
    source = np.random.default_rng(3)
    mean = np.concatenate([spread * source.standard_normal(200), [1.0, -1.0, 0.5, 40 * spread]])
    noisy = Noisy(mean, np.full(len(mean), spread))
    made = fit(Crowd.of(noisy), "these").posterior(noisy, 0.95, above=0.0)
    for column in made.columns().values():
        assert np.isfinite(column).all()
    assert (np.abs(made.mean) <= 1).all()
    assert ((made.low <= made.mean) & (made.mean <= made.high)).all()
    assert ((made.above >= 0) & (made.above <= 1)).all()
