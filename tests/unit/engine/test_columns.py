"""Columns larger than memory: runs merge to what sorting everything at once would give."""

import errno

import numpy as np
import pytest

from faintly.core.sketch import in_order, sorted_columns
from faintly.engine import columns
from faintly.errors import InvalidInput
from tests.every import every


def some_runs(generator, lengths, seeds, width=2, limit=4):
    return [
        sorted_columns(
            generator.integers(0, seeds, length, dtype=np.uint64),
            generator.integers(0, limit, (length, width), dtype=np.uint32),
        )
        for length in lengths
    ]


def as_lists(found):
    return [part.tolist() for part in found]


@every("seeds", [1, 3, 2**40])
@every("lengths", [[], [0], [1], [0, 5, 0], [40, 1, 17], [100, 100], [7] * 9])
@every("merged", [1, 4, 16, 1000])
def test_runs_merge_to_all_at_once(generator, monkeypatch, tmp_path, seeds, lengths, merged):
    monkeypatch.setattr(columns, "MERGED", merged * columns.record_bytes(2))
    runs = some_runs(generator, lengths, seeds)
    wanted = as_lists(columns.join(runs, 2))
    assert as_lists(columns.merge_runs(runs, 2, None)) == wanted
    assert as_lists(columns.merge_runs(runs, 2, tmp_path)) == wanted
    assert as_lists(columns.merge_runs(runs[::-1], 2, None)) == wanted
    assert not list(tmp_path.iterdir())


def test_one_report_repeated_without_end_is_merged_in_parts(monkeypatch):
    """A merge that split by value could not split this, and would take it all at once."""
    monkeypatch.setattr(columns, "MERGED", 8 * columns.record_bytes(1))
    same = np.full(50, 7, np.uint64), np.full((50, 1), 3, np.uint32)
    parts = list(columns.merged_parts([same, same, same], 1))
    assert max(len(seeds) for seeds, _ in parts) <= 8
    assert sum(len(seeds) for seeds, _ in parts) == 150


def test_sorting_equals_the_sort_by_all_columns(generator):
    for count in (0, 1, 2, 3, 64, 500):
        for seeds in (1, 5, 2**40):
            drawn = generator.integers(0, seeds, count, dtype=np.uint64)
            fields = generator.integers(0, 3, (count, 3), dtype=np.uint32)
            order = np.lexsort((*fields.T[::-1], drawn))
            found = sorted_columns(drawn, fields)
            assert as_lists(found) == [drawn[order].tolist(), fields[order].tolist()]
            assert in_order(*found)


def test_disorder_is_seen_in_every_column():
    seeds = np.array([1, 2, 2, 2], np.uint64)
    fields = np.array([[9, 9], [0, 5], [0, 5], [1, 0]], np.uint32)
    assert in_order(seeds, fields)
    for swap in ([1, 0, 2, 3], [0, 1, 3, 2], [3, 1, 2, 0]):
        assert not in_order(seeds[swap], fields[swap])
    fields[2, 1] = 4
    assert not in_order(seeds, fields)


def test_columns_on_a_disk_leave_no_name(tmp_path, generator):
    (run,) = some_runs(generator, [30], 2**40)
    kept = columns.spill([run, (run[0][:0], run[1][:0])], 2, tmp_path)
    assert as_lists(kept) == as_lists(run)
    assert not kept[0].flags.writeable
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_hold_them(tmp_path, generator, monkeypatch):
    (run,) = some_runs(generator, [3], 9)
    with pytest.raises(InvalidInput, match="cannot keep reports"):
        columns.spill([run], 2, tmp_path / "missing")

    def full():
        yield run
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InvalidInput, match="No space left"):
        columns.spill(full(), 2, tmp_path)
    assert not list(tmp_path.iterdir())
