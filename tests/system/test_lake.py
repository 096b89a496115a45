"""Collectors commit to a lake over the S3 protocol: processes, one killed midway, two racing."""

import os
import secrets
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from benchmarks import samples
from faintly import aggregate
from faintly.lake import Lake
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly_collector.admin.lake import commit
from faintly_collector.storage.store import Store
from tests.collecting import QUIET, submit

PLAN = samples.one_cell_plan(1000, 64)


def fill(folder, seed, seals=3, reports=40):
    """Return the batches that a collector has sealed in its folder."""
    layout = mechanism_of(PLAN).layout
    batches = list(samples.batches(PLAN, seals * reports * seed, reports))[-seals:]
    store = Store.open(folder, QUIET)
    store.registry.create(PLAN)
    for batch in batches:
        body = report_v1.encode_batch(batch, layout)
        submit(store, PLAN.digest, 0, secrets.token_bytes(16), body)
        store.seal(PLAN.digest)
    store.close()
    return batches


def read(lake):
    """Return the sketch of everything in the lake, read over its own protocol."""
    found = []
    for name in lake.snapshot(PLAN.digest.hex()).files:
        with lake.opened(name) as file:
            rows = file.read().column("record").to_pylist()
        joined = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
        found.append(report_v1.unpack(joined, PLAN.digest, mechanism_of(PLAN).layout))
    return aggregate(PLAN, found)


def start(folder, table, options, before):
    """Start a process that commits a folder, and runs some code at a step."""
    code = f"""
        import os, signal, sys
        from pathlib import Path
        from faintly_collector.admin.lake import commit
        from faintly.lake import Lake
        lake = Lake(sys.argv[2])
        def reached(step):
            {before}
        lake.reached = reached
        print(commit(Path(sys.argv[1]), lake).added)
    """
    arguments = [sys.executable, "-c", textwrap.dedent(code), str(folder), table]
    return subprocess.Popen(
        arguments,
        env=os.environ | options,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_a_committer_killed_midway_loses_and_repeats_nothing(s3, tmp_path):
    table = "s3://lake/killed"
    batches = fill(tmp_path / "data", 1)
    kill = 'step == "uploaded" and os.kill(os.getpid(), signal.SIGKILL)'
    killed = start(tmp_path / "data", table, s3, kill)
    assert killed.communicate()[0] == ""
    assert killed.returncode == -signal.SIGKILL
    lake = Lake(table, s3)
    assert lake.snapshot(PLAN.digest.hex()).files == []
    assert commit(tmp_path / "data", lake).added == 3
    assert commit(tmp_path / "data", lake).added == 0
    assert read(lake) == aggregate(PLAN, batches)


@pytest.mark.long
def test_racing_committers_commit_each_segment_once(s3, tmp_path):
    """Two processes of one folder, which both have uploaded, and one of another collector."""
    table = "s3://lake/race"
    batches = fill(tmp_path / "one", 1) + fill(tmp_path / "two", 2)
    Lake(table, s3).commit([])  # the table is there, and nothing in it
    wait = 'step == "uploaded" and (print("ready", flush=True), sys.stdin.readline())'
    running = [start(tmp_path / name, table, s3, wait) for name in ("one", "one", "two")]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n" * 200)  # a process that loses a race comes by again
        process.stdin.flush()
    added = []
    for process in running:
        lines = process.communicate()[0].split()
        assert process.returncode == 0
        added.append(int(lines[-1]))
    assert sorted(added) == [0, 3, 3]
    assert read(Lake(table, s3)) == aggregate(PLAN, batches)


def test_a_folder_commits_what_it_merges_and_a_backup_goes_on(tmp_path):
    """Compaction replaces files in the lake; a restored copy of the folder repeats nothing."""
    from faintly_collector.admin.backup import backup

    folder, lake = tmp_path / "data", Lake(tmp_path / "lake")
    batches = fill(folder, 1)
    assert commit(folder, lake).added == 3
    backup(folder, tmp_path / "copy")
    store = Store.open(folder, QUIET)
    store.close_epoch(store.registry.epoch(PLAN.digest, 0))
    while store.sealer.compact(store.registry.epoch(PLAN.digest, 0)):
        pass
    store.close()
    done = commit(folder, lake)
    assert (done.added, done.removed) == (1, 3)
    assert read(lake) == aggregate(PLAN, batches)
    assert commit(tmp_path / "copy", lake).added == 0
    assert read(lake) == aggregate(PLAN, batches)
