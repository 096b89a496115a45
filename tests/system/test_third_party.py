"""A mechanism of another package: installed by pip, then known to every command."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from evaluation.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "mechanism"
REQUEST = ["--protect", "user", "--epsilon", "1", "--sparsity", "2", "--clients", "1000"]
REQUEST += ["--universe", "8", "--decode", "direct"]
THIEF = """
from faintly.mechanisms import mechanism_class
from faintly.mechanisms.registry import register

@register("retrieval")
class Thief(mechanism_class("retrieval")):
    pass
"""


def install(folder, name, files, entries):
    """Install a package of these files and entry points; return the environment that has it."""
    info = f"{name}-1.0.dist-info"
    listed = [f"{entry} = {value}" for entry, value in entries.items()]
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(["[faintly.mechanisms]", *listed, ""]),
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    wheel, site = folder / f"{name}-1.0-py3-none-any.whl", folder / "site"
    with zipfile.ZipFile(wheel, "w") as made:
        for path, text in files.items():
            made.writestr(path, text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--target", site, wheel], check=True)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture(scope="module")
def with_example(tmp_path_factory):
    """The environment with the package of examples/mechanism, as its pyproject.toml has it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [path for path in (EXAMPLE / "one_key").iterdir() if path.is_file()]
    files = {f"one_key/{path.name}": path.read_text(encoding="utf-8") for path in found}
    entries = project["entry-points"]["faintly.mechanisms"]
    return install(tmp_path_factory.mktemp("example"), "faintly_one_key", files, entries)


def run(environment, *arguments):
    command, pipes = [sys.executable, "-m", *map(str, arguments)], {"capture_output": True}
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, check=False, **pipes)


def answer(environment, *arguments):
    done = run(environment, "faintly", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_plan_ranks_it_and_takes_its_name(with_example, tmp_path):
    plan = tmp_path / "plan.json"
    ranked = answer(with_example, "plan", *REQUEST, "--candidates")["candidates"]
    assert "one-key" in {one["mechanism"] for one in ranked}
    answer(with_example, "plan", *REQUEST, "--mechanism", "one-key", "-o", plan)
    # Without the package, the plan is refused with the names that there are.
    missing = run(os.environ, "faintly", "inspect", plan)
    assert missing.returncode == 1
    assert "mechanism must be one of" in missing.stderr


@pytest.mark.long
def test_simulate_runs_it_and_compares_it(with_example, tmp_path):
    plan, other, data = (tmp_path / name for name in ("plan.json", "other.json", "data.csv"))
    answer(with_example, "plan", *REQUEST, "--mechanism", "one-key", "-o", plan)
    rows = [f"{client},{client % 8},1" for client in range(1000)]
    data.write_text("\n".join(["client,item,value", *rows]), encoding="utf-8")
    found = answer(with_example, "simulate", "--plan", plan, "--data", data, "--runs", 2)
    assert 37 < found["predicted_n_var"] < 38  # 8 keys, each 4.68 at epsilon 1
    answer(with_example, "plan", *REQUEST, "--mechanism", "projection-choice", "-o", other)
    compared = ["simulate", "--plan", other, "--data", data, "--runs", 2, "--compare", "one-key"]
    names = {one["mechanism"] for one in answer(with_example, *compared)["compared"]}
    assert names == {"projection-choice", "one-key"}


@pytest.mark.long
def test_reproduce_runs_it_at_every_point(with_example, tmp_path):
    chosen = ["user-k", "--quick", "--runs", 1, "--jobs", 1, "--method", "one-key"]
    done = run(with_example, "evaluation", *chosen, "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tasks"] == {"done": 2, "refused": 0, "failed": 0}
    assert "one-key" in (tmp_path / "summary.csv").read_text(encoding="utf-8")
    assert "one-key" not in METHODS  # without the package there is no such method


@pytest.mark.long
def test_the_conformance_suite_finds_it(with_example):
    suite = ["tests/conformance/test_registered.py", "-k", "one-key", "-p", "no:cacheprovider"]
    done = run(with_example, "pytest", "-q", *suite)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_a_built_in_name_is_refused(tmp_path):
    environment = install(tmp_path, "thief", {"thief.py": THIEF}, {"retrieval": "thief:Thief"})
    done = run(environment, "faintly", "plan", *REQUEST)
    assert done.returncode == 1
    said = "thief registers a mechanism 'retrieval', which is the name of one in faintly.mechanisms"
    assert said in " ".join(done.stderr.split())
