"""Every benchmark by its name, and the document that a run makes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks import bins, clients, decode, machine, planes, server, tables
from benchmarks.measure import FULL, QUICK, Effort, peak_bytes
from benchmarks.result import Row

Benchmark = Callable[[Effort], list[Row]]

BENCHMARKS: dict[str, Benchmark] = {
    "scatter": tables.scatter,
    "transform": tables.transform,
    "decode": decode.full,
    "many-cells": decode.many_cells,
    "bins": bins.bins,
    "direct": decode.direct,
    "planes": planes.planes,
    "hashed": decode.hashed,
    "binning": clients.binning,
    "others": clients.others,
    "scores": clients.scores,
    "randomness": clients.randomness,
    "ingest": server.ingest,
    "text-keys": server.text_keys,
    "merge": server.merge,
    "stream": server.stream,
}
QUICK_BENCHMARKS: dict[str, Benchmark] = {
    "scatter": partial(tables.scatter, bits=(14, 20)),
    "transform": tables.transform,
    "decode": decode.full,
    "direct": decode.direct,
    "hashed": decode.hashed,
    "binning": partial(clients.binning, clients=2**11),
    "scores": partial(clients.scores, clients=2**10),
    "randomness": clients.randomness,
    "ingest": partial(server.ingest, reports=2**18),
}
# What goes into one file of benchmarks/results together: its title, and the benchmarks.
SUITES: dict[str, tuple[str, tuple[str, ...]]] = {
    "tables": ("Tables", ("scatter", "transform")),
    "decode": ("Decoding", ("decode", "many-cells", "bins", "direct", "hashed")),
    "planes": ("Reading sets directly", ("planes",)),
    "clients": ("Clients", ("binning", "others", "scores", "randomness")),
    "server": ("Server", ("ingest", "text-keys", "merge")),
}


def run(
    names: Sequence[str], *, quick: bool = False, on_start: Callable[[str], None] = lambda _: None
) -> list[Row]:
    """Return the rows of the named benchmarks, in the order of the names.

    Args:
        names: of `BENCHMARKS`.
        quick: a second or less for each row, and smaller sizes where that is enough.
        on_start: called with each name before it is measured.
    """
    rows: list[Row] = []
    for name in names:
        on_start(name)
        chosen = QUICK_BENCHMARKS.get(name, BENCHMARKS[name]) if quick else BENCHMARKS[name]
        rows += chosen(QUICK if quick else FULL)
    return rows


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """Return everything about a run as JSON: each figure by name, then rows, then where."""
    figures = {row.name: row.figure for row in rows}
    return (
        figures
        | machine.describe()
        | {"peak_mib": round(peak_bytes() / 2**20, 1), "rows": [row.document() for row in rows]}
    )
