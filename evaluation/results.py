"""From the records of tasks to tables: one row per run, and one cell per point and method.

The all-zero answer counts as a method here: it costs no bytes and is perfectly private, so a method
that errs more is useless.
"""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.experiments import Experiment, Point
from evaluation.log import Record
from evaluation.measure import Measured, Task
from evaluation.methods import METHODS, ZERO, Method
from faintly.data.tables import load
from faintly.errors import MissingDependency

SUMMARIZED = (
    *("linf", "mse", "n_mse", "agreement", "bias", "recall", "signal", "ratio"),
    *("posterior_mse", "listed_bias", "posterior_listed_bias"),
)
DIGITS = 6  # of a mean over runs; results.csv has them all
UNBIASED = 0.01  # claimed relative bias up to which predicted and measured errors must agree
ENOUGH_KEYS = 50  # least number for a comparison with the predicted variance
SETTING = ("experiment", "task", "data", "clients", "universe", "sparsity", "unit", "epsilon")
RUN = (
    *("keys", "method", "run", "seed", "version", "numpy", "data_digest"),
    *("status", "error", "seconds", "cpu_seconds"),
)
COLUMNS = (*SETTING, *RUN, *(field.name for field in fields(Measured)))
WORDS = ("experiment", "data", "unit", "keys", "method", "mechanism")  # of a summary
TEXT = (
    "experiment",
    "task",
    "data",
    "unit",
    "keys",
    "method",
    "version",
    "numpy",
    "data_digest",
    "status",
    "error",
    "mechanism",
    "options",
    "decode",
    "digest",
    "parameters",
)


@dataclass(frozen=True)
class Cell:
    """All runs of one method at one point."""

    point: Point
    method: Method
    records: tuple[Record, ...]

    def values(self, measure: str) -> list[float]:
        """Return the measure in each run that has it."""
        if self.method is ZERO:
            found = [_of_zero(record, measure) for record in self.records]
        else:
            found = [record.get(measure) for record in self.records]
        return [float(value) for value in found if value is not None]

    def mean(self, measure: str) -> float:
        """Return the mean over the runs; NaN where nothing was measured."""
        values = self.values(measure)
        return float(np.mean(values)) if values else math.nan

    def stderr(self, measure: str) -> float:
        """Return the standard error of the mean; NaN for fewer than two runs.

        Few runs may agree by chance. For the bias, the error that follows from the predicted
        variances is known, too, and the larger of the two is returned.
        """
        values = self.values(measure)
        if len(values) < 2:
            return math.nan
        seen = float(np.std(values, ddof=1))
        if measure == "bias" and self.method is not ZERO:
            seen = max(seen, self.mean("bias_spread"))
        return seen / math.sqrt(len(values))

    @property
    def bytes(self) -> float:
        """Return the bytes of one report."""
        return 0.0 if self.method is ZERO else self.mean("bytes")

    @cached_property
    def surprise(self) -> float | None:
        """Return how many standard errors measured and predicted variances are apart.

        The standard error is the larger of what the runs show and what independent normal
        errors would have. None where the method is biased, or too few keys can be compared.
        """
        if self.method is ZERO or self.mean("claimed_bias") > UNBIASED:
            return None
        keys, ratios = self.mean("compared"), self.values("agreement")
        if not ratios or keys < ENOUGH_KEYS:
            return None
        seen = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0
        error = max(seen, math.sqrt(2 / keys)) / math.sqrt(len(ratios))
        return float((np.mean(ratios) - 1) / error)


