"""From a file of data to answers, through the command line and real files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from faintly.engine.files import load_plan, read_reports
from faintly.mechanisms import mechanism_of

ROWS = ["client,key,value"] + [f"{i},{'tea' if i % 2 else 'milk'},1" for i in range(2_000)]
NAMES = ["tea", "milk", "juice"]
EVENT = ["plan", "--protect", "event", "--epsilon", "4", "--sparsity", "2", "--clients", "2500"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return the folder of what `flow` has made before."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def flow(faintly, tmp_path: Path, made: Path):
    """Return a function that plans, encodes and aggregates ROWS, once for each universe."""
    (tmp_path / "data.csv").write_text("\n".join(ROWS) + "\n")
    (tmp_path / "names.txt").write_text("\n".join(NAMES) + "\n")

    def run(universe: str, *options: str) -> None:
        kept = made / " ".join([universe, *options])
        if kept.exists():
            shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
            return
        faintly(*EVENT, "--universe", universe, "-o", "plan.json", *options)
        faintly("encode", "--plan", "plan.json", "data.csv", "-o", "reports.fnt")
        faintly("aggregate", "--plan", "plan.json", "reports.fnt", "-o", "sketch.fns")
        shutil.copytree(tmp_path, kept)

    return run


@pytest.mark.parametrize(
    ("universe", "options"),
    [
        ("names.txt", ()),
        ("names.txt", ("--decode", "direct")),
        ("open", ()),
        ("open", ("--decode", "direct", "--family", "linear")),
    ],
)
def test_answers_hold_the_truth(faintly, flow, universe, options):
    """Both keys have mean 0.4: 1,000 of the plan's 2,500 clients hold each.

    At epsilon 4 a mean's standard error is below 0.03, so 0.25 is more than 8 of them.
    """
    flow(universe, *options)
    answer = faintly("query", "sketch.fns", *NAMES, "--json").json
    assert answer["reports"] == 2_500
    means = {row["key"]: row["mean"] for row in answer["estimates"]}
    assert means == {
        "tea": pytest.approx(0.4, abs=0.25),
        "milk": pytest.approx(0.4, abs=0.25),
        "juice": pytest.approx(0.0, abs=0.25),
    }
    for row in answer["estimates"]:
        assert row["low_all"] < row["low"] < row["mean"] < row["high"] < row["high_all"]
    top = faintly("top", "sketch.fns", "-n", "2", "--keys-from", "names.txt", "--json").json
    # Where both have one code in a map, which is seldom, the maps disagree and neither is sure.
    sure = {row["key"] for row in top["estimates"] if row["significant"] or not row["agree"]}
    assert sure == {"tea", "milk"}


def test_posteriors_stand_first_and_name_their_population(faintly, tmp_path):
    """A universe of 60 keys, of which 2,000 clients hold the first two."""
    rows = [f"{client},{key}" for client in range(2_000) for key in (0, 1)]
    (tmp_path / "data.csv").write_text("client,key\n" + "\n".join(rows))
    faintly(*EVENT[:-1], 2_000, "--universe", 60, "-o", "plan.json")
    faintly("encode", "--plan", "plan.json", "data.csv", "-o", "reports.fnt")
    faintly("aggregate", "--plan", "plan.json", "reports.fnt", "-o", "sketch.fns")
    shown = faintly("top", "sketch.fns", "-n", 3).out
    assert shown.index("posterior") < shown.index("unbiased")
    assert "fitted to all 60 keys of the universe" in shown
    assert "posterior" not in faintly("top", "sketch.fns", "--no-posterior").out
    asked = faintly("query", "sketch.fns", 0, 59, "--above", "0.5", "--json").json
    held, free = asked["estimates"]
    assert held["posterior_above"] > 0.99
    assert free["posterior_above"] < 0.01
    assert asked["posterior"]["threshold"] == 0.5
    assert "P(> 0.5)" in faintly("query", "sketch.fns", 0, "--above", "0.5").out
    few = faintly("query", "sketch.fns", 0, "--above", "1.5", status=1)
    assert "between -1 and 1" in few.err


def test_more_clients_than_planned_are_counted_with_a_note(faintly, flow, tmp_path):
    flow("open")
    faintly(*EVENT[:-1], "100", "--universe", "open", "-o", "small.json")
    done = faintly("encode", "--plan", "small.json", "data.csv", "-o", "many.fnt", "--json")
    assert done.json["reports"] == 2_000
    assert "the plan expects 100" in done.err


def test_position_does_not_tell_who_is_empty(faintly, tmp_path):
    """A shuffled half has 50 of the 100 in the mean, and fewer than 20 once in 10^17 runs."""
    (tmp_path / "data.csv").write_text("client,key\n" + "\n".join(f"{i},0" for i in range(100)))
    faintly(*EVENT[:-1], 200, "--epsilon", 16, "--universe", 5, "-o", "plan.json")
    faintly("encode", "--plan", "plan.json", "data.csv", "-o", "reports.fnt")
    plan = load_plan(tmp_path / "plan.json")
    (batch,) = read_reports(plan, tmp_path / "reports.fnt")
    mechanism, zero = mechanism_of(plan), np.zeros(1, dtype=np.uint64)
    early = batch.take(slice(0, 100))
    held = float(mechanism.read(early, zero)[0]) * mechanism.scale
    assert 20 < held < 80


LONG = ["client,key"] + [
    f"{i},{(7 * i + j) % 50}" for i in range(300) for j in range(3 + 6 * (i < 60))
]


def test_encode_says_what_people_hold_beyond_k(faintly, tmp_path):
    (tmp_path / "data.csv").write_text("\n".join(LONG) + "\n")
    plan = ["plan", "--protect", "user", "--epsilon", 1, "--clients", 300, "--universe", 50]
    faintly(*plan, "--sparsity", 3, "-o", "plan.json")
    encode = ["encode", "--plan", "plan.json", "data.csv", "-o", "reports.fnt"]
    said = faintly(*encode).out
    assert "60 of 300 clients (20.0%) hold more than 3 items, up to 9" in said
    assert "leave out 28.6% of all weight" in said  # of 60·9 + 240·3, 60·6 are cut
    found = faintly(*encode, "--json").json["beyond_sparsity"]
    assert (found["over"], found["clients"], found["most"]) == (60, 300, 9)
    assert found["carried"] < found["mean"]
    faintly(*plan, "--sparsity", 9, "-o", "plan.json")
    assert "more than" not in faintly(*encode).out


def test_encode_counts_whom_a_mechanism_would_refuse(faintly, tmp_path):
    (tmp_path / "data.csv").write_text("\n".join(LONG) + "\n")
    polynomial = ["--mechanism", "retrieval-gf", "--option", "form=polynomial"]
    faintly(*EVENT, "--universe", 50, "--sparsity", 3, *polynomial, "-o", "plan.json")
    refused = faintly("encode", "--plan", "plan.json", "data.csv", "-o", "r.fnt", status=1)
    assert "line 2 of data.csv: this client holds 9 items" in refused.err
    assert "60 of 300 clients hold more than 3" in refused.err
    assert not list(tmp_path.glob("*r.fnt*"))
    # Where it refuses, simulate cuts, and says so.
    simulated = faintly("simulate", "--plan", "plan.json", "--data", "data.csv", "--runs", 2)
    assert "60 of 2,500 clients" in simulated.out
    assert "after the cut" in simulated.out


@pytest.mark.parametrize("command", ["version", "plan"])
def test_a_number_of_threads_that_is_none_is_refused_in_one_line(faintly, monkeypatch, command):
    monkeypatch.setenv("FAINTLY_THREADS", "x")
    done = faintly(command, status=1)
    assert "FAINTLY_THREADS must be a positive integer, got 'x'" in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


def test_merge_equals_aggregating_together(faintly, flow, tmp_path):
    flow("names.txt")
    faintly("encode", "--plan", "plan.json", "data.csv", "-o", "more.fnt")
    faintly("aggregate", "--plan", "plan.json", "more.fnt", "-o", "more.fns")
    faintly("merge", "sketch.fns", "more.fns", "-o", "merged.fns")
    faintly("aggregate", "--plan", "plan.json", "reports.fnt", "more.fnt", "-o", "both.fns")
    assert (tmp_path / "merged.fns").read_bytes() == (tmp_path / "both.fns").read_bytes()


def test_inspect_tells_what_a_file_is(faintly, flow, tmp_path):
    flow("open")
    plan = faintly("inspect", "plan.json", "--json").json
    reports = faintly("inspect", "reports.fnt", "--json").json
    sketch = faintly("inspect", "sketch.fns", "--json").json
    assert [plan["kind"], reports["kind"], sketch["kind"]] == ["plan", "reports", "sketch"]
    assert plan["digest"] == reports["digest"] == sketch["digest"]
    assert plan["plan"] == sketch["plan"] == json.loads((tmp_path / "plan.json").read_text())
    assert reports["reports"] == sketch["reports"] == 2_500
    assert faintly("inspect", "plan.json").out.startswith("kind")
    neither = "data.csv is neither a plan, a file of reports nor a sketch"
    assert neither in faintly("inspect", "data.csv", status=1).err


def test_simulate_prints_the_promised_keys(faintly, flow):
    flow("names.txt")
    result = faintly(
        "simulate", "--plan", "plan.json", "--data", "data.csv", "--runs", 3, "--seed", 1, "--json"
    ).json
    promised = "linf mse n_mse predicted_n_var coverage95 coverage95_top20 bytes top20_recall"
    promised += " bias_top20 significant false_significant after_cut top beyond_sparsity"
    assert set(promised.split()) | {"zero_linf", "runs"} <= set(result)
    assert result["beyond_sparsity"]["over"] == 0
    assert result["significant"] == 2
    assert result["runs"] == 3
    assert result["zero_linf"] == pytest.approx(0.4)
    again = faintly(
        "simulate", "--plan", "plan.json", "--data", "data.csv", "--runs", 3, "--seed", 1, "--json"
    ).json
    assert again == result


def test_simulate_compares_mechanisms(faintly, flow, tmp_path):
    flow("names.txt")
    arguments = ["simulate", "--plan", "plan.json", "--data", "data.csv", "--runs", 2]
    asked = [*arguments, "--compare", "signed-binning,k-fold,gaussian"]
    result = faintly(*asked, "--json").json
    own = faintly("inspect", "plan.json", "--json").json["plan"]["mechanism"]
    names = [one["mechanism"] for one in result["compared"]]
    assert {own, "k-fold", "signed-binning"} == set(names)
    assert [one["mechanism"] for one in result["left_out"]] == ["gaussian"]
    alone = faintly(*arguments, "--json").json
    assert result["compared"][names.index(own)]["n_mse"] == alone["n_mse"]
    told = faintly(*asked, "--plot", "compared.svg").out
    assert "(the plan)" in told
    assert "gaussian is left out: gaussian protects l1:DISTANCE, not event." in told
    assert (tmp_path / "compared.svg").read_text().count("predicted n·Var") == 1
    assert "add --compare" in faintly(*arguments, "--plot", "a.svg", status=2).err
    assert "a plot is written as .png" in faintly(*asked, "--plot", "a.gif", status=1).err
    assert "got 'nobody'" in faintly(*arguments, "--compare", "nobody", status=1).err


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--epsilon", "0"], "epsilon must be above 0"),
        (["--epsilon", "99"], "epsilon must be above 0 and at most 16"),
        (["--sparsity", "0"], "sparsity must be between 1"),
        (["--clients", "0"], "clients must be between 1"),
        (["--universe", "0"], "universe size must be between 1"),
        (["--delta", "1"], "delta must be at least 0 and below 1"),
        (["--protect", "l1:9"], "no two vectors of 2 items are further apart than 4"),
        (["--failure", "0"], "failure must be above 0"),
        (["--universe", "missing.txt"], "cannot read missing.txt"),
    ],
)
def test_impossible_plans_are_refused_and_nothing_is_written(faintly, tmp_path, arguments, rule):
    base = dict(zip(EVENT[1::2], EVENT[2::2], strict=True)) | {"--universe": "5"}
    base |= dict(zip(arguments[0::2], arguments[1::2], strict=True))
    flat = [part for pair in base.items() for part in pair]
    done = faintly("plan", *flat, "-o", "plan.json", status=1)
    assert rule in done.err
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("client,key,value\n1,tea,nan\n", "line 2"),
        ("client,key,value\n1,tea,1\n2,tea,7.25\n", "line 3"),
        ("client,key,value\n1,tea,1\n1,tea,1\n", "line 3"),
        ("client,key,value\n1,secretkey,1\n", "line 2"),
        ("client,key,value\n", "no rows"),
        ("client,colour\n1,red\n", "item"),
    ],
)
def test_bad_data_is_refused_without_its_contents(faintly, flow, tmp_path, content, rule):
    flow("names.txt")
    (tmp_path / "bad.csv").write_text(content)
    done = faintly("encode", "--plan", "plan.json", "bad.csv", "-o", "bad.fnt", status=1)
    assert rule in done.err
    assert "7.25" not in done.err
    assert "secretkey" not in done.err
    assert "tea" not in done.err
    assert not list(tmp_path.glob("*bad.fnt*"))


def test_without_strictness_every_client_is_encoded(faintly, flow, tmp_path):
    flow("names.txt")
    rows = "1,tea,nan\n2,tea,7.25\n2,secretkey,1\n3,tea,0.5\n3,tea,0.25\n"
    (tmp_path / "messy.csv").write_text("client,key,value\n" + rows)
    done = faintly(
        "encode", "--plan", "plan.json", "messy.csv", "-o", "messy.fnt", "--no-strict", "--json"
    )
    assert json.loads(done.out)["with_data"] == 3
    counts = "left out: 1; values that are not numbers: 1; clipped: 1; repeated items: 1"
    assert counts in " ".join(done.err.split())
    assert "secretkey" not in done.err


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda data: data[:-9], "TRUNCATED"),
        (lambda data: data + b"x", "TRUNCATED"),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], "BAD_CHECKSUM"),
        (lambda data: b"", "TRUNCATED"),
        (lambda data: b"PK" + data, "BAD_MAGIC"),
    ],
)
def test_damaged_reports_are_refused_and_no_sketch_is_written(
    faintly, flow, tmp_path, damage, code
):
    flow("names.txt")
    (tmp_path / "bad.fnt").write_bytes(damage((tmp_path / "reports.fnt").read_bytes()))
    done = faintly(
        "aggregate", "--plan", "plan.json", "reports.fnt", "bad.fnt", "-o", "new.fns", status=1
    )
    assert code in done.err
    assert "bad.fnt" in done.err
    assert not list(tmp_path.glob("*new.fns*"))


def test_reports_of_another_plan_are_refused(faintly, flow, tmp_path):
    flow("names.txt")
    faintly(*EVENT, "--universe", "names.txt", "-o", "other.json")
    done = faintly("aggregate", "--plan", "other.json", "reports.fnt", "-o", "x.fns", status=1)
    assert "OTHER_PLAN" in done.err
    assert not (tmp_path / "x.fns").exists()


def test_unknown_keys_and_missing_files_are_named(faintly, flow):
    flow("names.txt")
    assert "'wine'" in faintly("query", "sketch.fns", "wine", status=1).err
    assert "cannot read nowhere.fns" in faintly("query", "nowhere.fns", "tea", status=1).err
    assert "give at least one key" in faintly("query", "sketch.fns", status=1).err


def test_a_top_list_of_an_open_universe_asks_for_keys(faintly, flow):
    flow("open")
    assert "--keys-from FILE" in faintly("top", "sketch.fns", status=1).err


def test_a_mistaken_credential_leaves_nothing_behind(faintly, tmp_path):
    command = ["credential", "add", "--data", "collected", "--role"]
    assert "submit, read, admin" in faintly(*command, "amdin", "me", status=2).err
    assert "printable" in faintly(*command, "admin", "", status=1).err
    assert not (tmp_path / "collected").exists()


def test_hostile_keys_are_shown_escaped(faintly, flow):
    flow("open")
    out = faintly("query", "sketch.fns", "\x1b[31mred", "[bold]x[/bold]").out
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out
    assert "[bold]x[/bold]" in out


def test_version_says_which_kernel_is_active(faintly):
    answer = faintly("version", "--json").json
    assert answer["kernel"] in {"c", "numpy"}
    assert faintly("version").out.startswith("faintly ")
    assert faintly("--version").out == faintly("version").out


@pytest.mark.parametrize("command", ["--version", "plan"])
def test_an_unknown_kernel_is_refused_in_one_line(command):
    done = subprocess.run(
        [sys.executable, "-m", "faintly", command],
        env=os.environ | {"FAINTLY_KERNEL": "foo"},  # read when the library is imported
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "FAINTLY_KERNEL must be c or numpy, got 'foo'; unset it" in done.stderr
    assert done.stdout == ""


def test_an_unknown_kernel_serves_no_program_either(monkeypatch):
    monkeypatch.setenv("FAINTLY_KERNEL", "foo")
    code = (
        "from faintly import Client, kernels, make_plan; assert kernels.active == 'none'; "
        "sizes = {'sparsity': 2, 'clients': 9, 'universe': 9, 'mechanism': 'signed-binning'}; "
        "Client(make_plan(protect='event', epsilon=1, **sizes)).report([1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "InvalidInput: FAINTLY_KERNEL must be c or numpy" in done.stderr


def without_reader(*arguments: str, cwd: Path) -> tuple[int, str]:
    """Return status and errors of a command whose reader left before it began, as `head` may."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", "from faintly.cli import main; main()", *arguments],
        cwd=cwd,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.parametrize("how", [("--candidates",), ("--json",)])
