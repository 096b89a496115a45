"""faintly plan as a user meets it: its output, its files, its status.

The first tests start real processes; the others call the same entry point in this one.
"""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.main import get_command

from faintly.cli import app, main
from faintly.core import Plan
from faintly.mechanisms import mechanism_of

PROGRAM = get_command(app)
RUN = [sys.executable, "-c", "from faintly.cli import main; main()", "plan"]
COMMON = ["--protect", "event", "--sparsity", "8", "--universe", "1000"]
FULL = [*COMMON, "--epsilon", "1", "--clients", "20000"]


def start(*arguments):
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def run(capsys, monkeypatch):
    """Return a caller of the command's entry point, which gives output and status."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["faintly", "plan", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main(PROGRAM)
        seen = capsys.readouterr()
        return SimpleNamespace(stdout=seen.out, stderr=seen.err, returncode=stopped.value.code or 0)

    return call


@pytest.fixture
def answer(run):
    """Return a caller that reads the JSON of a call that must succeed."""

    def call(*arguments):
        done = run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


def test_json_keeps_its_keys_and_has_the_ranking(tmp_path):
    done = start(*FULL, "-o", str(tmp_path / "plan.json"), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) >= {
        "digest",
        "bytes",
        "predicted_n_var_worst",
        "predicted_n_var_typical",
        "predicted_stderr",
        "predicted_linf",
        "memory_bytes",
        "influence",
        "relative_bias",
        "guarantee",
        "plan",
        "candidates",
        "refused",
        "why",
        "explanation",
        "warnings",
        "lower_bound",
    }
    best = found["candidates"][0]
    assert best["mechanism"] == found["plan"]["mechanism"]
    assert best["n_var_worst"] == found["predicted_n_var_worst"]
    assert "shuffle" not in found
    plan = Plan.from_json((tmp_path / "plan.json").read_text())
    assert plan.digest.hex() == found["digest"]
    assert mechanism_of(plan).layout.record_bytes == found["bytes"]


def test_text_says_why_and_shows_the_ranking(run, answer):
    done = start(*FULL, "--explain", "--candidates", "--expected-mean", "0.001")
    assert done.returncode == 0, done.stderr
    for words in ("why ", "runner-up", "candidate", "What is not hidden."):
        assert words in done.stdout
    assert "drowns" in done.stderr
    assert "shuffl" not in done.stdout
    small = min(one["bytes"] for one in answer(*FULL)["candidates"])
    limited = run(*FULL, "--candidates", "--max-bytes", str(small))
    assert f"more than the limit of {small}" in limited.stdout


def test_a_named_mechanism_and_its_options(run, answer):
    found = answer(*FULL, "--mechanism", "signed-binning", "--bins", "4")
    assert found["plan"]["parameters"]["bins"] == 4
    implied = run(*FULL, "--bins", "4", "--json")
    assert "belongs to signed-binning" in implied.stderr
    assert json.loads(implied.stdout)["plan"]["mechanism"] == "signed-binning"
    same = answer(*FULL, "--mechanism", "signed-binning", "--option", "bins=4")
    assert same["plan"]["parameters"] == found["plan"]["parameters"]
    limited = answer(*FULL, "--bins", "best", "--max-bytes", "9")
    assert limited["bytes"] <= 9


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        (["--epsilon", "1"], "clients"),
        (["--clients", "50000"], "epsilon"),
        (["--clients", "50000", "--epsilon", "1"], "bytes"),
    ],
)
def test_solving_backwards(answer, given, unknown):
    found = answer(*COMMON, *given, "--target-error", "0.02")
    assert found["solved"]["for"] == unknown
    assert found["predicted_stderr"] <= 0.02
    if unknown != "bytes":
        assert float(found["plan"][unknown]) == found["solved"]["value"]


def test_sparsity_can_be_solved_for(answer):
    wanted = ["--protect", "user", "--universe", "1000", "--epsilon", "1", "--clients", "1000000"]
    found = answer(*wanted, "--target-error", "0.03")
    assert found["solved"]["for"] == "sparsity"
    assert found["plan"]["sparsity"] == found["solved"]["value"]


def test_shuffling_is_an_extra_line_with_its_caveat(answer):
    user = ["--protect", "user", "--epsilon", "1", "--sparsity", "4", "--universe", "100"]
    found = answer(*user, "--clients", "1000000", "--shuffle")
    assert found["shuffle"]["epsilon"] < 0.1
    assert "trusted" in found["shuffle"]["caveat"]
    assert "tokens" in found["shuffle"]["caveat"]
    assert found["plan"]["epsilon"] == "1"
    assert answer(*FULL, "--shuffle")["shuffle"]["epsilon"] is None


def test_a_plot_is_drawn(answer, tmp_path):
    pytest.importorskip("matplotlib")
    answer(*FULL, "--plot", str(tmp_path / "plan.png"))
    assert (tmp_path / "plan.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*COMMON, "--clients", "100"], "give --epsilon, or --target-error"),
        ([*FULL, "--max-bytes", "1"], "more than the limit of 1"),
        ([*FULL, "--target-error", "0.0001"], "the nearest is"),
        ([*FULL, "--epsilon", "0"], "above 0"),
        ([*FULL, "--epsilon", "99"], "at most 16"),
        ([*FULL, "--protect", "l1:99"], "protect user, or l1:16"),
        ([*FULL, "--row", "squeeze", "--protect", "l1:16", "--decode", "direct"], "delta above 0"),
        ([*FULL, "--option", "bins=2"], "name it"),
        ([*FULL, "--option", "bins"], "NAME=VALUE"),
        ([*FULL, "--universe", "²"], "cannot read ²"),
        ([*FULL, "--universe=--5"], "cannot read --5"),
        ([*FULL, "--mechanism", "signed-binning", "--option", "bins=--5"], "got '--5'"),
        ([*FULL, "--option", "bins=²", "--mechanism", "signed-binning"], "got '²'"),
        ([*COMMON[:2], *COMMON[4:], "--epsilon", "1", "--sample", "x.csv"], "give --clients"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(run, arguments, words):
    done = run(*arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_newcomer_reads_three_lines_first(run):
    """What can be learned, what is promised, what it costs; every number with --verbose."""
    lines = run(*FULL).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == [
        "you can learn",
        "is promised",
        "it costs",
    ]
    assert all(len(line.split()) < 45 for line in lines[:3])
    assert not any(line.startswith(("digest", "n·Var", "guarantee")) for line in lines)
    more = run(*FULL, "-v").stdout
    for word in ("digest ", "mechanism ", "n·Var ", "guarantee ", "why "):
        assert f"\n{word}" in more


def test_each_limit_has_one_name_and_one_number(run, answer):
    found = answer(*FULL)
    said = run(*FULL, "--explain", "--verbose", "--expected-mean", "0.001")
    lines = said.stdout.splitlines()
    (floor,) = [line for line in lines if "noise floor" in line]
    assert f"{found['noise_floor']:.4g}:" in floor
    (largest,) = [line for line in lines if "largest error" in line]
    assert f"{found['predicted_linf']:.4g}," in largest
    smallest = f"{found['smallest_visible_mean']:.4g}"
    told = re.findall(
        r"stands out over 1,000 keys(?::| is) ([0-9.]+[0-9])", said.stdout + said.stderr
    )
    assert told == [smallest] * 3  # the line, the explanation and the warning


def test_a_weak_promise_is_called_so_on_standard_output(run):
    weak, void = (run(*COMMON, "--clients", "999", "--epsilon", one) for one in ("4", "16"))
    assert "Weak protection" in weak.stdout
    assert "No protection to speak of" in void.stdout
    assert "protection" not in run(*FULL).stdout


PILOT = ["--protect", "user", "--universe", "1000", "--epsilon", "1", "--clients", "10000000"]


@pytest.fixture
def pilot(tmp_path):
    """A file of 100 clients, every fifth of which holds 40 items, and the others 3; all hold 0."""
    rows = [
        f"{client},{item and 7 * client + item}"
        for client in range(100)
        for item in range(3 if client % 5 else 40)
    ]
    (tmp_path / "pilot.csv").write_text("client,item\n" + "\n".join(rows) + "\n")
    return tmp_path / "pilot.csv"


def test_a_sample_proposes_the_sparsity(run, answer, pilot):
    found = answer(*PILOT, "--sample", pilot)
    assert found["plan"]["sparsity"] == found["sample_sparsity"] == 40
    tried = {one["sparsity"]: one for one in found["sample"]}
    assert {1, 3, 40} <= set(tried)
    assert tried[3]["share_over"] == 0.2
    assert tried[40]["share_over"] == 0
    assert tried[3]["weight_lost"] > 0.3 > 1e-3 > tried[40]["weight_lost"]
    text = run(*PILOT, "--sample", pilot).stdout
    assert "40 taken" in text
    assert "20.00%" in text


def test_a_sample_leaves_a_given_sparsity_alone(run, answer, pilot):
    found = answer(*PILOT, "--sample", pilot, "--sparsity", "5")
    assert (found["plan"]["sparsity"], found["sample_sparsity"]) == (5, 40)
    assert "5 taken" in run(*PILOT, "--sample", pilot, "--sparsity", "5").stdout
