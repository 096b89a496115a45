"""Simulation: encode a dataset, decode it, and compare with the truth.

Every run draws fresh seeds and fresh noise from seeded sources, so runs are independent
and the whole can be repeated. The truth is the mean over all clients of the plan.

Where a report is as long as the universe, the sum of all reports is drawn from its law instead,
and standard errors are those that the mechanism predicts from what the clients hold.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from faintly.client import randomize_all
from faintly.core import FloatArray, IdArray, Plan, VectorBatch
from faintly.core.estimate import normal_quantile
from faintly.engine import Reader, aggregate
from faintly.mechanisms import Mechanism, mechanism_of
from faintly.primitives.entropy import Rng, seeded

TOP = 20
LEVEL = 0.95


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
    mechanism, measured = mechanism_of(plan), []
    answers = _drawn if mechanism.draws_sum else _made
    for run in range(runs):
        public, secret = (seeded(seed, f"{part}/{run}") for part in ("public", "secret"))
        mean, stderr = answers(mechanism, vectors, ids, public, secret)
        measured.append(_measure(mean, stderr, truth, len(vectors)))
        on_run()
    return Simulation(
        runs=tuple(measured),
        reports=len(vectors),
        keys=len(ids),
        bytes=mechanism.layout.record_bytes,
        zero_linf=float(np.abs(truth).max(initial=0)),
        zero_mse=float((truth**2).mean()),
    )


Answers = tuple[FloatArray, FloatArray]  # mean and standard error of each key


def _made(
    mechanism: Mechanism, vectors: VectorBatch, ids: IdArray, public: Rng, secret: Rng
) -> Answers:
    """Return what the engine answers to reports that clients made."""
    sketch = aggregate(mechanism.plan, randomize_all(mechanism.plan, vectors, public, secret))
    estimates = Reader(sketch).estimate_ids(ids, ids)
    return estimates.mean, estimates.stderr


def _drawn(
    mechanism: Mechanism, vectors: VectorBatch, ids: IdArray, public: Rng, secret: Rng
) -> Answers:
    """Return means by the law of the sum of all reports, which are too long to make."""
    clients = max(1, len(vectors))
    totals = mechanism.simulated_totals(vectors, ids, public, secret)
    variances = mechanism.predicted_variances(vectors, ids)
    return totals * np.float64(mechanism.scale / clients), np.sqrt(variances / clients)


def _measure(mean: FloatArray, stderr: FloatArray, truth: FloatArray, reports: int) -> Run:
    error = mean - truth
    covered = np.abs(error) <= normal_quantile(LEVEL) * stderr
    top = np.argsort(-truth, kind="stable")[:TOP]
    found = np.argsort(-mean, kind="stable")[:TOP]
    mse = float((error**2).mean())
    return Run(
        linf=float(np.abs(error).max()),
        mse=mse,
        n_mse=mse * reports,
        predicted_n_var=float((stderr**2).mean() * reports),
        coverage95=float(covered.mean()),
        coverage95_top20=float(covered[top].mean()),
        top20_recall=len(np.intersect1d(top, found)) / len(top),
    )
