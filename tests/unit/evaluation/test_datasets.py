"""Made-up data follow the paper's recipe, and these checks would notice if not."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from evaluation.datasets import Stored, Synthetic, generator_of, load
from evaluation.zipf import DistinctZipf
from faintly.core import VectorBatch
from faintly.errors import InvalidData

FALSE_ALARM = 1e-9
CLIENTS = 5_000


def subset_law(universe: int, count: int, exponent: float) -> dict[tuple[int, ...], float]:
    """Return the chance of each set of items, by going through every order of drawing them."""
    weights = np.arange(1, universe + 1) ** -exponent
    law: dict[tuple[int, ...], float] = {}
    for order in itertools.permutations(range(universe), count):
        chance, left = 1.0, weights.sum()
        for item in order:
            chance *= weights[item] / left
            left -= weights[item]
        key = tuple(sorted(order))
        law[key] = law.get(key, 0.0) + chance
    return law


def misfit(drawn: np.ndarray, law: dict[tuple[int, ...], float]) -> float:
    """Return chi-square over its limit: above 1, the law is not the law."""
    sets, counts = np.unique(drawn, axis=0, return_counts=True)
    seen = dict(zip(map(tuple, sets.tolist()), counts.tolist(), strict=True))
    assert seen.keys() <= law.keys()
    score = sum((seen.get(s, 0) - len(drawn) * p) ** 2 / (len(drawn) * p) for s, p in law.items())
    return score / float(stats.chi2.isf(FALSE_ALARM, len(law) - 1))


@pytest.mark.parametrize(("head", "horizon"), [(6, 10.0), (2, 12.0), (0, 3.0), (1, 0.5)])
def test_items_are_drawn_one_after_the_other_without_replacement(head, horizon):
    """However work is split between head and tail, and however often the tail is continued."""
    sampler = DistinctZipf(6, 3, 1.4)
    sampler.__dict__.update(head=head, horizon=horizon)
    drawn = sampler.draw(CLIENTS, generator_of("law"))
    assert misfit(drawn, subset_law(6, 3, 1.4)) < 1
    # Mutants: another exponent, and drawing with equal weights.
    assert misfit(drawn, subset_law(6, 3, 1.2)) > 1
    assert misfit(drawn, subset_law(6, 3, 0.0)) > 1


def test_a_tail_that_forgets_what_it_gave_would_be_noticed(monkeypatch):
    """Mutant: items that arrived before the process was continued may arrive again."""
    sampler = DistinctZipf(6, 3, 1.4)
    sampler.__dict__.update(head=0, horizon=0.5)
    nothing = lambda items, new, times: np.zeros(new.shape, bool)  # noqa: E731
    monkeypatch.setattr("evaluation.zipf.arrived_before", nothing)
    drawn = sampler.draw(2_000, generator_of("law"))
    assert (np.diff(drawn, axis=1) == 0).any()


@pytest.mark.parametrize(("universe", "count"), [(1, 1), (7, 7), (65, 64), (4096, 64), (9000, 300)])
def test_every_row_has_distinct_items_of_the_universe(universe, count):
    drawn = DistinctZipf(universe, count, 1.4).draw(200, generator_of("rows"))
    assert drawn.shape == (200, count)
    assert (np.diff(drawn, axis=1) > 0).all()
    assert drawn.min() >= 0
    assert drawn.max() < universe


def test_values_are_normal_and_cut_off():
    """Half of Normal(1, 0.3) is cut off to 1; the mean is 1 - 0.3/sqrt(2 pi)."""
    values = Synthetic(5_000, 64, 16).vectors(0, None).values
    spread = 1 / math.sqrt(len(values))
    limit = float(stats.norm.isf(FALSE_ALARM / 2))
    assert abs((values == 1).mean() - 0.5) < limit * 0.5 * spread
    assert abs(values.mean() - (1 - 0.3 / math.sqrt(2 * math.pi))) < limit * 0.18 * spread
    # Mutant: a spread of 0.33 instead of 0.3 is more than the limit away.
    assert 0.03 / math.sqrt(2 * math.pi) > limit * 0.18 * spread
    assert values.min() >= -1


def test_signs_are_full_vectors_whose_means_do_not_cancel():
    data = Synthetic(100, 64, 16, "signs")
    sample = load(data, 0)
    assert set(np.abs(sample.vectors.values).tolist()) == {1.0}
    assert sample.mean_square == pytest.approx(16)
    held = sample.squares
    assert sample.truth == pytest.approx(held * np.where(np.arange(64) % 2, -1, 1))


def test_a_run_repeats_itself_and_another_differs():
    data = Synthetic(50, 64, 4)
    first, again, other = (data.vectors(run, None) for run in (0, 0, 1))
    assert np.array_equal(first.indices, again.indices)
    assert np.array_equal(first.values, again.values)
    assert not np.array_equal(first.values, other.values)


def test_truth_and_squares_are_means_over_all_clients():
    sample = load(Synthetic(200, 32, 4), 3)
    dense = np.zeros((200, 32))
    dense[sample.vectors.owners, sample.vectors.indices] = sample.vectors.values
    assert sample.truth == pytest.approx(dense.mean(axis=0))
    assert sample.squares == pytest.approx((dense**2).mean(axis=0))


@pytest.fixture
def folder(tmp_path):
    """A folder of one dataset: a hundred clients of up to three items."""
    (tmp_path / "tiny.dat").write_text("0 1 2\n1\n\n2 3\n" + 96 * "1\n")
    return str(tmp_path)


def test_stored_data_are_cut_and_padded(folder):
    vectors: VectorBatch = Stored("tiny.dat", 101, 4, 2).vectors(0, folder)
    assert vectors.lengths.tolist() == [2, 1, 0, 2, *96 * [1], 0]
    again = Stored("tiny.dat", 101, 4, 2).vectors(1, folder)
    assert np.array_equal(vectors.indices, again.indices)  # one cut for all runs


def test_what_is_wrong_with_stored_data_is_said(folder):
    for expected in (99, 102):  # one too many, and two of a hundred missing
        with pytest.raises(InvalidData, match=f"100 clients where {expected} are expected"):
            Stored("tiny.dat", expected, 4, 2).vectors(0, folder)
    with pytest.raises(InvalidData, match=r"line 4 of tiny\.dat: item is not an index in 0\.\.2"):
        Stored("tiny.dat", 100, 3, 2).vectors(0, folder)
    assert "the data folder has tiny.dat" in str(Stored("huge", 4, 3, 2).missing(folder))
    assert Stored("tiny.dat", 4, 4, 2).missing(folder) is None


def test_movielens_is_found_in_the_folder_or_asked_for(tmp_path):
    movies = Stored("movies", 2, 2, 1)
    assert "ratings.csv of MovieLens-20M" in str(movies.missing(str(tmp_path)))
    (tmp_path / "ml-20m").mkdir()
    rows = ["userId,movieId,rating,timestamp", "1,10,5,0", "1,20,4,0", "2,20,1,0"]
    (tmp_path / "ml-20m" / "ratings.csv").write_text("\n".join(rows) + "\n")
    assert movies.missing(str(tmp_path)) is None
    assert movies.vectors(0, str(tmp_path)).lengths.tolist() == [1, 1]


@pytest.mark.parametrize("name", ["movies", "tiny.dat"])
def test_nothing_is_picked_up_from_where_the_command_is_run(folder, monkeypatch, name):
    (Path(folder) / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,10,5,0\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FAINTLY_DATA", raising=False)
    assert "set FAINTLY_DATA" in str(Stored(name, 100, 4, 2).missing(None))
    monkeypatch.setenv("FAINTLY_DATA", folder)
    assert Stored(name, 100, 4, 2).missing(None) is None


def test_other_data_have_another_digest(folder):
    data, file = Stored("tiny.dat", 100, 4, 2), Path(folder) / "tiny.dat"
    first = data.digest(folder)
    assert data.digest(folder) == first
    file.write_text(file.read_text().replace("2 3", "1 3"))
    assert data.digest(folder) != first
    assert Synthetic(10, 4, 2).digest(folder) == ""
