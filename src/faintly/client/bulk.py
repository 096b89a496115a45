"""Many clients at once, to encode files, generate load and simulate."""

from collections.abc import Iterator

import numpy as np

from faintly.core import Plan, ReportBatch, VectorBatch
from faintly.core.arguments import instance
from faintly.errors import InvalidInput
from faintly.mechanisms import Mechanism, mechanism_of
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
    instance(plan, Plan, "plan", "as make_plan returns it")
    instance(vectors, VectorBatch, "vectors", "as vectors_from returns them")
    if not (hasattr(public, "words") and hasattr(secret, "words")):
        raise InvalidInput("public and secret must be sources of randomness, such as secure()")
    if public is secret:
        raise TypeError("public seeds and secret noise need two separate sources")
    mechanism = mechanism_of(plan)
    for start in range(0, len(vectors), BATCH_REPORTS):
        part = vectors.slice(start, start + BATCH_REPORTS)
        yield randomize(plan, mechanism, part, public, secret)


def randomize(
    plan: Plan, mechanism: Mechanism, vectors: VectorBatch, public: Rng, secret: Rng
) -> ReportBatch:
    """Return one report per vector; seeds are drawn without looking at the vectors."""
    seeds = uniform_seeds(public, len(vectors), mechanism.seed_bytes)
    fields = mechanism.randomize(vectors, seeds, secret)
    # A seed that the server does not need never leaves the client.
    sent = seeds if mechanism.layout.seed_bytes else np.zeros_like(seeds)
    return ReportBatch(plan.digest, sent, fields)
