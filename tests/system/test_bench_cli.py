"""faintly bench prints ratios in less than a minute, with either kernel; its files run alone."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faintly import kernels

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"decode_vs_loop", "direct_vs_loop", "wht_vs_copy", "scatter_vs_rmw", "encode_per_s"}
COMMAND = [sys.executable, "-c", "from faintly.cli import main; main()", "bench"]


def run(command, **environment):
    done = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["c", "numpy"])
def test_quick_gives_every_key_within_a_minute(kernel):
    if kernel == "c" and kernels.active != "c":
        pytest.skip("the C kernels are not built, or not chosen")
    start = time.monotonic()
    document = json.loads(run([*COMMAND, "--quick", "--json"], FAINTLY_KERNEL=kernel))
    took = time.monotonic() - start
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


def test_people_see_a_table_with_targets(faintly):
    shown = faintly("bench", "--quick", "--only", "transform").out
    assert "ndarray.copy" in shown
    assert "≤ 2.5x" in shown
    assert "met" in shown
    assert "cores" in shown, "the machine is named"


def test_an_unknown_benchmark_is_named(faintly):
    refused = faintly("bench", "--only", "nonsense", status=2)
    assert "there is no nonsense" in refused.err
    assert "transform" in refused.err


@pytest.mark.long
def test_a_file_runs_alone_and_saves_what_it_shows(tmp_path):
    target = tmp_path / "tables.json"
    script = ROOT / "benchmarks" / "tables.py"
    shown = run([sys.executable, script, "--quick", "--json", target])
    saved = json.loads(target.read_text(encoding="utf-8"))
    assert saved["title"] == "Tables"
    assert len(saved["rows"]) >= 4
    assert all(row["what"] in shown for row in saved["rows"])


@pytest.mark.long
def test_a_stream_keeps_memory_flat(tmp_path):
    target = tmp_path / "stream.json"
    script = ROOT / "benchmarks" / "stream.py"
    run([sys.executable, script, "--reports", "4e6", "--json", target])
    saved = json.loads(target.read_text(encoding="utf-8"))
    assert saved["stream_per_s"] > 0
    assert saved["stream_growth"] <= 8


def test_peers_say_how_to_make_them(tmp_path):
    """Without their environment the comparison stops with a status and the command to run."""
    for name in ("peers.py", "_peers.py"):
        text = (ROOT / "benchmarks" / name).read_text(encoding="utf-8")
        (tmp_path / "benchmarks").mkdir(exist_ok=True)
        (tmp_path / "benchmarks" / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, tmp_path / "benchmarks" / "peers.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "make peers" in done.stderr
