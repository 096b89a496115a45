"""Bulk encoding: randomize, hash, score, pack."""

import numpy as np

from benchmarks import samples
from benchmarks.measure import Effort, Timing, measure, one_core
from benchmarks.result import Row, rate
from faintly import kernels
from faintly.client.bulk import randomize
from faintly.core import Plan, VectorBatch
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import secure
from faintly.wire import report_v1

CLIENTS = 2**14  # per call: arrays of a few megabytes
KEYS = 2**20


def encode_time(plan: Plan, vectors: VectorBatch, effort: Effort) -> Timing:
    """Return the time from vectors to the bytes of a batch, with secure randomness."""
    mechanism, public, secret = mechanism_of(plan), secure(), secure()

    def encode() -> bytes:
        batch = randomize(plan, mechanism, vectors, public, secret)
        return report_v1.encode_batch(batch, mechanism.layout)

    return measure(encode, effort)


def binning(effort: Effort, clients: int = CLIENTS) -> list[Row]:
    """Return how many clients of 64 items a core encodes in a second, in 16 bins."""
    linear, hashed = (
        samples.many_cell_plan(clients, KEYS),
        samples.binning_plan(clients, KEYS, family="prf", decode="direct"),
    )
    real, sets = samples.vectors(clients, 64, KEYS), samples.vectors(clients, 64, KEYS, whole=True)
    cases = (
        ("encode_per_s", "real values", linear, real),
        ("encode_sets_per_s", "sets", linear, sets),
        ("encode_prf_per_s", "real values, hashed bins", hashed, real),
    )
    with one_core():
        return [
            rate(
                name,
                f"encode signed-binning, 64 items in 16 bins, {kind}",
                encode_time(plan, vectors, effort),
                clients,
                unit="clients/s",
                at_least=5e5,
                note="secure randomness and packing included",
            )
            for name, kind, plan, vectors in cases
        ]


def others(effort: Effort, clients: int = CLIENTS) -> list[Row]:
    """Return how many clients a core encodes with the other two default mechanisms."""
    cases = (
        ("encode_retrieval_per_s", "retrieval, 16 items, table", 16, "table"),
        ("encode_retrieval_direct_per_s", "retrieval, 16 items, direct", 16, "direct"),
    )
    with one_core():
        rows = [
            rate(
                name,
                f"encode {words}",
                encode_time(
                    samples.retrieval_plan(clients, KEYS, items, decode),
                    samples.vectors(clients, items, KEYS),
                    effort,
                ),
                clients,
                unit="clients/s",
            )
            for name, words, items, decode in cases
        ]
        choice = encode_time(
            samples.projection_plan(clients, KEYS), samples.vectors(clients, 32, KEYS), effort
        )
    what = "encode projection-choice, 32 items, 64 projections"
    return [*rows, rate("encode_projection_per_s", what, choice, clients, unit="clients/s")]


def scores(effort: Effort, clients: int = 2**12, items: int = 32, groups: int = 256) -> list[Row]:
    """Return how many signs a core adds up in a second when it scores projections."""
    draw = samples.generator()
    seeds = draw.integers(0, 2**40, clients, dtype=np.uint64)
    offsets = np.arange(0, clients * items + 1, items, dtype=np.int64)
    codes = draw.integers(0, KEYS, clients * items, dtype=np.uint32)
    ids, negative = codes.astype(np.uint64), (codes & 1).astype(np.uint8)
    additions = clients * items * groups
    with one_core():
        linear = measure(
            lambda: kernels.project_linear(seeds, offsets, codes, negative, groups=groups, bits=20),
            effort,
        )
        hashed = measure(lambda: kernels.project_prf(seeds, offsets, ids, negative, groups), effort)
    unit, target = "additions/s", 1e9
    return [
        rate("project_linear_per_s", "projection scores, linear", linear, additions,
             unit=unit, at_least=target),
        rate("project_prf_per_s", "projection scores, hashed", hashed, additions,
             unit=unit, at_least=target),
    ]  # fmt: skip


def randomness(effort: Effort, words: int = 2**22) -> list[Row]:
    """Return how much secure randomness a core draws in a second."""
    source = secure()
    with one_core():
        timing = measure(lambda: source.words(words), effort)
    gigabytes = 4 * words / 1e9
    return [rate("randomness_gb_per_s", "secure randomness", timing, gigabytes, unit="GB/s")]
