"""Slices on several threads: none runs on, and no error is lost."""

import threading
import time

import pytest

from faintly.kernels.threads import parallel


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
