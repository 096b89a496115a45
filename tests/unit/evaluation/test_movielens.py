"""MovieLens' ratings."""

from pathlib import Path

import pytest

from evaluation.movielens import read_ratings
from faintly.core import Universe
from faintly.data import vectors_in
from faintly.errors import InvalidData

RATINGS = """userId,movieId,rating,timestamp
7,50,5.0,1094785740
7,2,0.5,1094786027
9,50,2.5,1094785665
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_ratings_become_values_and_movies_become_indices(tmp_path):
    """Movies 2 and 50 are items 0 and 1; 5 stars are 1, half a star is -0.8."""
    vectors = vectors_in(
        read_ratings(write(tmp_path / "ratings.csv", RATINGS)), Universe.indexed(2)
    )
    assert len(vectors) == 2
    assert vectors.lengths.tolist() == [2, 0]  # 2.5 stars are 0, which is no item
    assert vectors.indices.tolist() == [0, 1]
    assert vectors.values.tolist() == pytest.approx([-0.8, 1.0])


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("9,50,five,1", "line 5 of ratings.csv: rating must be a number from 0.5 to 5"),
        ("9,51,5.5,1", "line 5 of ratings.csv: rating must be a number from 0.5 to 5"),
        ("9,51,nan,1", "line 5 of ratings.csv: rating must be a number from 0.5 to 5"),
        ("9,51,,1", "line 5 of ratings.csv: rating must be a number from 0.5 to 5"),
        ("nine,51,5,1", "line 5 of ratings.csv: userId must be a non-negative integer"),
        ("9,-51,5,1", "line 5 of ratings.csv: movieId must be a non-negative integer"),
        ("9,51,5", "line 5 of ratings.csv: has more or fewer cells"),
        ("\n9,51,x,1", "line 5 of ratings.csv: has more or fewer cells"),
        ("9,50,1,1", "line 5 of ratings.csv: this client already holds this item"),
        ("9,51,1,1", "line 5 of ratings.csv: item is not an index in 0..1"),
    ],
)
def test_a_bad_rating_is_named(tmp_path, line, rule):
    path = write(tmp_path / "ratings.csv", f"{RATINGS}{line}\n")
    with pytest.raises(InvalidData) as caught:
        vectors_in(read_ratings(path), Universe.indexed(2))
    assert str(caught.value).startswith(rule)
