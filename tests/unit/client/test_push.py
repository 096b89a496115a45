"""A file is pushed once, wherever the push stops; ids are on the disk before anything leaves."""

import errno
import json
import zlib

import numpy as np
import pytest

from faintly import durable, make_plan
from faintly.client.push import push
from faintly.client.transport import Receipt
from faintly.core import ReportBatch
from faintly.engine import decode
from faintly.errors import InvalidInput, Rejected, SendFailed
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly.wire.report_v1 import encode_batch

OPTIONS = {"protect": "event", "epsilon": 1, "sparsity": 2, "clients": 10, "universe": 8}
PLAN = make_plan(**OPTIONS, mechanism="signed-binning")
LAYOUT = mechanism_of(PLAN).layout
URL = "http://127.0.0.1:1"


class Collector:
    """Counts as a collector does, and fails when it is told to."""

    def __init__(self, state):
        self.state, self.counted, self.fail_after = state, {}, None
        self.calls, self.most = 0, 1000

    def send(self, digest, body, *, epoch, request):
        assert request.hex() in self.state.read_text().splitlines(), "not on the disk before"
        self.calls += 1
        if self.fail_after is not None and self.calls > self.fail_after:
            raise SendFailed("UNREACHABLE", "gone")
        if len(decode(PLAN, body)) > self.most:
            raise SendFailed("TOO_LARGE", "the collector answered 413 TOO_LARGE", "too long")
        replayed = request in self.counted
        assert self.counted.setdefault(request, body) == body
        return Receipt(len(decode(PLAN, body)), replayed)

    def seeds(self):
        return [int(s) for body in self.counted.values() for s in decode(PLAN, body).hash_seeds]


def batch(first, size, plan=PLAN):
    fields = np.zeros((size, len(LAYOUT.widths)), dtype=np.uint32)
    return ReportBatch(plan.digest, np.arange(first, first + size, dtype=np.uint64), fields)


@pytest.fixture
def file(tmp_path):
    """23 reports in batches of 10, 0, 1 and 12."""
    sizes, path = [(0, 10), (10, 0), (10, 1), (11, 12)], tmp_path / "reports.fnt"
    path.write_bytes(b"".join(encode_batch(batch(*size), LAYOUT) for size in sizes))
    return path


@pytest.fixture
def collector(file):
    return Collector(file.with_name("reports.fnt.push"))


