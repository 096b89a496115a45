"""Simulation: encode a dataset, decode it, and compare with the truth.

Every run draws fresh seeds and fresh noise from seeded sources, so runs are independent
and the whole can be repeated. The truth is the mean over all clients of the plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from faintly.client import randomize_all
from faintly.core import FloatArray, IdArray, Key, Plan, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import seeded

TOP = 20


@dataclass(frozen=True, slots=True)
class Run:
    """What one run measured."""

    linf: float
    mse: float
    n_mse: float
    predicted_n_var: float
    coverage95: float
    coverage95_top20: float
    top20_recall: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """Several runs, the plan's report size, and what an all-zero answer would get."""

    runs: tuple[Run, ...]
    reports: int
    keys: int
    bytes: int
    zero_linf: float
    zero_mse: float

    def mean(self, name: str) -> float:
        """Return the mean of one measure over the runs."""
        return float(np.mean([getattr(run, name) for run in self.runs]))

    def stderr(self, name: str) -> float:
        """Return the standard error of that mean; NaN for a single run."""
        values = [getattr(run, name) for run in self.runs]
        return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan

    def document(self) -> dict[str, float | int | None]:
        """Return means over runs, and their standard errors under NAME_stderr."""
        out: dict[str, float | int | None] = {}
        for field in fields(Run):
            out[field.name] = self.mean(field.name)
            spread = self.stderr(field.name)
            out[f"{field.name}_stderr"] = None if np.isnan(spread) else spread
        return out | {
            "bytes": self.bytes,
            "zero_linf": self.zero_linf,
            "zero_mse": self.zero_mse,
            "runs": len(self.runs),
            "reports": self.reports,
            "keys": self.keys,
        }


def simulate(
    plan: Plan,
    vectors: VectorBatch,
    ids: IdArray,
    truth: FloatArray,
    *,
    runs: int,
    seed: int,
    on_run: Callable[[], None] = lambda: None,
) -> Simulation:
    """Return `runs` independent runs of the plan on the vectors.

    Args:
        plan: the collection.
        vectors: one per client, empty ones included; already cut as the caller wants.
        ids: keys to ask about.
        truth: true mean of each of them.
        runs: number of runs.
        seed: of seeds and noise.
        on_run: called after each run, for progress.
    """
    measured = []
    for run in range(runs):
        public, secret = (seeded(seed, f"{part}/{run}") for part in ("public", "secret"))
        sketch = aggregate(plan, randomize_all(plan, vectors, public, secret))
        measured.append(_measure(Reader(sketch), ids, ids.tolist(), truth))
        on_run()
    return Simulation(
        runs=tuple(measured),
        reports=len(vectors),
        keys=len(ids),
        bytes=mechanism_of(plan).layout.record_bytes,
        zero_linf=float(np.abs(truth).max(initial=0)),
        zero_mse=float((truth**2).mean()),
    )


def _measure(reader: Reader, ids: IdArray, keys: Sequence[Key], truth: FloatArray) -> Run:
    estimates = reader.estimate_ids(ids, keys)
    error = estimates.mean - truth
    covered = (estimates.low <= truth) & (truth <= estimates.high)
    top = np.argsort(-truth, kind="stable")[:TOP]
    found = np.argsort(-estimates.mean, kind="stable")[:TOP]
    mse = float((error**2).mean())
    return Run(
        linf=float(np.abs(error).max()),
        mse=mse,
        n_mse=mse * estimates.reports,
        predicted_n_var=float((estimates.stderr**2).mean() * estimates.reports),
        coverage95=float(covered.mean()),
        coverage95_top20=float(covered[top].mean()),
        top20_recall=len(np.intersect1d(top, found)) / len(top),
    )
