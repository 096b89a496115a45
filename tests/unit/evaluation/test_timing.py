"""The time of a run is that of all its sessions, and of no other."""

import pytest

from evaluation.timing import RUN, Session, Stopwatch, cores, describe, read


def test_a_session_is_on_disk_after_each_task(tmp_path):
    watch = Stopwatch(tmp_path, jobs=2)
    watch.add({"cpu_seconds": 3.0})
    watch.add({"cpu_seconds": 4.0})  # and now it is killed
    (killed,) = read(tmp_path / RUN)
    assert (killed.tasks, killed.cpu_seconds, killed.jobs) == (2, 7.0, 2)
    assert killed.cores == cores()
    assert killed.seconds > 0


def test_a_run_that_goes_on_adds_a_session_and_does_not_claim_the_whole(tmp_path):
    first = Stopwatch(tmp_path, jobs=2)
    first.add({"cpu_seconds": 3.0})
    first.stop()
    second = Stopwatch(tmp_path, jobs=1)
    second.add({"cpu_seconds": 5.0})
    sessions = second.stop()
    assert sessions == read(tmp_path / RUN)
    assert [(one.tasks, one.jobs) for one in sessions] == [(1, 2), (1, 1)]
    assert sum(one.cpu_seconds for one in sessions) == pytest.approx(8, abs=1)
    assert "2 tasks took" in describe(sessions)
    assert "in 2 sessions together" in describe(sessions)


def test_a_session_that_runs_nothing_is_none(tmp_path):
    first = Stopwatch(tmp_path, jobs=2)
    first.add({"cpu_seconds": 3.0})
    kept = first.stop()
    assert Stopwatch(tmp_path, jobs=7).stop() == kept == read(tmp_path / RUN)
    assert Stopwatch(tmp_path / "new", jobs=1).stop() == []
    assert describe([]) == ""


def test_the_description_of_one_session():
    assert describe([Session(9, 60.0, 100.0, 2, 4)]) == (
        "9 tasks took 60 s on 4 cores with 2 jobs, 2 min of processor time"
    )
