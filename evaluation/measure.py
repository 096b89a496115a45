"""One task: one run of one method at one point, and all of its measures.

linf, mse  largest and mean squared error over the keys that are scored
bias       Σ error·truth / Σ truth²: the share of the truth by which estimates are off
recall     share of the true top 20 among the estimated top 20, where all keys are asked
signal     mean of the true top 20 over the root of the MSE
posterior  the MSE of posterior means (faintly.engine.posterior), with a prior fitted to the same
           estimates: post-processing that serves every method, where the keys are a population
listed     mean error of the 20 largest answers, unbiased and posterior
agreement  mean over the keys of n·error² over the variance that the method predicts for the key:
           1 but for chance, wherever the method is unbiased
"""

import hashlib
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evaluation.datasets import Sample, load
from evaluation.experiments import TOP, Point
from evaluation.methods import METHODS
from faintly import __version__
from faintly.core import FloatArray, IdArray, IntArray, Plan, parse_unit
from faintly.engine.crowd import Crowd, Noisy
from faintly.engine.posterior import FEWEST, fit
from faintly.errors import BoundDoesNotApply, InvalidPlan, UnsupportedUnit
from faintly.mechanisms import mechanism_of
from faintly.planner import lower_bound
from faintly.primitives.entropy import fresh_salt, seeded

SPREAD_KEYS = 1000  # keys that are read where the whole universe would take too long
FAINT = 0.1  # of a standard error: a smaller stated bias hardly changes the comparison
LISTED = 20  # rows of a top list
LEVEL = 0.95  # of intervals, which are not used here


