"""Simulation: encode a dataset, decode it, and compare with the truth.

Every run draws fresh seeds and fresh noise from seeded sources, so runs are independent
and the whole can be repeated. The truth is the mean, over all clients of the plan, of everything
they hold. Every run is also scored against what reports carry of it, after the mechanism has cut
vectors longer than planned. Where it refuses these, they are cut here.

Posterior answers are scored against the truth as well. Their prior is fitted to the keys given:
all keys of the universe, or every key of the data where it is open.

Where a report is as long as the universe, the sum of all reports is drawn from its law instead,
and standard errors are those that the mechanism predicts from what the clients hold.
"""

from collections.abc import Callable

import numpy as np

from faintly.client import randomize_all
from faintly.core import AnyArray, Estimates, FloatArray, IdArray, Plan, VectorBatch
from faintly.core.estimate import LEVEL, largest_score
from faintly.data import cut
from faintly.engine import Reader, aggregate
from faintly.engine.crowd import Crowd, Noisy
from faintly.engine.posterior import FEWEST, fit
from faintly.errors import InvalidInput
from faintly.mechanisms import Mechanism, mechanism_of
from faintly.mechanisms.simulation import mean_square
from faintly.planner import carried_means, excess
from faintly.primitives.entropy import Rng, seeded
from faintly.simulate.scores import Run, Score, Simulation, TopKey

TOP = 20
SHOWN = 5  # of the true top keys, one by one
NOTHING = "nobody in these data holds a key, so there is nothing to ask about"


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
        vectors: one per client, empty ones included, with all that they hold.
        ids: keys to ask about.
        truth: true mean of each of them.
        runs: number of runs.
        seed: of seeds, noise and, where longer vectors are refused, the cut.
        on_run: called after each run, for progress.
    """
    if not len(ids):
        raise InvalidInput(NOTHING)
    mechanism, measured = mechanism_of(plan), []
    beyond, held = excess(mechanism, vectors), np.isin(ids, vectors.indices)
    if mechanism.enforces_sparsity:
        vectors, _ = cut(vectors, plan.sparsity, np.random.default_rng(seed))
    judge = _Judge(truth, carried_means(mechanism, vectors, ids), held, len(vectors))
    answers = _drawn if mechanism.simulation.draws_sum else _made
    for run in range(runs):
        public, secret = (seeded(seed, f"{part}/{run}") for part in ("public", "secret"))
        measured.append(judge.run(answers(mechanism, vectors, ids, public, secret)))
        on_run()
    return Simulation(
        runs=tuple(measured),
        top=judge.top(measured),
        excess=beyond,
        reports=len(vectors),
        keys=len(ids),
        bytes=mechanism.layout.record_bytes,
        zero_linf=float(np.abs(truth).max(initial=0)),
        zero_mse=float((truth**2).mean()),
    )


def _made(
    mechanism: Mechanism, vectors: VectorBatch, ids: IdArray, public: Rng, secret: Rng
) -> Estimates:
    """Return the engine's answers from reports that clients made."""
    sketch = aggregate(mechanism.plan, randomize_all(mechanism.plan, vectors, public, secret))
    reader = Reader(sketch)
    crowd = reader.populated(len(ids))
    return reader.posterior_ids(ids, ids) if crowd else reader.estimate_ids(ids, ids)


def _drawn(
    mechanism: Mechanism, vectors: VectorBatch, ids: IdArray, public: Rng, secret: Rng
) -> Estimates:
    """Return means by the law of the sum of all reports, which are too long to make."""
    clients = max(1, len(vectors))
    totals = mechanism.simulation.totals(vectors, ids, public, secret)
    mean = totals * np.float64(mechanism.scale / clients)
    null = np.sqrt(mechanism.forecast.variance(mean_square(vectors)) / clients)
    made = None
    if len(ids) >= FEWEST:
        # The noise at a key that nobody holds: in reality that of held keys is not known.
        noisy, one_sided = Noisy(mean, np.full(len(ids), null)), mechanism.domain != "signed"
        prior = fit(Crowd.of(noisy), f"the {len(ids):,} keys asked", nonnegative=one_sided)
        made = prior.posterior(noisy, LEVEL)
    return Estimates(
        keys=ids.tolist(),
        mean=mean,
        stderr=np.sqrt(mechanism.forecast.variances(vectors, ids) / clients),
        reports=clients,
        guarantee=mechanism.guarantee(),
        null_stderr=float(null),
        score=mean / null,
        level=LEVEL,
        posterior=made,
    )


class _Judge:
    """Scores runs by the truth."""

    def __init__(
        self, truth: FloatArray, carried: FloatArray, held: AnyArray, reports: int
    ) -> None:
        self.truth, self.carried, self.held, self.reports = truth, carried, held, reports
        self.best = np.argsort(-truth, kind="stable")[:TOP]

    def run(self, found: Estimates) -> Run:
        own = found.mean, found.low, found.high
        posterior = None if found.posterior is None else self._score(found.answers(), self.truth)
        stands_out = found.score >= largest_score(len(found))
        return Run(
            truth=self._score(own, self.truth),
            after_cut=self._score(own, self.carried),
            posterior=posterior,
            predicted_n_var=float((found.stderr**2).mean() * self.reports),
            significant=int(stands_out.sum()),
            false_significant=int((stands_out & ~self.held).sum()),
            top=np.stack([found.mean, found.stderr])[:, self.best[:SHOWN]],
        )

    def _score(
        self, answers: tuple[FloatArray, FloatArray, FloatArray], truth: FloatArray
    ) -> Score:
        mean, low, high = answers
        error = mean - truth
        covered = (low <= truth) & (truth <= high)
        top = np.argsort(-truth, kind="stable")[:TOP]
        listed = np.argsort(-mean, kind="stable")[:TOP]
        mse = float((error**2).mean())
        return Score(
            linf=float(np.abs(error).max()),
            mse=mse,
            n_mse=mse * self.reports,
            coverage95=float(covered.mean()),
            coverage95_top20=float(covered[top].mean()),
            top20_recall=len(np.intersect1d(top, listed)) / len(top),
            bias_top20=float(error[self.best].mean()),
            bias_listed20=float(error[listed].mean()),
        )

    def top(self, runs: list[Run]) -> tuple[TopKey, ...]:
        answered, stderr = np.mean([run.top for run in runs], axis=0)
        shown = self.best[:SHOWN]
        columns = (self.truth[shown], self.carried[shown], answered, stderr / np.sqrt(len(runs)))
        return tuple(TopKey(*row) for row in np.stack(columns, axis=1).tolist())
