"""Files of every kind give the same vectors, and bad ones are refused by line."""

import json
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from faintly.core import Universe
from faintly.data import find_dataset, read_records, to_vectors
from faintly.errors import InvalidData, MissingDependency

UNIVERSE = Universe.open()
SECRETS = ("alice", "hospital", "7.75")
GOOD = [("alice", "pear", 1.0), ("bob", "plum", -0.5), ("alice", "apple", 0.25)]


def write(path, text):
    """Write `text` as it is, byte for byte, and return the path."""
    path.write_bytes(text.encode("utf-8"))
    return path


def refused(path, universe=UNIVERSE, plan_of=None):
    """Return the message with which a file is refused, having checked that it leaks nothing.

    It also says what to do: the rule stands before a semicolon, and the next step after it.
    """
    with pytest.raises(InvalidData) as caught:
        read_all(path, None if plan_of is None else plan_of(universe))
    message = str(caught.value)
    assert not [secret for secret in SECRETS if secret in message]
    assert re.search(r"; \w.{5}", message), "the rule is named, and no way to keep it"
    return message


def read_all(path, plan):
    """Read a file as far as the plan, if there is one, allows."""
    found = read_records(path)
    return found if plan is None else to_vectors(found, plan)


def same_everywhere(tmp_path):
    """Return the same three rows in every format."""
    columns = dict(zip(("client", "key", "value"), zip(*GOOD, strict=True), strict=True))
    table = pa.table({name: list(column) for name, column in columns.items()})
    pq.write_table(table, tmp_path / "a.parquet")
    encoded = table.set_column(1, "key", table["key"].dictionary_encode())
    pq.write_table(encoded, tmp_path / "b.parquet", row_group_size=1)
    lines = [",".join(map(str, row)) for row in GOOD]
    write(tmp_path / "c.csv", "\n".join(["client,key,value", *lines]))
    write(
        tmp_path / "d.csv",
        "\r\n".join(
            [
                "\ufeffvalue, client ,item",
                *(f'{value},{client},"{key}"' for client, key, value in GOOD),
                "",
            ]
        ),
    )
    objects = [{"client": c, "key": k, "value": v, "when": 3} for c, k, v in GOOD]
    write(tmp_path / "e.jsonl", "\n".join(map(json.dumps, objects)) + "\n\n")
    clients = [
        {"client": "alice", "items": {"pear": 1, "apple": 0.25}},
        {"client": "bob", "items": {"plum": -0.5}},
    ]
    write(tmp_path / "f.ndjson", "\n".join(map(json.dumps, clients)))
    return sorted(tmp_path.iterdir())


def test_every_format_gives_the_same_vectors(tmp_path, plan_of):
    plan = plan_of(Universe.open())
    paths = same_everywhere(tmp_path)
    assert len(paths) == 6
    batches = [to_vectors(read_records(path), plan) for path in paths]
    for batch in batches:
        np.testing.assert_array_equal(batch.offsets, batches[0].offsets)
        np.testing.assert_array_equal(batch.indices, batches[0].indices)
        np.testing.assert_array_equal(batch.values, batches[0].values)
    expected = dict(zip(plan.ids(["pear", "apple"]).tolist(), (1.0, 0.25), strict=True))
    first = batches[0].slice(0, 1)
    assert dict(zip(first.indices.tolist(), first.values.tolist(), strict=True)) == expected


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint16(), pa.string()])
def test_parquet_columns_may_be_integers_or_text(tmp_path, plan_of, kind):
    table = pa.table(
        {
            "client": pa.array([5, 3, 5]).cast(kind),
            "item": pa.array([1, 2, 9]).cast(kind),
            "value": pa.array([1, -1, 0], pa.int8()),
            "note": ["x", None, "y"],
        }
    )
    pq.write_table(table, tmp_path / "data.parquet")
    batch = to_vectors(read_records(tmp_path), plan_of(Universe.indexed(10)))
    assert batch.lengths.tolist() == [1, 1]
    assert batch.values.tolist() == [1.0, -1.0]


