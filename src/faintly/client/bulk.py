"""Many clients at once: for encoding files, for load tests and for simulation."""

from collections.abc import Iterator

from faintly.core import Plan, ReportBatch, VectorBatch
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import Rng, uniform_seeds
from faintly.wire.report_v1 import BATCH_REPORTS


def randomize_all(
    plan: Plan, vectors: VectorBatch, public: Rng, secret: Rng
) -> Iterator[ReportBatch]:
    """Yield the reports of all vectors, one batch at a time.

    Args:
        plan: the collection.
        vectors: one vector per client, empty ones included.
        public: source of the seeds that reports carry.
        secret: source of the noise; must not share a generator with `public`.
    """
    if public is secret:
        raise TypeError("public seeds and secret noise need two separate sources")
    mechanism = mechanism_of(plan)
    for start in range(0, len(vectors), BATCH_REPORTS):
        part = vectors.slice(start, start + BATCH_REPORTS)
        seeds = uniform_seeds(public, len(part), mechanism.layout.seed_bytes)
        yield ReportBatch(plan.digest, seeds, mechanism.randomize(part, seeds, secret))
