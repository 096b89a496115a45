"""Make the sample that ships with the demo, from the npm_deps dataset.

    FAINTLY_DATA=/folder/of/datasets python scripts/make_sample.py

Clients are packages and keys are the packages they depend on. Clients are drawn
without replacement and renumbered in their old order, items beyond the sparsity are
cut uniformly, both with a fixed seed: the same input and pyarrow give the same bytes.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from faintly.core import (
    AnyArray,
    Budget,
    EventLevel,
    Hashing,
    Plan,
    Universe,
    VectorBatch,
)
from faintly.data import cut, find_dataset, read_records, to_vectors, true_means

DEMO = Path(__file__).parents[1] / "src" / "faintly" / "demo"
CLIENTS = 120_000  # as many as keep the file under a megabyte
SPARSITY = 16  # 97 % of the packages depend on no more
SEED = 2016  # the year of the snapshot

LICENCE = """\
npm_deps_sample.parquet is a random sample of {clients:,} packages of the npm registry as of
December 2016 (column client, renumbered) and the names of the packages that each depends on
(column key, at most {sparsity} per package, kept at random). It is made by
scripts/make_sample.py from the data of the npm package dependent-packages 2.2.2, which
comes under this licence:

The MIT License (MIT)

Copyright (c) Zeke Sikelianos

Permission is hereby granted, free of charge, to any person obtaining a copy of this software
and associated documentation files (the "Software"), to deal in the Software without
restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING
BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def main() -> None:
    """Write the sample and its licence, and print what is in it."""
    dataset = find_dataset("npm_deps")
    named = pq.read_table(dataset / "items.parquet", ["item", "name"]).sort_by("item")
    names = tuple(named.column("name").to_pylist())
    generator = np.random.default_rng(SEED)
    everyone = to_vectors(read_records(dataset), _plan(Universe.named(names)))
    vectors, _ = cut(_drawn(everyone, generator), SPARSITY, generator)

    path = DEMO / "npm_deps_sample.parquet"
    table = _table(vectors, names)
    _write(table, path)
    licence = LICENCE.format(clients=CLIENTS, sparsity=SPARSITY)
    (DEMO / "LICENSE.npm_deps").write_text(licence, encoding="utf-8")
    _describe(path, vectors, names)


def _plan(universe: Universe) -> Plan:
    """Return a plan that only maps names to their positions; nothing is randomized here."""
    return Plan(
        unit=EventLevel(),
        budget=Budget(1.0),
        sparsity=SPARSITY,
        clients=CLIENTS,
        universe=universe,
        mechanism="signed-binning",
        parameters={},
        hashing=Hashing(family="prf"),
        decode="direct",
        salt=bytes(16),
    )


def _drawn(vectors: VectorBatch, generator: np.random.Generator) -> VectorBatch:
    chosen = np.zeros(len(vectors), dtype=bool)
    chosen[generator.permutation(len(vectors))[:CLIENTS]] = True
    rows = chosen[vectors.owners]
    number = np.cumsum(chosen) - 1
    return VectorBatch.from_rows(
        number[vectors.owners[rows]], vectors.indices[rows], vectors.values[rows], CLIENTS
    )


def _table(vectors: VectorBatch, names: tuple[str, ...]) -> pa.Table:
    holders = np.bincount(vectors.indices.astype(np.int64), minlength=len(names))
    # Frequent keys get small codes, which compress best.
    order = np.argsort(-holders, kind="stable")[: np.count_nonzero(holders)]
    rank = np.zeros(len(names), dtype=np.int32)
    rank[order] = np.arange(len(order))
    codes: AnyArray = rank[vectors.indices.astype(np.int64)]
    rows = np.lexsort((codes, vectors.owners))
    dictionary = pa.array([names[index] for index in order.tolist()])
    return pa.table(
        {
            "client": pa.array(vectors.owners[rows].astype(np.int32)),
            "key": pa.DictionaryArray.from_arrays(pa.array(codes[rows]), dictionary),
        }
    )


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=19,
        use_dictionary=["key"],
        column_encoding={"client": "DELTA_BINARY_PACKED"},
        # One page per column: the sample is read whole, never in parts.
        data_page_size=1 << 24,
        dictionary_pagesize_limit=1 << 24,
        write_statistics=False,
    )


def _describe(path: Path, vectors: VectorBatch, names: tuple[str, ...]) -> None:
    means = true_means(vectors, np.arange(len(names), dtype=np.uint64))
    top = np.argsort(-means, kind="stable")[:20]
    print(f"{path.name}: {path.stat().st_size:,} bytes, {len(vectors):,} clients,")
    print(f"{len(vectors.indices):,} rows, {np.count_nonzero(means):,} distinct keys")
    for index in top.tolist():
        print(f"{means[index]:.4f}  {names[index]}")


if __name__ == "__main__":
    main()
