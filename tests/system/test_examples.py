"""The examples run alone, in seconds, and show what the documents say."""

import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_federated_learning_prints_a_table_and_draws(tmp_path):
    picture = tmp_path / "curves.png"
    command = [sys.executable, str(ROOT / "examples" / "federated.py"), "--out", str(picture)]
    start = time.monotonic()
    done = subprocess.run(
        [*command, "--clients", "60000", "--rounds", "2", "--epsilon", "4", "--runs", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - start < 60
    assert picture.read_bytes().startswith(b"\x89PNG")
    last = {line[:18].strip(): float(line.split()[-1]) for line in done.stdout.splitlines()[1:-1]}
    # By 0.01 at least: three standard errors of an accuracy over 20,000 texts. The example is
    # seeded, so it shows these numbers always.
    order = ["no privacy", "no privacy, top k", "faintly", "dense Gaussian"]
    for better, worse in itertools.pairwise(order):
        assert last[better] > last[worse] + 0.01, done.stdout
    assert last["faintly"] > last["dense Laplace"] + 0.01, done.stdout
