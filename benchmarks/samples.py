"""Synthetic plans, reports and vectors."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from faintly.client.bulk import randomize
from faintly.core import AnyArray, IdArray, IntArray, Plan, ReportBatch, Universe, VectorBatch
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded
from faintly.wire.report_v1 import BATCH_REPORTS

SALT = bytes(range(16))  # the same maps in every run


def one_cell_plan(reports: int, keys: int) -> Plan:
    """Return a plan whose reports are one signed cell of one table: retrieval of 8 items."""
    return _plan("retrieval", reports, keys, sparsity=8, decode="table", maps=1)


def many_cell_plan(reports: int, keys: int, decode: str = "table") -> Plan:
    """Return a plan whose reports are 16 cells each: signed binning of 64 items, linear."""
    return binning_plan(reports, keys, family="linear", decode=decode)


def binning_plan(reports: int, keys: int, **options: Any) -> Plan:
    """Return a plan of the paper's algorithm: 64 items in 16 bins."""
    return _plan("signed-binning", reports, keys, sparsity=64, bins=16, **options)


def projection_plan(reports: int, keys: int) -> Plan:
    """Return a plan that scores 64 projections of 32 items."""
    return _plan("projection-choice", reports, keys, protect="user", sparsity=32, groups=64)


def choice_plan(reports: int, keys: int, **options: Any) -> Plan:
    """Return a plan of projection choice for 16 items at epsilon 1, by table."""
    return _plan("projection-choice", reports, keys, protect="user", sparsity=16, **options)


def retrieval_plan(reports: int, keys: int, sparsity: int, decode: str) -> Plan:
    """Return a plan of retrieval, with as many blocks as the sparsity needs."""
    maps = 1 if decode == "table" else None
    return _plan("retrieval", reports, keys, sparsity=sparsity, decode=decode, maps=maps)


def orthogonal_plan(reports: int, keys: int) -> Plan:
    """Return a plan of sets at event level: 16 items, two rows each, read directly."""
    return _plan("orthogonal", reports, keys, sparsity=16, decode="direct", values="set")


def open_plan(reports: int, maps: int = 4, **options: Any) -> Plan:
    """Return a plan for text keys: four tables, one cell a report."""
    options |= {"sparsity": 8, "decode": "table", "maps": maps}
    return _plan("retrieval", reports, Universe.open(), **options)


def _plan(
    mechanism: str, clients: int, universe: int | Universe, protect: str = "event", **rest: Any
) -> Plan:
    return make_plan(
        protect=protect,
        epsilon=1.0,
        clients=clients,
        universe=universe,
        mechanism=mechanism,
        salt=SALT,
        **rest,
    )


def generator(seed: int = 1) -> np.random.Generator:
    """Return a fast generator; nothing here is secret."""
    return np.random.Generator(np.random.SFC64(seed))


def batches(plan: Plan, reports: int, size: int = BATCH_REPORTS) -> Iterator[ReportBatch]:
    """Yield reports with uniform seeds and fields, a batch of `size` at a time."""
    layout, draw = mechanism_of(plan).layout, generator()
    limits = set(layout.limits)
    for start in range(0, reports, size):
        count = min(size, reports - start)
        shape = (count, len(layout.limits))
        if len(limits) == 1:  # one call for all columns takes half the time
            fields = draw.integers(0, limits.copy().pop(), shape, dtype=np.uint32)
        else:
            columns = [draw.integers(0, top, count, dtype=np.uint32) for top in layout.limits]
            fields = np.stack(columns, axis=1)
        seeds = np.zeros(count, dtype=np.uint64)
        if layout.seed_bytes:
            top = 2 ** (8 * layout.seed_bytes)
            seeds = draw.integers(0, top - 1, count, dtype=np.uint64, endpoint=True)
        yield ReportBatch(plan.digest, seeds, fields)


def encoded(plan: Plan, reports: int, keys: int) -> ReportBatch:
    """Return the reports of clients that hold as many items as the plan allows.

    Uniform fields would do where a field is a cell. Noisy bins are small numbers, which is what
    lets the tables keep to 32 bits.
    """
    mechanism, public, secret = mechanism_of(plan), seeded(1, "public"), seeded(1, "secret")
    size = min(reports, BATCH_REPORTS)
    clients = vectors(size, plan.sparsity, keys)
    parts = [
        randomize(plan, mechanism, clients.slice(0, min(size, reports - start)), public, secret)
        for start in range(0, reports, size)
    ]
    return ReportBatch(
        plan.digest,
        np.concatenate([part.hash_seeds for part in parts]),
        np.concatenate([part.fields for part in parts]),
    )


def copier(*arrays: AnyArray) -> Callable[[], None]:
    """Return a function that copies the arrays, and keeps the copies until it is called again.

    The memory of a copy that is dropped at once may go back to the system, and mapping it again can
    take five times as long as copying. If each copy is kept until the next call, memory is always
    reused: that is the cost of copying alone, and the harder one to compare with.
    """
    kept: list[list[AnyArray]] = []

    def copy() -> None:
        kept[:] = [[array.copy() for array in arrays]]

    return copy


def vectors(clients: int, items: int, keys: int, whole: bool = False) -> VectorBatch:
    """Return clients with `items` distinct keys each, of values in [-1, 1], or of ones."""
    draw = generator()
    # Consecutive keys from a random start are distinct, and cost the same as others.
    first = draw.integers(0, keys, clients, dtype=np.uint64)[:, None]
    indices: IdArray = np.remainder(
        first + np.arange(items, dtype=np.uint64), keys, dtype=np.uint64
    )
    size = clients * items
    values = np.ones(size) if whole else draw.uniform(-1, 1, size)
    indices.sort(axis=1)
    return VectorBatch(np.arange(0, size + 1, items, dtype=np.int64), indices.reshape(size), values)


def paper_reports(reports: int, bins: int = 16) -> tuple[IdArray, IntArray]:
    """Return seeds and bins of the paper's reports, as its estimator reads them."""
    draw = generator()
    seeds = draw.integers(0, 2**40, reports, dtype=np.uint64)
    return seeds, draw.integers(-100, 101, (reports, bins))
