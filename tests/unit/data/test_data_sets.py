"""Files of sets, and datasets in a folder."""

from pathlib import Path

import pytest

from faintly.core import Universe
from faintly.data import find_dataset, read_records, vectors_in
from faintly.errors import InvalidData


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_line_of_a_fimi_file_is_a_client(tmp_path):
    """An empty line is a client with no items, and blanks at the ends mean nothing."""
    records = read_records(write(tmp_path / "sets.dat", "3 1 2 \n\n 7\n"))
    vectors = vectors_in(records, Universe.indexed(8))
    assert vectors.lengths.tolist() == [3, 0, 1]
    assert vectors.indices.tolist() == [1, 2, 3, 7]
    assert set(vectors.values.tolist()) == {1.0}


def test_lines_of_several_files_are_different_clients(tmp_path):
    files = [write(tmp_path / f"{name}.dat", "1 2\n2\n") for name in "ab"]
    vectors = vectors_in(read_records(files), Universe.indexed(3))
    assert vectors.lengths.tolist() == [2, 1, 2, 1]
    rows = write(tmp_path / "rows.csv", "client,item\n1,2\n")
    with pytest.raises(
        InvalidData, match=r"^rows\.csv is not of the same kind as the files before it"
    ):
        read_records([*files, rows])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("1 2\n3 x\n", "line 2 of s.fimi: holds something that is not an item number"),
        ("1 2\n3 -4\n", "line 2 of s.fimi: holds something"),
        ("1 2\n3 4.5\n", "line 2 of s.fimi: holds something"),
        ("1\n\n" + "9" * 19 + "\n", "line 3 of s.fimi: holds something"),
        ("1 2\n5 4 5\n", "line 2 of s.fimi: this client already holds this item"),
        ("1 2\n3 10\n", "line 2 of s.fimi: item is not an index in 0..9"),
        ("", "s.fimi holds no rows"),
    ],
)
def test_a_bad_line_of_a_fimi_file_is_named(tmp_path, text, rule):
    path = write(tmp_path / "s.fimi", text)
    with pytest.raises(InvalidData, match=r"^" + rule.replace(".", r"\.")):
        vectors_in(read_records(path), Universe.indexed(10))


def test_ratings_are_read_as_sets_unless_a_column_is_named(tmp_path):
    records = read_records(write(tmp_path / "ratings.csv", "userId,movieId,rating\n1,2,5\n"))
    assert records.keys == ["2"]
    assert records.values.tolist() == [1.0]


def test_a_folder_of_datasets_may_be_named(tmp_path, monkeypatch):
    write(tmp_path / "mine.dat", "1 2\n")
    monkeypatch.delenv("FAINTLY_DATA", raising=False)
    assert find_dataset("mine.dat", tmp_path) == tmp_path / "mine.dat"
    with pytest.raises(InvalidData, match=r"the data folder has mine\.dat"):
        find_dataset("yours", tmp_path)
