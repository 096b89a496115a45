"""Plan, encode, aggregate, ask: the real steps, on files, with secure randomness."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from faintly.client import randomize_all
from faintly.core import FloatArray, Plan, Universe
from faintly.data import read_records, to_vectors, true_means
from faintly.engine import Reader, TopList, aggregate
from faintly.engine.files import atomic_write, load_sketch, read_reports, save_plan, save_sketch
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan, predict
from faintly.planner.plots import draw_answers
from faintly.primitives.entropy import secure
from faintly.wire.report_v1 import encode_batch

SAMPLE = "npm_deps_sample.parquet"
SPARSITY = 16  # most names per package in the sample
SHOWN = 20


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found, beside the truth that a real collector would never see."""

    plan: Plan
    signed: Plan  # for values of either sign, as if it were not known that people hold sets
    top: TopList
    truth: FloatArray  # true mean of each row of the top list
    measures: dict[str, Any]  # by their names in `faintly demo --json`


def run_demo(folder: Path, epsilon: float, on_step: Callable[[str], None]) -> DemoResult:
    """Run the demo, writing plan.json, reports.fnt and sketch.fns into `folder`."""
    on_step("reading the sample: who depends on what, in the npm registry of 2016")
    with as_file(files("faintly.demo") / SAMPLE) as path:
        records = read_records(path)
    names = [str(key) for key in records.keys]
    on_step(f"planning: {records.count:,} clients, any package name, hide each single dependency")
    wanted: dict[str, Any] = {
        "protect": "event",
        "epsilon": epsilon,
        "sparsity": SPARSITY,
        "clients": records.count,
        "universe": Universe.open(),
    }
    plan, signed = make_plan(**wanted, values="set"), make_plan(**wanted)
    save_plan(plan, folder / "plan.json")
    layout = mechanism_of(plan).layout
    on_step(f"encoding: every client sends {layout.record_bytes} bytes, with secure randomness")
    vectors = to_vectors(records, plan)
    with atomic_write(folder / "reports.fnt") as stream:
        for batch in randomize_all(plan, vectors, secure(), secure()):
            stream.write(encode_batch(batch, layout))
    on_step("aggregating: the server checks the reports and puts them in order")
    save_sketch(aggregate(plan, read_reports(plan, folder / "reports.fnt")), folder / "sketch.fns")
    on_step(f"asking for the mean of each of {len(names):,} package names")
    reader = Reader(load_sketch(folder / "sketch.fns"))
    return _compare(reader, names, true_means(vectors, plan.ids(names)), signed)


def _compare(reader: Reader, names: list[str], truth: FloatArray, signed: Plan) -> DemoResult:
    every, top = reader.posterior(names), reader.top(SHOWN, names, posterior=True)
    made = every.posterior
    assert made is not None
    true_mean = dict(zip(names, truth, strict=True))
    best = {names[int(position)] for position in np.argsort(-truth, kind="stable")[:SHOWN]}
    listed = [str(key) for key in top.estimates.keys]
    measures = {
        "top20_recall": len(best.intersection(listed)) / len(best),
        "coverage95": float(((every.low <= truth) & (truth <= every.high)).mean()),
        "coverage95_posterior": float(((made.low <= truth) & (truth <= made.high)).mean()),
        # Roots of the mean squared error over all keys; the last is for the answer 0 to everything.
        "error": _root(every.mean - truth),
        "error_posterior": _root(every.answers()[0] - truth),
        "error_zero": _root(truth),
        "keys": len(names),
        "bytes": reader.mechanism.layout.record_bytes,
        "mechanism": reader.sketch.plan.mechanism,
        # The standard error of the plan for values of either sign, relative to the one used.
        "signed_error_ratio": predict(signed).stderr / predict(reader.sketch.plan).stderr,
        "epsilon": reader.sketch.plan.budget.epsilon,
    }
    rows = np.array([true_mean[key] for key in listed])
    return DemoResult(reader.sketch.plan, signed, top, rows, measures)


def draw_chart(result: DemoResult, path: Path) -> None:
    """Write a picture of the answers beside the truth."""
    found = result.top.estimates
    budget = f"epsilon {result.plan.budget.epsilon:g} per dependency"
    title = f"{found.reports:,} clients, {budget}, {result.measures['bytes']} bytes each"
    draw_answers(
        path,
        found,
        result.truth,
        noise=(-found.noise_floor, found.noise_floor, "a name that nobody uses (95 %)"),
        labels=("share of packages that depend on it", title),
        unbiased=True,
    )


def _root(error: FloatArray) -> float:
    return float(np.sqrt((error**2).mean()))