def test_lines_with_no_client_are_clients_of_their_own(tmp_path, plan_of):
    path = write(tmp_path / "x.jsonl", '{"items": ["a", "b"]}\n{"items": []}\n{"items": ["a"]}\n')
    assert to_vectors(read_records(path), plan_of(Universe.open())).lengths.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("body", "line", "rule"),
    [
        ("bob,plum,1\nalice,hospital,nan", 3, "not finite"),
        ("bob,plum,1\nalice,hospital,-inf", 3, "not finite"),
        ("alice,hospital,7.75", 2, "outside"),
        ("bob,plum,1\n\nalice,hospital,7.75", 4, "outside"),
        ('"two\nlines",plum,1\nalice,hospital,7.75', 4, "outside"),
        ("alice,hospital,lots", 2, "not a number"),
        ("alice,hospital,", 2, "value is missing"),
        ("bob,plum,1\nalice,,1", 3, "missing"),
        (",hospital,1", 2, "missing"),
        ("bob,plum,1\nalice,hospital", 3, "has 2 cells where the header has 3; fill"),
        ("alice,hospital,1,7.75", 2, "has 4 cells where the header has 3; quote"),
        ('bob,plum,1\nalice,"hospital"x,1', 3, "well-formed"),
        ("alice,hospital,1\nbob,plum,1\nalice,hospital,0.5", 4, "already holds"),
    ],
)
def test_a_bad_csv_line_is_named(tmp_path, plan_of, body, line, rule):
    path = write(tmp_path / "x.csv", f"client,item,value\n{body}\n")
    message = refused(path, plan_of=plan_of)
    assert message.startswith(f"line {line} of x.csv: ")
    assert rule in message


@pytest.mark.parametrize(
    ("body", "line", "rule"),
    [
        ('{"client": 1, "item": "hospital", "value": NaN}', 2, "not finite"),
        ('{"client": 1, "item": "hospital", "value": 1e999}', 2, "not finite"),
        ('{"client": 1, "item": "hospital", "value": 7.75}', 2, "outside"),
        ('{"client": 1, "item": "hospital", "value": 1' + "0" * 400 + "}", 2, "outside"),
        ('{"client": 1, "item": "hospital", "value": "7.75"}', 2, "not a number"),
        ('{"client": 1, "item": "hospital", "value": true}', 2, "not a number"),
        ('\n{"client": 1, "item": "hospital", "value": null}', 3, "missing"),
        ('{"client": "alice", "value": 1}', 2, "item is missing"),
        ('{"item": "hospital", "value": 1}', 2, "client is missing"),
        ('{"client": "alice", "item": "hospital"}', 2, "value is missing"),
        ('{"client": "alice", "item": true, "value": 1}', 2, "neither an integer nor text"),
        ('{"client": "alice", "item": 1.5, "value": 1}', 2, "nor text; quote it or drop"),
        ('{"client": ["alice"], "item": 1, "value": 1}', 2, "neither an integer nor text"),
        ('{"client": "alice", "client": 2, "item": 1, "value": 1}', 2, "twice"),
        ('{"client": "alice", "item": 1, "key": 1, "value": 1}', 2, "first line lacks"),
        ('{"client": "alice", "item": "hospital"', 2, "not JSON"),
        ('["alice", "hospital", 1]', 2, "not a JSON object"),
        ('{"client": 0, "item": "plum", "value": 1}', 2, "already holds"),
        ('{"client": 1, "item": "\\ud800", "value": 1}', 2, "valid UTF-8"),
    ],
)
def test_a_bad_jsonl_line_is_named(tmp_path, plan_of, body, line, rule):
    first = '{"client": 0, "item": "plum", "value": 1}'
    path = write(tmp_path / "x.jsonl", f"{first}\n{body}\n")
    message = refused(path, plan_of=plan_of)
    assert message.startswith(f"line {line} of x.jsonl: ")
    assert rule in message


@pytest.mark.parametrize(
    ("second", "rule"),
    [
        ('{"client": 2, "items": {"hospital": 7.75}}', "outside"),
        ('{"client": 2, "items": {"hospital": null}}', "missing"),
        ('{"client": 2, "items": {"hospital": "7.75"}}', "not a number"),
        ('{"client": 2, "items": {"hospital": 1, "hospital": 1}}', "twice"),
        ('{"client": 2, "items": ["hospital", "hospital"]}', "already holds"),
        ('{"client": 2, "items": [["hospital"]]}', "neither an integer nor text"),
        ('{"client": 2, "items": "hospital"}', 'a list of keys; write {"a": 0.5}'),
        ('{"items": ["hospital"]}', "client is missing"),
        ('{"client": 2, "item": "hospital"}', "items is missing"),
        ('{"client": 1, "items": ["plum"]}', "already holds"),
    ],
)
def test_a_bad_client_line_is_named(tmp_path, plan_of, second, rule):
    path = write(tmp_path / "x.jsonl", '{"client": 1, "items": ["plum"]}\n' + second)
    message = refused(path, plan_of=plan_of)
    assert message.startswith("line 2 of x.jsonl: ")
    assert rule in message