@pytest.mark.parametrize("size", [1, 4, 10, 23, 24, None])
def test_batches_have_the_size_that_was_asked_for(file, collector, size):
    seen = []
    done = push(file, URL, collector, batch=size, progress=lambda *now: seen.append(now))
    assert (done.sent, done.replayed, done.skipped) == (23, 0, 0)
    assert collector.seeds() == list(range(23))
    assert collector.calls == -(-23 // (size or 23))
    assert seen[-1] == (23, 23)


def test_a_second_run_sends_nothing(file, collector):
    push(file, URL, collector, batch=5)
    calls = collector.calls
    done = push(file, URL, collector, batch=5)
    assert (done.sent, done.skipped, collector.calls) == (0, 23, calls)


@pytest.mark.parametrize("stop", range(5))
def test_a_run_that_stopped_goes_on_under_the_same_names(file, collector, stop):
    collector.fail_after = stop
    with pytest.raises(SendFailed):
        push(file, URL, collector, batch=5)
    collector.fail_after = None
    done = push(file, URL, collector, batch=5)
    assert (done.sent, done.skipped) == (23 - 5 * stop, 5 * stop)
    assert collector.seeds() == list(range(23))


def test_a_batch_that_is_too_large_is_told_with_what_to_do(file, collector):
    collector.most = 10
    with pytest.raises(SendFailed, match="with a smaller --batch, such as 11") as told:
        push(file, URL, collector, batch=23)
    assert (told.value.code, told.value.reason) == ("TOO_LARGE", "too long")
    assert push(file, URL, collector, batch=10).sent == 23
    assert collector.seeds() == list(range(23))


def test_a_size_stays_once_a_batch_may_have_arrived(file, collector):
    """Another size would name other requests, and what had arrived would count twice."""
    collector.fail_after = 0
    with pytest.raises(SendFailed):
        push(file, URL, collector, batch=12)  # who knows what became of it
    collector.fail_after, collector.most = None, 10
    with pytest.raises(SendFailed, match="--batch"):
        push(file, URL, collector, batch=12)
    with pytest.raises(InvalidInput, match="belongs to another push"):
        push(file, URL, collector, batch=10)


@pytest.mark.parametrize("lost", range(1, 9))
def test_a_state_that_lost_its_end_only_repeats(file, collector, lost):
    """Acknowledgements are not worth waiting for the disk: the collector knows."""
    push(file, URL, collector, batch=5)
    collector.state.write_bytes(collector.state.read_bytes()[:-lost])
    done = push(file, URL, collector, batch=5)
    assert done.sent == 0
    assert done.replayed + done.skipped == 23
    assert sorted(collector.seeds()) == list(range(23))


@pytest.mark.parametrize("fail_at", [1, 2])
def test_nothing_is_sent_before_the_ids_and_their_file_are_synced(
    file, collector, monkeypatch, fail_at
):
    synced = []

    def fail(handle):
        synced.append(handle)
        if len(synced) == fail_at:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable, "sync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        push(file, URL, collector)
    assert collector.calls == 0


def test_a_state_that_was_never_ready_is_begun_anew(file, collector):
    collector.state.write_text('{"server": "x"}\nabc\n')
    assert push(file, URL, collector).sent == 23


@pytest.mark.parametrize("change", ["server", "epoch", "batch", "file"])
def test_the_state_of_another_push_is_refused(file, collector, change):
    push(file, URL, collector, batch=5)
    before = dict(collector.counted)
    options = {"epoch": 1} if change == "epoch" else {"batch": 6 if change == "batch" else 5}
    if change == "file":
        file.write_bytes(file.read_bytes() + encode_batch(batch(23, 1), LAYOUT))
    with pytest.raises(InvalidInput, match="another push"):
        push(file, URL + "0" * (change == "server"), collector, **options)
    assert collector.counted == before


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (1, "zz" * 16),
        (1, "00" * 15),
        (0, "{"),
        (0, "[" * 100_000),
        (-1, "x."),
        (-1, "9" * 5000 + "."),
    ],
    ids=["no digits", "short id", "no JSON", "deep JSON", "no number", "long number"],
)
def test_a_damaged_state_is_refused(file, collector, number, line):
    push(file, URL, collector)
    lines = collector.state.read_text().splitlines()
    lines[number] = line
    collector.state.write_text("\n".join(lines))
    with pytest.raises(InvalidInput, match="damaged"):
        push(file, URL, collector)


def test_two_pushes_at_once_are_refused(file, collector):
    inner = Collector(collector.state)

    class Second:
        def send(self, *given, **named):
            with pytest.raises(InvalidInput, match="another push of this file"):
                push(file, URL, inner)
            return collector.send(*given, **named)

    push(file, URL, Second())
    assert not inner.calls


def test_files_that_are_none_are_refused(tmp_path, collector):
    path = tmp_path / "other.fnt"
    with pytest.raises(InvalidInput, match="no file"):
        push(path, URL, collector)
    path.write_bytes(b"")
    with pytest.raises(Rejected, match="empty"):
        push(path, URL, collector)
    other = make_plan(**OPTIONS, mechanism="signed-binning", salt=bytes(16))
    mixed = [encode_batch(batch(0, 1), LAYOUT), encode_batch(batch(0, 1, other), LAYOUT)]
    path.write_bytes(b"".join(mixed))
    with pytest.raises(InvalidInput, match="several plans"):
        push(path, URL, collector)
    head = report_v1.HEADER.pack(b"FNTR", 1, PLAN.digest, 0, 2**32 - 1)
    path.write_bytes(head + zlib.crc32(head).to_bytes(4, "little"))
    with pytest.raises(Rejected, match="BAD_HEADER"):
        push(path, URL, collector)
    path.write_bytes(mixed[0][:-1] + bytes([mixed[0][-1] ^ 1]))
    with pytest.raises(Rejected, match="BAD_CHECKSUM"):
        push(path, URL, collector)


def test_a_file_that_is_missing_elsewhere_is_not_called_the_reports(file):
    class NoCertificate:
        def send(self, *_given, **_options):
            raise FileNotFoundError("ca.pem")

    with pytest.raises(FileNotFoundError, match=r"ca\.pem"):
        push(file, URL, NoCertificate())


def test_the_state_names_nothing_but_the_push(file, collector):
    push(file, URL, collector, batch=5)
    first, *rest = collector.state.read_text().splitlines()
    assert set(json.loads(first)) == {"server", "plan", "epoch", "batch", "reports", "checksum"}
    assert len([line for line in rest if len(line) == 32]) == 5