@dataclass(frozen=True, slots=True)
class Task:
    """One method at one point, in one run."""

    point: Point
    method: str
    run: int

    @property
    def name(self) -> str:
        """Return the name that the seed is derived from; the task's position is not in it."""
        return f"{self.point.name} | {self.method} | run {self.run}"

    @property
    def seed(self) -> int:
        """Return 63 bits hashed from the name."""
        digest = hashlib.blake2b(self.name.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1


@dataclass(frozen=True, slots=True)
class Keys:
    """Ids to read, and which of them are scored; the others help to judge predictions."""

    ids: IdArray
    scored: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one task measured, and under which plan."""

    mechanism: str
    options: str
    decode: str
    digest: str
    bytes: int
    linf: float
    mse: float
    n_mse: float
    predicted: float  # mean n·Var that the method expects from these clients at these keys
    agreement: float | None
    compared: int  # keys of `agreement`
    bias: float
    bias_spread: float  # standard deviation of `bias` that follows from the predicted variances
    claimed_bias: float  # the mechanism's own bound
    recall: float | None
    signal: float
    bound: float  # no pure unbiased mechanism has a smaller worst-case n·Var
    ratio: float
    zero_linf: float
    zero_mse: float
    mean_square: float
    aggregate: bool  # the sum of all reports was drawn, not each report
    epsilon_proven: float
    delta_proven: float
    posterior_mse: float | None = None
    listed_bias: float | None = None
    posterior_listed_bias: float | None = None
    parameters: str | None = None  # scalar parameters of the plan; the digest covers the lists


def setting(task: Task) -> dict[str, Any]:
    """Return what a record says about its task before anything is measured."""
    point, data = task.point, task.point.data
    return {
        "task": task.name,
        "data": data.name,
        "clients": data.clients,
        "universe": data.universe,
        "sparsity": data.sparsity,
        "unit": point.unit,
        "epsilon": point.epsilon,
        "keys": point.keys,
        "method": task.method,
        "run": task.run,
        "seed": task.seed,
        "version": __version__,
        "numpy": np.__version__,
    }


def run(task: Task, folder: str | None) -> dict[str, Any]:
    """Return the record of a task: what was measured, or why it could not be."""
    record = setting(task)
    began, worked = time.perf_counter(), time.process_time()
    try:
        record["data_digest"] = task.point.data.digest(folder)
        measured = measure(task, load(task.point.data, task.run, folder))
        record |= {"status": "done", **asdict(measured)}
    except (BoundDoesNotApply, InvalidPlan, UnsupportedUnit) as error:
        # A refusal is a result: the theorem does not cover this point.
        record |= {"status": "refused", "error": f"{type(error).__name__}: {error}"}
    except Exception as error:  # one broken task must not end the others
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked}
    return record | spent


def measure(task: Task, sample: Sample) -> Measured:
    """Return what one method measures on a sample."""
    point, data, method = task.point, task.point.data, METHODS[task.method]
    plan = method.plan(
        unit=point.unit,
        epsilon=point.epsilon,
        sparsity=data.sparsity,
        clients=data.clients,
        universe=data.universe,
        decode=point.decode,
        salt=fresh_salt(seeded(task.seed, "salt")),
    )
    mechanism, keys = mechanism_of(plan), keys_of(sample, point.keys)
    public, secret = (seeded(task.seed, part) for part in ("public", "secret"))
    totals = mechanism.simulation.totals(sample.vectors, keys.ids, public, secret)
    means = totals * np.float64(mechanism.scale / data.clients)
    proven = mechanism.guarantee().budget
    bound = lower_bound(parse_unit(point.unit), point.epsilon, data.sparsity, data.universe)
    expected = mechanism.forecast.variances(sample.vectors, keys.ids)
    scores = score(means, sample, keys) | compare(
        means, expected, sample, keys, mechanism.forecast.relative_bias()
    )
    null = mechanism.forecast.variance(sample.mean_square)
    noisy = Noisy(means, np.full(len(means), np.sqrt(null / data.clients)))
    scores |= shrunk(noisy, sample, keys, nonnegative=mechanism.domain != "signed")
    return Measured(
        mechanism=plan.mechanism,
        options=", ".join(f"{name}={value}" for name, value in sorted(method.options.items())),
        decode=plan.decode,
        digest=plan.digest.hex(),
        bytes=mechanism.layout.record_bytes,
        claimed_bias=mechanism.forecast.relative_bias(),
        bound=bound,
        ratio=scores["n_mse"] / bound if bound > 0 else np.inf,
        mean_square=sample.mean_square,
        aggregate=mechanism.simulation.draws_sum,
        epsilon_proven=proven.epsilon,
        delta_proven=proven.delta,
        parameters=parameters_of(plan),
        **scores,
    )


def parameters_of(plan: Plan) -> str:
    """Return the scalar parameters of a plan, without lists such as noise thresholds."""
    hashing = {f"hash_{name}": value for name, value in asdict(plan.hashing).items()}
    found = {**plan.parameters, **hashing, "failure": plan.failure}
    return ", ".join(
        f"{name}={value}" for name, value in found.items() if isinstance(value, str | int | float)
    )


def keys_of(sample: Sample, keys: str) -> Keys:
    """Return the ids to read."""
    size = len(sample.truth)
    ids = np.arange(size, dtype=np.uint64)
    if keys == "some" and size > SPREAD_KEYS:
        ids = np.linspace(0, size - 1, SPREAD_KEYS).astype(np.uint64)
    scored = np.ones(len(ids), dtype=bool)
    if keys == "top" and size > TOP:
        order = np.argsort(-np.abs(sample.truth), kind="stable")
        ids = np.concatenate([order[:TOP], order[TOP:][-SPREAD_KEYS:]]).astype(np.uint64)
        scored = np.arange(len(ids)) < TOP
    return Keys(ids, scored)


def score(means: FloatArray, sample: Sample, keys: Keys) -> dict[str, Any]:
    """Return every measure of these estimates of `keys.ids`."""
    truth, clients = sample.truth[keys.ids], len(sample.vectors)
    error = means - truth
    mse = float((error[keys.scored] ** 2).mean())
    held, off = truth[keys.scored], error[keys.scored]
    square = float((held**2).sum())
    top, found = largest(sample.truth, LISTED), keys.ids[largest(means, LISTED)]
    complete = len(keys.ids) == len(sample.truth)
    return {
        "linf": float(np.abs(off).max()),
        "mse": mse,
        "n_mse": mse * clients,
        "bias": float((off * held).sum() / square) if square else 0.0,
        "recall": len(np.intersect1d(top, found)) / len(top) if complete else None,
        "signal": float(sample.truth[top].mean() / np.sqrt(mse)) if mse else np.inf,
        "zero_linf": float(np.abs(held).max()),
        "zero_mse": float((held**2).mean()),
    }


def shrunk(noisy: Noisy, sample: Sample, keys: Keys, *, nonnegative: bool) -> dict[str, Any]:
    """Return the measures of posterior means; none where keys were chosen by their truth."""
    if not keys.scored.all() or len(keys.ids) < FEWEST:
        return {}
    prior = fit(Crowd.of(noisy), f"the {len(keys.ids):,} keys asked", nonnegative=nonnegative)
    made, truth = prior.posterior(noisy, LEVEL).mean, sample.truth[keys.ids]
    return {
        "posterior_mse": float(((made - truth) ** 2).mean()),
        "listed_bias": float((noisy.mean - truth)[largest(noisy.mean, LISTED)].mean()),
        "posterior_listed_bias": float((made - truth)[largest(made, LISTED)].mean()),
    }


def largest(values: FloatArray, count: int) -> IntArray:
    """Return the positions of the largest values, in descending order; ties by position."""
    some = np.arange(len(values))
    if count < len(values):
        # Not "at least": NaN comes last, but is not left out.
        some = np.flatnonzero(~(-values > np.partition(-values, count - 1)[count - 1]))
    return some[np.argsort(-values[some], kind="stable")][:count]


def compare(
    means: FloatArray, expected: FloatArray, sample: Sample, keys: Keys, stated: float
) -> dict[str, Any]:
    """Return how the estimates agree with the n·Var expected at each key.

    Keys at which the stated relative bias is no longer faint are left out of the agreement.
    """
    truth, clients = sample.truth[keys.ids], len(sample.vectors)
    fair = clients * (stated * truth) ** 2 <= FAINT**2 * expected
    ratios = clients * (means - truth)[fair] ** 2 / expected[fair]
    held, spread = truth[keys.scored], expected[keys.scored] / clients
    square = float((held**2).sum())
    return {
        "predicted": float(expected[keys.scored].mean()),
        "agreement": float(ratios.mean()) if fair.any() else None,
        "compared": int(fair.sum()),
        "bias_spread": float(np.sqrt((spread * held**2).sum()) / square) if square else 0.0,
    }
