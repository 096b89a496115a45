"""The benchmarks print ratios in less than a minute, with either kernel; files run alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faintly import kernels

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"decode_vs_loop", "direct_vs_loop", "wht_vs_copy", "scatter_vs_rmw", "encode_per_s"}


def run(*arguments, status=0, cwd=ROOT, **environment):
    """Return what `python -m benchmarks` prints: its results, and the rest."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["c", "numpy"])
def test_quick_gives_every_key_within_a_minute(kernel, tmp_path):
    if kernel == "c" and kernels.active != "c":
        pytest.skip("the C kernels are not built, or not chosen")
    start = os.times()
    target = tmp_path / "quick.json"
    run("benchmarks", "--quick", "--json", target, FAINTLY_KERNEL=kernel)
    ended = os.times()
    took = ended.children_user + ended.children_system
    took -= start.children_user + start.children_system  # of processors, however busy they are
    document = json.loads(target.read_text(encoding="utf-8"))
    assert took < 60, f"took {took:.0f} s"
    assert all(document[key] > 0 for key in KEYS)
    assert document["kernel"] == kernel
    assert {"machine", "versions", "date", "peak_mib"} <= set(document)
    named = {row["name"]: row for row in document["rows"]}
    assert len(named) == len(document["rows"]), "names are unique"
    assert ("in C" if kernel == "c" else "in numpy") in named["decode_vs_loop"]["what"]
    # Definitions: gains are theirs over ours, costs ours over theirs.
    for key, gain in (("decode_vs_loop", True), ("wht_vs_copy", False)):
        row = named[key]
        ratio = row["theirs"] / row["ours"] if gain else row["ours"] / row["theirs"]
        assert document[key] == pytest.approx(ratio)


def test_people_see_a_table_with_targets():
    shown = run("benchmarks", "--quick", "--only", "transform")
    assert "ndarray.copy" in shown
    assert "≤ 2.5x" in shown
    assert "met" in shown
    assert "cores" in shown, "the machine is named"


def test_an_unknown_benchmark_is_named():
    refused = run("benchmarks", "--only", "nonsense", status=2)
    assert "nonsense" in refused
    assert "transform" in refused


@pytest.mark.long
def test_a_suite_runs_alone_and_saves_what_it_shows(tmp_path):
    target = tmp_path / "tables.json"
    shown = run("benchmarks", "--suite", "tables", "--quick", "--json", target)
    saved = json.loads(target.read_text(encoding="utf-8"))
    assert saved["title"] == "Tables"
    assert len(saved["rows"]) >= 4
    assert all(row["what"] in shown for row in saved["rows"])


@pytest.mark.long
def test_a_stream_keeps_memory_flat(tmp_path):
    target = tmp_path / "stream.json"
    run("benchmarks.stream", "--reports", "4e6", "--json", target)
    saved = json.loads(target.read_text(encoding="utf-8"))
    assert saved["stream_per_s"] > 0
    assert saved["stream_growth"] <= 8


def test_peers_say_how_to_make_them(tmp_path):
    """Without their environment the comparison stops with a status and the command to run."""
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    assert "make peers" in run("benchmarks.peers", status=2, cwd=tmp_path)