@dataclass(frozen=True)
class Results:
    """The records of a run, by task, and the experiments that they belong to."""

    experiments: tuple[Experiment, ...]
    records: Mapping[str, Record]
    runs: int

    def cell(self, point: Point, name: str) -> Cell | None:
        """Return the runs of a method at a point; None where it has none."""
        if name == ZERO.name:
            return self.zero(point)
        found = [self.records.get(Task(point, name, run).name) for run in range(self.runs)]
        done = tuple(record for record in found if record and record["status"] == "done")
        return Cell(point, METHODS[name], done) if done else None

    def zero(self, point: Point) -> Cell | None:
        """Return the all-zero answer's errors, which follow from any method's records."""
        for name in point.methods:
            cell = self.cell(point, name)
            if cell is not None:
                return Cell(point, ZERO, cell.records)
        return None

    def cells(self, experiment: Experiment) -> list[Cell]:
        """Return every cell of an experiment, the all-zero answer last at each point."""
        found = [
            self.cell(point, name)
            for point in experiment.points
            for name in (*point.methods, ZERO.name)
        ]
        return [cell for cell in found if cell is not None]

    @property
    def refusals(self) -> list[Record]:
        """Return one record for each method and point that a mechanism refused."""
        return [r for r in self.records.values() if r["status"] == "refused" and r["run"] == 0]

    @property
    def failures(self) -> list[Record]:
        """Return the records of the tasks that failed."""
        return [record for record in self.records.values() if record["status"] == "failed"]

    def rows(self) -> list[Record]:
        """Return one row per experiment, point, method and run, with every column."""
        rows = []
        for experiment in self.experiments:
            for point in experiment.points:
                for name in point.methods:
                    for run in range(self.runs):
                        record = self.records.get(Task(point, name, run).name)
                        if record is not None:
                            rows.append({"experiment": experiment.name, **record})
        return [{column: row.get(column) for column in COLUMNS} for row in rows]

    def summary(self) -> list[Record]:
        """Return one row per experiment, point and method: means and standard errors."""
        return [
            {"experiment": experiment.name, **_summed(cell)}
            for experiment in self.experiments
            for cell in self.cells(experiment)
        ]


def write(results: Results, out: Path) -> list[Path]:
    """Write results.csv, results.parquet (where pyarrow is installed) and summary.csv."""
    rows, summary = results.rows(), results.summary()
    paths = [out / "results.csv", out / "summary.csv"]
    write_csv(paths[0], rows, COLUMNS)
    write_csv(paths[1], summary, tuple(summary[0]) if summary else ())
    try:
        arrow, parquet = load("pyarrow", "Parquet"), load("pyarrow.parquet", "Parquet")
    except MissingDependency:
        return paths  # results.csv has the same rows
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    kinds = {name: arrow.string() for name in TEXT}
    table = {name: arrow.array(column, kinds.get(name)) for name, column in columns.items()}
    parquet.write_table(arrow.table(table), out / "results.parquet")
    return [*paths, out / "results.parquet"]


def read_summary(path: Path) -> list[Record]:
    """Return the rows of a summary.csv, as `Results.summary` has them."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {name: text if name in WORDS else _value(text) for name, text in row.items()}
            for row in csv.DictReader(file)
        ]


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    return float(text) if text else None


def _summed(cell: Cell) -> Record:
    """Return the row of one cell: its setting, then means over the runs and standard errors."""
    data, zero = cell.point.data, cell.method is ZERO
    first = {} if zero else cell.records[0]
    row: Record = {
        "data": data.name,
        "clients": data.clients,
        "universe": data.universe,
        "sparsity": data.sparsity,
        "unit": cell.point.unit,
        "epsilon": cell.point.epsilon,
        "keys": cell.point.keys,
        "method": cell.method.name,
        "mechanism": first.get("mechanism", ""),
        "sum_drawn": first.get("aggregate", False),
        "runs": len(cell.records),
        "bytes": cell.bytes,
        "claimed_bias": 1.0 if zero else _known(cell.mean("claimed_bias")),
    }
    for measure in SUMMARIZED:
        row[measure] = _known(cell.mean(measure))
        row[f"{measure}_stderr"] = _known(cell.stderr(measure))
    surprise = cell.surprise
    return row | {"predicted_z": None if surprise is None else _known(surprise)}


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...]) -> None:
    """Write rows of the same columns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _of_zero(record: Record, measure: str) -> float | None:
    """Return a measure of the all-zero answer, which follows from any method's record."""
    if measure == "bias":
        return -1.0
    error = record["zero_mse"] * record["clients"]
    if measure == "n_mse":
        return float(error)
    if measure == "ratio":
        return float(error / record["bound"]) if record["bound"] else None
    found: float | None = record.get(f"zero_{measure}")
    return found


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.{DIGITS}g}")
