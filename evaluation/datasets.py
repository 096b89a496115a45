"""The data of an experiment: made up by the paper's recipe, or read from files.

synthetic  each client holds k distinct items by Zipf's law (exponent 1.4, see `zipf`); values
           are Normal(1, 0.3) cut off at [-1, 1] ("normal"), or ±1 by the parity of the item
           ("signs": full vectors whose means do not cancel)
stored     a dataset under FAINTLY_DATA or --data; a client with more than k items is cut to a
           uniform random k of them, once, before any mechanism sees the data

The truth is the mean over all clients of the data after that cut.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from evaluation.movielens import read_ratings
from evaluation.zipf import DistinctZipf
from faintly.core import FloatArray, Universe, VectorBatch
from faintly.data import cut, find_dataset, read_records, vectors_in
from faintly.data.files import DATA_FOLDER
from faintly.errors import InvalidData
from faintly.primitives.entropy import seeded

EXPONENT = 1.4  # the paper, Evaluation, "Datasets"
MEAN, SPREAD = 1.0, 0.3  # likewise
MOST_MISSING = 0.01  # of the clients; stored files lack those without items, at most 63
RATINGS = ("movies/ratings.csv", "ml-20m/ratings.csv", "ratings.csv")


@dataclass(frozen=True, slots=True)
class Synthetic:
    """The paper's synthetic data, drawn anew for every run."""

    clients: int
    universe: int
    sparsity: int
    values: str = "normal"

    @property
    def name(self) -> str:
        """Return a name that no other data has."""
        sizes = f"n={self.clients} d={self.universe} k={self.sparsity}"
        return f"zipf-{EXPONENT:g} {self.values} {sizes}"

    def digest(self, folder: str | None) -> str:  # noqa: ARG002  # of `Data`
        """Return an empty string: the name determines the data."""
        return ""

    def vectors(self, run: int, folder: str | None) -> VectorBatch:  # noqa: ARG002  # of `Data`
        """Return the vectors of one run."""
        generator = generator_of(f"{self.name}/run {run}")
        items = DistinctZipf(self.universe, self.sparsity, EXPONENT).draw(self.clients, generator)
        values: FloatArray
        if self.values == "signs":
            values = np.where(items.ravel() % 2, -1.0, 1.0)
        else:
            values = generator.normal(MEAN, SPREAD, items.size)
            values.clip(-1.0, 1.0, out=values)
        offsets = self.sparsity * np.arange(self.clients + 1, dtype=np.int64)
        return VectorBatch(offsets, items.ravel().view(np.uint64), values)


@dataclass(frozen=True, slots=True)
class Stored:
    """A dataset on disk, of which every run takes the same cut."""

    name: str
    clients: int
    universe: int
    sparsity: int

    def vectors(self, run: int, folder: str | None) -> VectorBatch:  # noqa: ARG002  # of `Data`
        """Return the vectors, cut to the sparsity and padded with empty ones."""
        return _stored(self, folder)

    def digest(self, folder: str | None) -> str:
        """Return a hash of the file, so that results of other data are not reused."""
        path = _path(self.name, folder)
        file = path / "data.parquet" if path.is_dir() else path
        return _digest(file, file.stat().st_size, file.stat().st_mtime_ns)

    def missing(self, folder: str | None) -> str | None:
        """Return why the data cannot be read; None where it is there."""
        try:
            _path(self.name, folder)
        except InvalidData as error:
            return str(error)
        return None


Data = Synthetic | Stored


@dataclass(frozen=True, slots=True)
class Sample:
    """The vectors of one run, and their true means."""

    vectors: VectorBatch
    truth: FloatArray  # mean of every item
    squares: FloatArray  # mean over clients of the squared value of every item

    @property
    def mean_square(self) -> float:
        """Return the mean over clients of the sum of their squared values."""
        return float(self.squares.sum())


@lru_cache(maxsize=1)
def load(data: Data, run: int, folder: str | None = None) -> Sample:
    """Return the sample of a run; the last one is cached for the next method."""
    vectors = data.vectors(run, folder)
    items = vectors.indices.view(np.int64)  # an index is far below 2^63
    sums = [np.bincount(items, weights, data.universe) for weights in _powers(vectors.values)]
    truth, squares = (total / len(vectors) for total in sums)
    return Sample(vectors, truth, squares)


def _powers(values: FloatArray) -> Iterator[FloatArray]:
    yield values
    yield values**2


def generator_of(name: str) -> np.random.Generator:
    """Return numpy's generator for made-up data, seeded by a name; never for real noise."""
    return np.random.Generator(np.random.Philox(seeded(0, name).words(4).tolist()))


@lru_cache(maxsize=4)  # runs alternate between the datasets
def _stored(data: Stored, folder: str | None) -> VectorBatch:
    path = _path(data.name, folder)
    records = read_ratings(path) if path.name == "ratings.csv" else read_records(path)
    vectors = vectors_in(records, Universe.indexed(data.universe))
    if not (1 - MOST_MISSING) * data.clients <= len(vectors) <= data.clients:
        raise InvalidData(
            f"{data.name} has {len(vectors):,} clients where {data.clients:,} are expected; "
            "check that it is the whole file that the experiment names"
        )
    kept, _ = cut(vectors, data.sparsity, generator_of(f"{data.name}/cut"))
    return kept.padded(data.clients)


@lru_cache(maxsize=8)
def _digest(file: Path, size: int, changed: int) -> str:  # noqa: ARG001  # a changed file is a different one
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _path(name: str, folder: str | None) -> Path:
    """Return the path of a dataset, in the folder or else in FAINTLY_DATA."""
    given = folder or os.environ.get(DATA_FOLDER)
    if not given:
        raise InvalidData(
            f"no dataset {name!r}; set {DATA_FOLDER} to the folder that holds named datasets, "
            "or name it with --data"
        )
    root = Path(given)
    if name == "movies":
        found = [root / place for place in RATINGS if (root / place).is_file()]
        if found:
            return found[0]
        if not (root / name).is_dir():
            raise InvalidData(
                f"no MovieLens data; put ratings.csv of MovieLens-20M into {DATA_FOLDER} or the "
                f"folder that --data names, as {RATINGS[0]}"
            )
    return find_dataset(name, given)