def test_a_reader_that_leaves_is_no_error(tmp_path, how):
    quiet = [*EVENT, "--epsilon", "2", "--universe", "5"]  # weaker ones get a note
    made = without_reader(*quiet, "-o", "plan.json", *how, cwd=tmp_path)
    assert made == (0, "")
    assert (tmp_path / "plan.json").stat().st_size > 0


def test_a_reader_that_leaves_hides_no_error(tmp_path):
    status, said = without_reader("inspect", "nowhere", "--json", cwd=tmp_path)
    assert status == 1
    assert said.count("\n") == 1
    assert "cannot read nowhere" in said


def test_every_command_explains_itself(faintly):
    out = faintly("--help").out
    commands = [
        "plan",
        "encode",
        "aggregate",
        "merge",
        "query",
        "top",
        "inspect",
        "simulate",
        "demo",
        "version",
    ]
    for command in commands:
        assert command in out
        assert faintly(command, "--help").out.count("--") > 1


def test_help_shows_words_in_brackets(faintly):
    words = " ".join(faintly("plan", "--help").out.split())  # whatever the width of a column
    assert "Privacy budget of one report [or solved for]." in words
    assert "[default: 8790]" in faintly("serve", "--help").out
    for group in ("collection", "credential"):
        assert faintly(group, "--help").out.startswith("Usage: "), "no box, no markup"


@pytest.mark.long
def test_demo_finds_the_top_of_the_list(faintly, tmp_path):
    """lodash is held by 12 % at a standard error of 0.4 %: missing it would take 20 of them."""
    answer = faintly("demo", "-o", "out", "--json").json
    assert answer["estimates"][0]["key"] == "lodash"
    assert answer["top20_recall"] >= 0.5
    assert 0.94 < answer["coverage95"] < 0.96
    for name in ("plan.json", "reports.fnt", "sketch.fns", "top.png"):
        assert (tmp_path / "out" / name).stat().st_size > 0


def test_the_module_is_the_command(faintly):
    command = [sys.executable, "-m", "faintly"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == faintly("--version").out
    failed = subprocess.run([*command, "query", "none.fns", "a"], capture_output=True, check=False)
    assert failed.returncode == 1
    assert b"Traceback" not in failed.stderr
