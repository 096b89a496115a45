"""Collections that statistical tests make: reports of clients, and what a server reads of them."""

from faintly import Reader, aggregate
from faintly.client import randomize_all
from faintly.core import Plan, VectorBatch
from faintly.primitives.entropy import seeded


def reader_of(plan: Plan, vectors: VectorBatch, seed: int, *run: object) -> Reader:
    """Return a reader of one report of each client, drawn anew for each run."""
    labels = (" ".join(map(str, (part, *run))) for part in ("public", "secret"))
    sources = (seeded(seed, label) for label in labels)
    return Reader(aggregate(plan, randomize_all(plan, vectors, *sources)))
