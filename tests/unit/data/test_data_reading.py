"""Rows from several files, compressed ones and standard input; columns under other names."""

import gzip
import io
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from faintly.core import Universe
from faintly.data import Columns, read_records, tables, to_vectors, vectors_from
from faintly.errors import InvalidData, InvalidInput

USERS, SITES = ["ann", "bob", "ann", "eve"], ["x", "y", "z", "x"]
CSV = "user,site\n" + "".join(f"{u},{s}\n" for u, s in zip(USERS, SITES, strict=True))
JSONL = "".join(f'{{"user": "{u}", "site": "{s}"}}\n' for u, s in zip(USERS, SITES, strict=True))


def parquet(rows=slice(None), **columns) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table({"user": USERS[rows], "site": SITES[rows]} | columns), made)
    return made.getvalue()


FILES = {
    "a.csv": CSV.encode(),
    "a.tsv": CSV.replace(",", "\t").encode(),
    "semicolons.csv": CSV.replace(",", ";").encode(),
    "capitals.csv": CSV.replace("user,site", "USER_ID,Site").encode(),
    "a.csv.gz": gzip.compress(CSV.encode()),
    "a.jsonl": JSONL.encode(),
    "a.jsonl.gz": gzip.compress(JSONL.encode()),
    "a.parquet": parquet(),
    "a.parquet.gz": gzip.compress(parquet()),
}


def as_rows(records) -> list[tuple[int, str]]:
    return [(c, records.keys[k]) for c, k in zip(records.clients, records.codes, strict=True)]


ROWS = [(0, "x"), (1, "y"), (0, "z"), (2, "x")]


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    assert as_rows(read_records(tmp_path / name)) == ROWS


@pytest.mark.parametrize("name", FILES)
def test_standard_input_is_known_by_its_first_bytes(monkeypatch, name):
    """A pipe may give its first bytes one at a time."""

    class Slow(io.BytesIO):
        def read1(self, size: int = -1) -> bytes:
            return super().read1(1 if self.tell() < 4 else size)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Slow(FILES[name])))
    assert as_rows(read_records("-")) == ROWS


def test_several_files_share_clients_and_keys_and_errors_name_the_file(tmp_path, plan_of):
    halves = {"a": slice(0, 2), "b": slice(2, 4)}
    for name, rows in halves.items():
        (tmp_path / f"{name}.parquet").write_bytes(parquet(rows))
        lines = [f"{u},{s}" for u, s in zip(USERS[rows], SITES[rows], strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["user,site", *lines]))
    for kind in ("csv", "parquet"):
        paths = [tmp_path / f"{name}.{kind}" for name in halves]
        assert as_rows(read_records(paths)) == ROWS
        place = "line 2 of a.csv" if kind == "csv" else "row 1 of a.parquet"
        with pytest.raises(InvalidData, match=f"^{place}: this client already holds"):
            to_vectors(read_records([paths[1], paths[0], paths[0]]), plan_of(Universe.open()))
    with pytest.raises(InvalidData, match=r"^b\.parquet is not of the same kind as the files"):
        read_records([tmp_path / "a.csv", tmp_path / "b.parquet"])


def test_batches_of_rows_share_clients_and_keys(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(parquet())
    monkeypatch.setattr(tables, "BATCH", 1)
    told = []
    records = read_records(tmp_path / "a.parquet", on_read=lambda *said: told.append(said))
    assert as_rows(records) == ROWS
    assert told[0] == ("a.parquet", 0, 0.0)
    assert told[-1] == ("a.parquet", 4, 1.0)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", CSV[:-3].replace("user", "device,user"), "2 columns that could be the client"),
        ("a.csv", "user,thing\na,b\n", "line 1 of a.csv has no column item (or key); it must name"),
        ("a.csv", "user,user,site\n", "a column twice"),
        ("a.csv.gz", CSV, None),
        ("a.jsonl", '{"person": 1, "thing": 2}', "line 1 of a.jsonl: needs client and item"),
    ],
)
def test_columns_that_are_not_obvious_are_asked_for(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    if sentence is None:
        assert len(read_records(tmp_path / name)) == 4  # what is not compressed is read as it is
        return
    with pytest.raises(InvalidData) as caught:
        read_records(tmp_path / name)
    assert sentence in str(caught.value)


def test_columns_may_be_named_whatever_their_case(tmp_path):
    (tmp_path / "a.csv").write_text("Who,What,How much,value\na,x,0.5,7\nb,x,1,7\n")
    columns = Columns(client="who", key="WHAT", value="how_much")
    records = read_records(tmp_path / "a.csv", columns)
    assert records.values.tolist() == [0.5, 1.0]
    sets = read_records(tmp_path / "a.csv", Columns(client="who", key="what", value="none"))
    assert sets.values.tolist() == [1.0, 1.0]
    with pytest.raises(InvalidData, match=r"line 1 of a\.csv has no column whom; say which"):
        read_records(tmp_path / "a.csv", Columns(client="whom", key="what"))
    pq.write_table(pa.table({"user": [1], "thing": [2]}), tmp_path / "b.parquet")
    with pytest.raises(InvalidData, match=r"^b\.parquet has no column item .* it has user, thing$"):
        read_records(tmp_path / "b.parquet")


@pytest.mark.parametrize(
    ("duplicates", "expected"),
    [("once", [[0.5, 0.25], [1.0]]), ("sum", [[1.0, 0.25], [0.75]])],
)
def test_repeated_rows_count_once_or_are_summed_up_to_one(plan_of, duplicates, expected):
    rows = ([0, 1, 0, 0, 1], ["a", "a", "a", "b", "a"], [0.5, 1.0, 0.75, 0.25, -0.25])
    plan = plan_of(Universe.named(["a", "b"]))
    for strict in (True, False):
        batch = vectors_from(rows, plan, strict=strict, columns=Columns(duplicates=duplicates))
        found = [batch.slice(i, i + 1).values.tolist() for i in range(len(batch))]
        assert found == expected


def test_a_mean_is_over_all_clients_of_the_plan_unless_asked_otherwise(tmp_path, plan_of):
    (tmp_path / "a.csv").write_text(CSV)
    plan = replace(plan_of(Universe.open()), clients=10)
    for data in (
        str(tmp_path / "a.csv"),
        tmp_path / "a.csv",
        pd.DataFrame({"user": USERS, "site": SITES}),
    ):
        assert vectors_from(data, plan).lengths.tolist() == [2, 1, 1, *[0] * 7]
        assert vectors_from(data, plan, pad=False).lengths.tolist() == [2, 1, 1]


@pytest.mark.parametrize("left", [20, -9])
def test_a_gzip_file_that_is_not_whole_is_refused(tmp_path, left):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode())[:left])
    with pytest.raises(InvalidData, match=r"^a\.csv\.gz is not a complete gzip file; compress"):
        read_records(tmp_path / "a.csv.gz")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Columns(duplicates="twice"),
        lambda: Columns(client=3),
        lambda: read_records([]),
        lambda: read_records(["-", "-"]),
    ],
)
def test_wrong_words_are_refused_with_a_sentence(make):
    with pytest.raises(InvalidInput, match=r"^[a-z].* [a-z]"):
        make()


def test_many_rows_are_no_python_objects(tmp_path):
    """A million rows take what their columns take: 8 bytes each for client and key."""
    count = 300_000
    table = pa.table({"user": np.arange(count) // 3, "site": np.arange(count) % 97})
    pq.write_table(table, tmp_path / "a.parquet")
    tracemalloc.start()
    read_records(tmp_path / "a.parquet")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60 * count
