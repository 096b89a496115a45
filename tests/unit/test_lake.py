"""A lake takes every segment once: repeated, raced, after a crash and after a merge."""

import hashlib
import threading

import pytest

from faintly.errors import FolderDamaged, InvalidInput
from faintly.lake import Lake, Sealed, Segment

PLAN = "ab" * 16


def segment(folder, number, reports=10, salt=b""):
    import pyarrow as pa
    from pyarrow import parquet

    path = folder / f"{number}{salt.hex()}.parquet"
    values = [bytes([number]) + salt] * reports
    parquet.write_table(pa.table({"record": pa.array(values, pa.binary(1 + len(salt)))}), path)
    data = path.read_bytes()
    return Segment(path, number, reports, len(data), hashlib.blake2b(data, digest_size=16).digest())


def sealed(folder, numbers, source="one", epoch=0):
    return Sealed(source, PLAN, epoch, tuple(segment(folder, each) for each in numbers))


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake")


def test_repeated_commits_add_each_segment_once(lake, tmp_path):
    first = lake.commit([sealed(tmp_path, [1, 2])])
    assert (first.added, first.reports) == (2, 20)
    assert lake.commit([sealed(tmp_path, [1, 2])]).added == 0
    assert lake.commit([sealed(tmp_path, [1, 2, 3])]).added == 1
    assert lake.commit([sealed(tmp_path, [1], "two"), sealed(tmp_path, [1], epoch=1)]).added == 2
    found = lake.snapshot(PLAN)
    assert (len(found.files), found.reports) == (5, 50)
    assert lake.snapshot(PLAN, epoch=1).reports == 10
    assert lake.snapshot(PLAN, version=first.version).reports == 20
    assert lake.snapshot("cd" * 16).files == []


def test_merged_segments_replace_what_they_were_made_of(lake, tmp_path):
    lake.commit([sealed(tmp_path, [1, 2, 3]), sealed(tmp_path, [1], "two")])
    merged = Sealed("one", PLAN, 0, (segment(tmp_path, 4, reports=30),))
    done = lake.commit([merged])
    assert (done.added, done.removed) == (1, 3)
    assert lake.snapshot(PLAN).reports == 40
    # Whoever still has the old list changes nothing.
    assert lake.commit([sealed(tmp_path, [1, 2, 3])]).added == 0
    assert lake.snapshot(PLAN).reports == 40


@pytest.mark.parametrize("step", ["uploaded", "committed"])
def test_a_crash_loses_and_repeats_nothing(lake, tmp_path, step):
    def crash(reached):
        if reached == step:
            raise KeyboardInterrupt

    lake.reached = crash
    with pytest.raises(KeyboardInterrupt):
        lake.commit([sealed(tmp_path, [1, 2])])
    lake.reached = lambda _: None
    assert lake.commit([sealed(tmp_path, [1, 2])]).added == (2 if step == "uploaded" else 0)
    assert lake.snapshot(PLAN).reports == 20


def test_racing_committers_of_one_folder_commit_once(lake, tmp_path):
    """Both have looked at the same state before either commits."""
    barrier, waited = threading.Barrier(2), threading.local()

    def meet(step):
        if step == "uploaded" and not hasattr(waited, "once"):
            waited.once = True
            barrier.wait()

    lake.commit([sealed(tmp_path, [1])])
    lake.reached, done = meet, []
    segments = sealed(tmp_path, [1, 2, 3])
    threads = [threading.Thread(target=lambda: done.append(lake.commit([segments]))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.added for each in done) == [0, 2]
    assert lake.snapshot(PLAN).reports == 30


def test_racing_collectors_both_commit(tmp_path):
    """The table is created by one of them; neither waits for the other."""
    done = []

    def run(source):
        own = Lake(tmp_path / "lake")
        done.extend(
            own.commit([sealed(tmp_path / source, range(1, last + 1), source)]).added
            for last in range(1, 6)
        )

    for source in "ab":
        (tmp_path / source).mkdir()
    threads = [threading.Thread(target=run, args=(source,)) for source in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [1] * 10
    assert Lake(tmp_path / "lake").snapshot(PLAN).reports == 100


def test_a_table_that_another_has_just_created_is_used(lake, tmp_path, monkeypatch):
    assert lake.commit([sealed(tmp_path, [1])]).added == 1
    with monkeypatch.context() as patch:
        patch.setattr("deltalake.DeltaTable.is_deltatable", staticmethod(lambda *_: False))
        assert lake.commit([sealed(tmp_path, [1, 2])]).added == 1
    assert lake.snapshot(PLAN).reports == 20


def test_a_changed_segment_is_not_committed(lake, tmp_path):
    damaged = sealed(tmp_path, [1])
    damaged.segments[0].path.write_bytes(b"something else")
    with pytest.raises(FolderDamaged, match="was changed"):
        lake.commit([damaged])
    assert lake.snapshot(PLAN).files == []


def test_a_missing_table_is_said_in_one_line(tmp_path):
    with pytest.raises(InvalidInput, match="no table yet"):
        Lake(tmp_path / "nowhere").snapshot(PLAN)


def test_restored_folders_replace_what_they_do_not_know(lake, tmp_path):
    """After a restore, numbers are used again for other segments: names tell them apart."""
    lake.commit([sealed(tmp_path, [1, 2])])
    other = (segment(tmp_path, 1), segment(tmp_path, 2, salt=b"x"), segment(tmp_path, 3))
    assert lake.commit([Sealed("one", PLAN, 0, other)]).added == 2
    assert len(lake.snapshot(PLAN).files) == 3