@pytest.mark.parametrize(
    "first",
    ['{"item": "hospital"}', '{"client": "alice"}', "{}", '{"client": 1, "item": 1, "items": []}'],
)
def test_a_first_line_of_no_known_form_is_refused(tmp_path, first):
    assert refused(write(tmp_path / "x.jsonl", first)).startswith("line 1 of x.jsonl: needs")


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"value": [1.0, None, 1.0]}, "row 2 of x.parquet: value is missing"),
        ({"value": [1.0, 0.5, float("nan")]}, "row 3 of x.parquet: value is not finite"),
        ({"value": [1.0, 0.5, 7.75]}, "row 3 of x.parquet: value is outside"),
        ({"value": ["1", "7.75", "alice"]}, "x.parquet needs numbers in column value"),
        ({"value": ["1", "0.75", "0"]}, "x.parquet needs numbers in column value"),
        ({"value": [True, True, False]}, "x.parquet needs numbers in column value"),
        ({"item": [1, None, 2]}, "row 2 of x.parquet: item is missing"),
        ({"item": [1.0, 2.0, 7.75]}, "x.parquet needs integers or text in column item"),
        ({"client": ["alice", "alice", None]}, "row 3 of x.parquet: client is missing"),
        ({"client": [[1], [2], [3]]}, "x.parquet needs integers or text in column client"),
        ({"item": [1, 2, 10]}, "row 3 of x.parquet: item is not an index in 0..9"),
        ({"client": [1, 2, 1], "item": [4, 4, 4]}, "row 3 of x.parquet: this client already"),
    ],
)
@pytest.mark.parametrize("row_group", [1, 100])
def test_a_bad_parquet_row_is_named(tmp_path, plan_of, columns, rule, row_group):
    good = {"client": [1, 2, 3], "item": [1, 2, 3], "value": [1.0, 0.5, 0.0]}
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(good | columns), path, row_group_size=row_group)
    assert refused(path, Universe.indexed(10), plan_of).startswith(rule)


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("x.csv", "", "is empty"),
        ("x.csv", "client,item\n", "no rows"),
        (
            "x.csv",
            "alice,hospital,7.75\n",
            "line 1 of x.csv has no column client and no item (or key); it must name",
        ),
        ("x.csv", "client,item,key\n", "keep one"),
        ("x.csv", "client,item,item\n", "keep one"),
        ("x.jsonl", "", "no rows"),
        ("x.jsonl", "\n\n", "no rows"),
        ("x.parquet", "alice", "not a readable Parquet"),
        ("x.parquet", "", "not a readable Parquet"),
        ("x.txt", "alice", "not one of .parquet"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole_is_refused(tmp_path, name, text, rule):
    assert rule in refused(write(tmp_path / name, text))


def test_a_parquet_file_without_rows_or_columns_is_refused(tmp_path):
    pq.write_table(
        pa.table({"client": pa.array([], pa.int32()), "item": pa.array([], pa.int32())}),
        tmp_path / "x.parquet",
    )
    assert "no rows" in refused(tmp_path / "x.parquet")
    pq.write_table(pa.table({"client": [1], "thing": [2]}), tmp_path / "y.parquet")
    assert "must name the columns" in refused(tmp_path / "y.parquet")


def test_a_truncated_parquet_file_is_refused(tmp_path):
    whole, part = tmp_path / "x.parquet", tmp_path / "y.parquet"
    pq.write_table(pa.table({"client": list(range(999)), "item": list(range(999))}), whole)
    part.write_bytes(whole.read_bytes()[:-40])
    assert "not a readable Parquet" in refused(part)


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_text_that_is_not_utf8_is_named_by_line(tmp_path, name):
    lines = {
        "x.csv": b"client,item\nbob,plum\nalice,hospital\xff\n",
        "x.jsonl": b'{"items": []}\n{"items": []}\n{"items": ["hospital\xff"]}\n',
    }
    (tmp_path / name).write_bytes(lines[name])
    assert refused(tmp_path / name).startswith(f"line 3 of {name}: is not UTF-8")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingDependency, match=r"extra eval .*pip install '\.\[eval\]'"):
        read_records(write(tmp_path / "x.parquet", ""))


def test_a_dataset_is_a_path_or_a_name(tmp_path, monkeypatch):
    folder = tmp_path / "clicks"
    folder.mkdir()
    pq.write_table(pa.table({"client": [1], "item": [2]}), folder / "data.parquet")
    monkeypatch.delenv("FAINTLY_DATA", raising=False)
    assert find_dataset(folder) == folder
    with pytest.raises(InvalidData, match="set FAINTLY_DATA"):
        find_dataset("clicks")
    monkeypatch.setenv("FAINTLY_DATA", str(tmp_path))
    assert find_dataset("clicks") == folder
    with pytest.raises(InvalidData, match="no file or dataset 'visits'; FAINTLY_DATA has clicks"):
        find_dataset("visits")
    with pytest.raises(InvalidData, match="no file or dataset"):
        find_dataset("../clicks/clicks")
    with pytest.raises(InvalidData, match="does not exist"):
        read_records(tmp_path / "visits.csv")
    with pytest.raises(InvalidData, match=r"holds no data\.parquet"):
        read_records(tmp_path)
