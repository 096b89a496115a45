"""A client's private data: one sparse vector, or many side by side.

Indices are 64-bit ids that `Plan.ids` makes from keys; values lie in [-1, 1].
Neither type has a serializer, and neither prints its contents: private data
leaves a client through `Mechanism.randomize` and in no other way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from faintly.core.arguments import listed
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray
from faintly.errors import InvalidVector


def _check_values(values: Sequence[float] | AnyArray) -> FloatArray:
    try:
        given = np.asarray(values)
        if given.size and given.dtype.kind not in "fiub":
            raise TypeError
        floats = given.astype(np.float64)
    except (TypeError, ValueError):
        # The original message would quote the value, so it is dropped from the chain.
        raise InvalidVector("values must be real numbers in [-1, 1]") from None
    bad = ~(np.abs(floats) <= 1.0)  # written so that NaN is bad, too
    if bad.any():
        raise InvalidVector(f"value at position {int(np.argmax(bad))} is outside [-1, 1]")
    return floats


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SparseVector:
    """One client's vector: sorted unique ids with non-zero values in [-1, 1].

    Privacy: holds raw data. It never leaves the device; pass it to a client.
    """

    indices: IdArray
    values: FloatArray

    def __init__(
        self,
        indices: Sequence[int] | AnyArray,
        values: Sequence[float] | AnyArray | None = None,
    ) -> None:
        try:
            ids = np.asarray(indices)
        except ValueError:
            raise InvalidVector("indices must be one row of non-negative integers") from None
        if ids.size == 0:
            ids = np.zeros(0, dtype=np.uint64)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise InvalidVector("indices must be one row of non-negative integers")
        if ids.dtype.kind == "i" and (ids < 0).any():
            raise InvalidVector(f"index at position {int(np.argmax(ids < 0))} is negative")
        # A set is a vector of ones.
        weights = np.ones(len(ids)) if values is None else _check_values(values)
        if weights.shape != ids.shape:
            raise InvalidVector("indices and values must have the same length")
        order = np.argsort(ids, kind="stable")
        ids, weights = ids[order].astype(np.uint64), weights[order]
        repeated = ids[1:] == ids[:-1]
        if repeated.any():
            first = int(order[1:][repeated][0])
            raise InvalidVector(f"index at position {first} appears twice")
        held = weights != 0
        object.__setattr__(self, "indices", ids[held])
        object.__setattr__(self, "values", weights[held])

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return "SparseVector(<private>)"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class VectorBatch:
    """Many clients' vectors as columns: client i owns rows offsets[i]:offsets[i+1].

    The ids of a client ascend, each once: mechanisms rely on it.

    Privacy: holds raw data of many clients, for bulk encoding and simulation.
    """

    offsets: IntArray
    indices: IdArray
    values: FloatArray

    @classmethod
    def of(cls, vectors: Sequence[SparseVector]) -> Self:
        """Return the batch that holds `vectors` in their order."""
        vectors = listed(vectors, "vectors")
        if not all(isinstance(vector, SparseVector) for vector in vectors):
            raise InvalidVector("a batch is made of SparseVectors; make them with SparseVector")
        lengths = [len(vector) for vector in vectors]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(
            offsets,
            np.concatenate([np.zeros(0, np.uint64), *(vector.indices for vector in vectors)]),
            np.concatenate([np.zeros(0), *(vector.values for vector in vectors)]),
        )

    @classmethod
    def from_rows(
        cls, clients: IntArray, indices: IdArray, values: FloatArray, count: int | None = None
    ) -> Self:
        """Return the batch of (client, index, value) rows; zeros are dropped.

        Values must lie in [-1, 1]. Clients are numbered 0..count-1; one without a row is an empty
        vector.
        """
        order = np.lexsort((indices, clients))
        clients, indices, values = clients[order], indices[order], values[order]
        repeated = (clients[1:] == clients[:-1]) & (indices[1:] == indices[:-1])
        if repeated.any():
            row = int(order[1:][repeated].min())
            raise InvalidVector(f"row {row} repeats an item of its client")
        # Counted before zeros are dropped: every client in the rows sends a report.
        total = count if count is not None else (int(clients[-1]) + 1 if len(clients) else 0)
        held = values != 0
        clients, indices, values = clients[held], indices[held], values[held]
        lengths = np.bincount(clients, minlength=total)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(offsets, indices.astype(np.uint64), values.astype(np.float64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"VectorBatch(<{len(self)} private vectors>)"

    @property
    def lengths(self) -> IntArray:
        """Return the number of items of each client."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> IntArray:
        """Return the client number of each row."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    def slice(self, start: int, stop: int) -> "VectorBatch":
        """Return clients start..stop as a batch of their own."""
        stop = min(stop, len(self))
        first, last = self.offsets[start], self.offsets[stop]
        return VectorBatch(
            self.offsets[start : stop + 1] - first,
            self.indices[first:last],
            self.values[first:last],
        )

    def take(self, chosen: IntArray) -> "VectorBatch":
        """Return the chosen clients in the order given."""
        lengths = self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        return VectorBatch(offsets, self.indices[rows], self.values[rows])

    def padded(self, count: int) -> "VectorBatch":
        """Return the batch with empty vectors appended up to `count` clients."""
        if count <= len(self):
            return self
        offsets = np.pad(self.offsets, (0, count - len(self)), mode="edge")
        return VectorBatch(offsets, self.indices, self.values)
