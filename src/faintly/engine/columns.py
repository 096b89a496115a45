"""Report columns that may be larger than memory: sorted runs on a disk, merged block by block.

Files of runs have no name from the moment they are made, so nothing is left behind, whatever
happens to the process.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from faintly.core import AnyArray, IdArray, WordArray
from faintly.core.sketch import sorted_columns
from faintly.errors import InvalidInput

Columns = tuple[IdArray, WordArray]  # seeds and fields of reports, in sorted order
MERGED = 2**23  # bytes of all runs together that a merge reads at a time


def record_bytes(width: int) -> int:
    """Return the bytes of a report in columns: its seed and `width` fields."""
    return 8 + 4 * width


def join(parts: Sequence[Columns], width: int) -> Columns:
    """Return the reports of all parts, sorted, in memory."""
    return sorted_columns(
        np.concatenate([np.zeros(0, np.uint64), *(seeds for seeds, _ in parts)]),
        np.concatenate([np.zeros((0, width), np.uint32), *(fields for _, fields in parts)]),
    )


def spill(sorted_parts: Iterable[Columns], width: int, folder: Path) -> Columns:
    """Return columns on disk in the folder, from parts in ascending order."""
    try:
        with (
            tempfile.TemporaryFile(dir=folder) as seed_file,
            tempfile.TemporaryFile(dir=folder) as field_file,
        ):
            for seeds, fields in sorted_parts:
                seed_file.write(np.ascontiguousarray(seeds).data)
                field_file.write(np.ascontiguousarray(fields).data)
            return _mapped(seed_file, np.uint64), _mapped(field_file, np.uint32).reshape(-1, width)
    except OSError as error:
        raise InvalidInput(f"cannot keep reports in {folder}: {error.strerror}") from None


def _mapped(stream: BinaryIO, dtype: type) -> AnyArray:
    """Return what was written to a file, mapped; the mapping outlives the file's name."""
    stream.flush()
    return np.memmap(stream, dtype, "r") if stream.tell() else np.zeros(0, dtype)


def merge_runs(runs: Sequence[Columns], width: int, folder: Path | None) -> Columns:
    """Return the reports of sorted runs, sorted: in memory, or on a disk if a folder is given."""
    runs = [run for run in runs if len(run[0])]
    if len(runs) == 1:
        return runs[0]
    if folder is not None and runs:
        return spill(merged_parts(runs, width), width, folder)
    count, done = sum(len(seeds) for seeds, _ in runs), 0
    out = np.empty(count, np.uint64), np.empty((count, width), np.uint32)
    for seeds, fields in merged_parts(runs, width):
        out[0][done : done + len(seeds)], out[1][done : done + len(seeds)] = seeds, fields
        done += len(seeds)
    return out


def merged_parts(runs: Sequence[Columns], width: int) -> Iterator[Columns]:
    """Yield the reports of sorted runs in order, a part at a time.

    One block of each run is in memory. Nothing still unread is below the smallest of the blocks'
    last reports, so everything up to that one can be sorted and yielded. Equal reports need no
    special care, so one that repeats very often takes no more memory than others.
    """
    block = max(1, MERGED // (record_bytes(width) * max(1, len(runs))))
    while runs:
        heads = [(seeds[:block], fields[:block]) for seeds, fields in runs]
        lengths = [len(seeds) for seeds, _ in runs]
        unseen = [_row(head, -1) for head, n in zip(heads, lengths, strict=True) if n > block]
        bound = min(unseen, default=None)
        taken = [len(head[0]) if bound is None else _until(head, bound) for head in heads]
        yield join([(s[:n], f[:n]) for (s, f), n in zip(heads, taken, strict=True)], width)
        rest = [(s[n:], f[n:]) for (s, f), n in zip(runs, taken, strict=True)]
        runs = [run for run in rest if len(run[0])]


def _row(columns: Columns, position: int) -> tuple[int, ...]:
    seeds, fields = columns
    return (int(seeds[position]), *fields[position].tolist())


def _until(columns: Columns, row: tuple[int, ...]) -> int:
    """Return how many of the sorted reports are not above a row."""
    low, high = 0, len(columns[0])
    for column, value in zip((columns[0], *columns[1].T), row, strict=True):
        wanted = column.dtype.type(value)
        inside = column[low:high]
        low, high = (
            low + int(np.searchsorted(inside, wanted, "left")),
            low + int(np.searchsorted(inside, wanted, "right")),
        )
    return high
