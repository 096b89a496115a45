"""`make reproduce` as a user runs it: listed, killed, resumed, looked at."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITH = ["--quick", "--method", "ours", "--method", "paper", "--json", "--out"]
RUN = ["user-d", "event-d", "--runs", "2", *WITH]
SHORT = ["bias", "--runs", "4", *WITH]  # many small tasks: some are left to resume


def records_of(folder: Path) -> dict[str, dict]:
    lines = (folder / "tasks.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    for record in found:
        record.pop("seconds")
        record.pop("cpu_seconds")
    assert len({record["task"] for record in found}) == len(found)
    return {record["task"]: record for record in found}


@pytest.mark.long
def test_killed_and_resumed_equals_uninterrupted(evaluation, tmp_path):
    """Kill -9 hits the whole program in the middle of a run; nothing of it may show."""
    command = [sys.executable, "-m", "evaluation", *SHORT, tmp_path / "killed"]
    started = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    log = tmp_path / "killed" / "tasks.jsonl"
    deadline = time.monotonic() + 60
    while not (log.exists() and log.read_bytes().count(b"\n") >= 2):
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.05)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    finished = log.read_bytes().count(b"\n")
    resumed = evaluation(*SHORT, "killed").json
    whole = evaluation(*SHORT, "whole").json
    assert finished < resumed["tasks"]["done"]
    assert resumed["tasks"] == whole["tasks"]
    assert resumed["claims"] == whole["claims"]
    assert records_of(tmp_path / "killed") == records_of(tmp_path / "whole")


@pytest.mark.long
def test_a_quick_run_writes_everything_and_finds_the_order(evaluation, tmp_path):
    done = evaluation(*RUN, "out").json
    assert done["tasks"] == {"done": 16, "refused": 0, "failed": 0}
    orders = [claim["holds"] for claim in done["claims"] if claim["of"] == "order"]
    assert orders.count(True) == 6
    assert False not in orders
    names = {Path(path).name for path in done["files"]}
    assert names >= {"results.csv", "results.parquet", "summary.csv", "report.html"}
    assert names >= {"user-d.svg", "user-d.png", "event-d.svg", "event-d.png"}
    assert all((tmp_path / path).stat().st_size > 0 for path in done["files"])
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()

    # Mutant: a log in which the two methods have changed places. Nothing is run again.
    swapped = {"ours": "paper", "paper": "ours"}
    records = records_of(tmp_path / "out")
    for name, record in records.items():
        other = records[name.replace(f"| {record['method']} |", f"| {swapped[record['method']]} |")]
        record["wrong"] = {"mse": other["mse"], "seconds": 0.1, "cpu_seconds": 0.1}
    lines = [json.dumps(record | record.pop("wrong")) for record in records.values()]
    (tmp_path / "out" / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    wrong = evaluation(*[part for part in RUN if part != "--json"], "out", status=1)
    assert wrong.err.count("against theory: ") == 4
    assert "user level: ours errs no more than the paper's method" in wrong.err


def test_the_list_and_the_errors_help(evaluation):
    listed = evaluation("--list")
    assert "user-eps" in listed.out
    assert "neighbouring" in listed.out
    assert evaluation().out == listed.out  # rather than an hour of work nobody asked for
    known = evaluation("--list", "--json").json
    assert {one["name"] for one in known["methods"]} >= {"ours", "paper", "harmony"}
    wrong = evaluation("user-q", status=2)
    assert "there is no user-q; there are user-k" in wrong.err
    wrong = evaluation("user-k", "--quick", "--method", "magic", status=2)
    assert "there is no magic; there are ours" in wrong.err
    assert "exclude" in evaluation("--quick", "--full", status=1).err
    assert "is not a folder" in evaluation("--data", "nowhere", status=1).err


def test_a_failed_task_is_reported_and_sets_the_status(evaluation, tmp_path):
    """A dataset that is broken fails its own tasks only, with the row and the fix."""
    (tmp_path / "data" / "clothing").mkdir(parents=True)
    (tmp_path / "data" / "clothing" / "data.parquet").write_text("no parquet")
    done = evaluation(
        *("clothing", "bias", "--quick", "--runs", "1", "--method", "paper"),
        *("--jobs", "1", "--data", "data", "--out", "out", "--json"),
        status=1,
    ).json
    assert done["tasks"]["failed"] == 2
    assert done["tasks"]["done"] == 2
    assert "not a readable Parquet file; write it again" in str(done["failures"])
