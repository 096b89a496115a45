"""Calls that once reached memory that is not theirs: refused, or made harmless."""

import threading
import time

import numpy as np
import pytest

from faintly.kernels import compiled, reference
from faintly.kernels.threads import parallel

COMPILED = pytest.param(
    compiled, id="c", marks=pytest.mark.skipif(not compiled.available(), reason="not compiled")
)
BOTH = pytest.mark.parametrize("kernels", [COMPILED, pytest.param(reference, id="numpy")])


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch):
    monkeypatch.setenv("FAINTLY_THREADS", "3")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_nothing_runs_on_after_an_interruption(error):
    """The arrays may be gone when the caller goes on, so no slice may still write to them."""
    running, ended = set(), []

    def work(start, stop):
        running.add(start)
        if start == 0:
            raise error
        time.sleep(0.05)
        ended.append(start)

    with pytest.raises(error):
        parallel(work, 30, 10)
    assert sorted(ended) == [10, 20]
    assert running == {0, 10, 20}


def test_an_error_of_any_slice_is_seen():
    def work(start, stop):
        if start == 20:
            raise ValueError("the last slice")

    with pytest.raises(ValueError, match="the last slice"):
        parallel(work, 30, 10)


def test_without_threads_the_caller_does_it_all(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = []
    parallel(lambda start, stop: done.extend(range(start, stop)), 30, 10)
    assert sorted(done) == list(range(30))


@BOTH
def test_offsets_whose_differences_wrap_are_refused(kernels):
    offsets = np.array([0, 2**62, -(2**63) + 2**61, 3], dtype=np.int64)
    assert (np.diff(offsets) > 0).all()
    seeds, ids, odd = np.zeros(3, np.uint64), np.zeros(3, np.uint64), np.zeros(3, np.uint8)
    with pytest.raises(TypeError, match="ascend"):
        kernels.project_prf(seeds, offsets, ids, odd, 1)
    words, rows = np.zeros(3, np.uint32), np.zeros((3, 1), np.uint32)
    with pytest.raises(TypeError, match="ascend"):
        kernels.solve_gf2(offsets, words, rows, odd, rows)


@BOTH
def test_an_index_that_lies_in_the_table_does_not_change_on_the_way(kernels):
    table = np.full((1, 64), 63, dtype=np.int32)
    index, weight = table.reshape(-1).view(np.uint32), np.full(64, 2**20, dtype=np.int32)
    kernels.scatter_add(table, index, weight, 64 * 63)
    assert table[0, 63] == 63 + 64 * 2**20
    assert (table[0, :63] == 63).all()
