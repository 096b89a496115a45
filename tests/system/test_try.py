"""From a file to an answer in one command, and on with the commands that it prints."""

import gzip
import os
import pty
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Write rows of 3,000 people: tea is held by half of them, milk by a quarter; some twice."""
    rows = [f"{who},tea" for who in range(1_500)] + [f"{who},milk" for who in range(750)]
    rows += [f"{who},juice" for who in range(1_400, 3_000)] + ["7,tea", "8,tea"]
    (tmp_path / "visits.csv").write_text("\n".join(["User,Site", *rows]) + "\n")
    return tmp_path / "visits.csv"


def test_a_file_gives_a_table_words_and_commands_that_work(faintly, visits, tmp_path):
    said = faintly("try", "visits.csv", "--epsilon", "4").out
    for part in ("juice", "0.5333", "3,000 people, 3 keys, 3,852 rows", "To find", "stand out"):
        assert part in said
    assert "nan" not in said
    commands = [line for line in said.splitlines() if line.startswith("  faintly ")]
    assert len(commands) == 4
    for command in commands:
        answer = faintly(*shlex.split(command)[1:]).out
    assert "juice" in answer  # of the last command, which asks


def test_its_json_has_everything(faintly, visits, tmp_path):
    said = faintly(
        "try",
        "visits.csv",
        "--client",
        "USER",
        "--key",
        "site",
        "--epsilon",
        "4",
        "-o",
        "plan.json",
        "--json",
    ).json
    assert said["held"]["clients"] == 3_000
    assert said["held"]["repeated"] == 2
    truth = {row["key"]: row["truth"] for row in said["estimates"]}
    assert truth == {"tea": 0.5, "milk": 0.25, "juice": pytest.approx(1_600 / 3_000)}
    assert said["more"]["clients"] > 3_000
    assert (tmp_path / "plan.json").is_file()


@pytest.mark.long
def test_a_picture_several_files_compressed_ones_and_values(faintly, visits, tmp_path):
    rows = "".join(f"{who}\ttea\t0.5\n" for who in range(500))
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"user\tsite\trating\n" + rows.encode()))
    said = faintly("try", "a.tsv.gz", "--value", "rating", "--epsilon", "4", "--json").json
    assert said["held"]["values"] == "nonnegative"
    assert said["estimates"][0]["truth"] == 0.5
    both = faintly(
        "try", "visits.csv", "a.tsv.gz", "--epsilon", "4", "--plot", "top.png", "--json"
    ).json
    assert (tmp_path / "top.png").read_bytes().startswith(b"\x89PNG")
    assert both["held"]["rows"] == 4_352


@pytest.mark.parametrize(
    ("words", "sentence", "status"),
    [
        ("nowhere.csv", "no file or dataset 'nowhere.csv'", 1),
        ("visits.csv --client whom", "line 1 of visits.csv has no column whom", 1),
        ("visits.csv --epsilon 0", "epsilon must be", 1),
        ("visits.csv --plot top.txt", "a plot is written as", 1),
        ("visits.csv --value site", "line 2 of visits.csv: value is not a number", 1),
        ("visits.csv --protect all", "protect must be event, user or", 2),
        ("visits.csv --count 0", "the least is 1", 2),
        ("visits.csv --duplicates refuse", "already holds", 1),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(faintly, visits, words, sentence, status):
    refused = faintly("try", *words.split(), status=status)
    assert sentence in refused.err
    assert "Traceback" not in refused.err


STARTER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.parametrize(
    ("count", "limit"),
    [
        pytest.param(2_000_000, 900, marks=pytest.mark.long),  # 650 were measured
        pytest.param(10_000_000, 2048, marks=pytest.mark.whole),
    ],
)
def test_ten_million_rows_fit_two_gigabytes(count, limit, tmp_path):
    """The command is a process of its own: its peak is that of reading, planning and asking."""
    generator = np.random.default_rng(1)
    table = pa.table(
        {
            "user": generator.integers(0, count * 15 // 100, count),
            "site": np.minimum(generator.zipf(1.3, count), 200_000),
        }
    )
    pq.write_table(table, tmp_path / "big.parquet")
    del table
    command = [sys.executable, "-m", "faintly", "try", str(tmp_path / "big.parquet"), "--json"]
    # A process counts the memory of the one that starts it: a small one stands in between.
    starter = [sys.executable, "-c", STARTER, *command]
    peak = subprocess.run(starter, capture_output=True, check=True, text=True).stdout
    assert int(peak) < limit * 1024  # in KiB


def test_it_says_what_it_reads_before_it_imports_numpy(visits):
    """Python lists imports on the same terminal, so the order on it is the order of events."""
    ours, its = pty.openpty()
    # An epsilon that is refused ends it after the imports.
    asked = ["try", str(visits), "--epsilon", "0", "--json"]
    command = [sys.executable, "-X", "importtime", "-m", "faintly", *asked]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=its, env=os.environ | {"TERM": "xterm"}
    )
    os.close(its)
    shown = b""
    with suppress(OSError):  # what reading gives once the other side is closed
        while part := os.read(ours, 2**16):
            shown += part
    os.close(ours)
    assert process.wait() == 1
    first = shown.index(b"reading visits.csv")
    for heavy in (b" numpy\r\n", b"faintly.core", b"faintly.data", b"faintly.planner"):
        assert first < shown.index(heavy)
