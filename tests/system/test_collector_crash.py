"""A collector that is killed, starved of disk, cut off and confused keeps what it acknowledged.

Every report here is unique, so that what is stored can be compared with what was acknowledged,
one by one. A kill does not test a power failure: what the system has taken survives the process.
"""

import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from faintly import Plan, aggregate, make_plan
from faintly.client.transport import Connection, collection_path
from faintly.core import ReportBatch
from faintly.errors import FolderDamaged, FolderInUse, SendFailed
from faintly.mechanisms import mechanism_of
from faintly.wire.problems import Problem
from faintly.wire.report_v1 import encode_batch, pack
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.store import Store, StoreLimits
from spec.generator.vectors import sketch_bytes
from tests.collecting import sketch_of, submit

STEPS = ("read", "written", "committed", "done")  # of a seal, as serving.py knows them
SENDERS = 5
ROUNDS = 12
WAYS = ["server", "sealer"] * 3 + ["reader"]  # nine kills, and one of a reader if there is any
SEALS = {"seal_s": 0.15, "seal_reports": 400}  # so that many kills fall into a seal


def plan_of(name: str) -> Plan:
    return make_plan(
        protect="event",
        epsilon=1,
        sparsity=4,
        clients=1000,
        universe=64,
        mechanism="signed-binning",
        salt=name.encode().ljust(16, b"."),
    )


KEPT, DROPPED = plan_of("kept"), plan_of("dropped")
LAYOUT = mechanism_of(KEPT).layout


def reports(plan: Plan, first: int, size: int) -> ReportBatch:
    """Return valid reports that differ from all others by their seeds."""
    seeds = np.arange(first, first + size, dtype=np.uint64)
    noise = np.random.Generator(np.random.Philox(first))
    fields = noise.integers(0, LAYOUT.limits, (size, len(LAYOUT.limits)), dtype=np.uint32)
    return ReportBatch(plan.digest, seeds, fields)


class Sender(threading.Thread):
    """Sends batches until it is told to stop, and remembers which were acknowledged."""

    def __init__(self, number: int, url: str, port: int) -> None:
        super().__init__(daemon=True)
        self.number, self.port = number, port
        self.connection = Connection(
            url, retries=5000, pause=lambda _: time.sleep(0.01), timeout=10
        )
        self.odds = random.Random(number)
        self.enough = threading.Event()
        self.acknowledged: list[ReportBatch] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            first = self.number << 32
            while not self.enough.is_set():
                size = self.odds.randint(1, 40)
                self._send(reports(self.odds.choice([KEPT, DROPPED]), first, size))
                first += size
        except Exception as error:
            self.failure = error
        self.connection.close()

    def _send(self, batch: ReportBatch) -> None:
        body, request = encode_batch(batch, LAYOUT), self.odds.randbytes(16)
        if self.odds.random() < 0.2:
            self._lose_the_answer(batch.plan_digest, request, body)
        self.connection.send(batch.plan_digest, body, request=request)
        self.acknowledged.append(batch)

    def _lose_the_answer(self, digest: bytes, request: bytes, body: bytes) -> None:
        """Send a request and hang up, as a phone in a tunnel does."""
        head = f"POST /v1/collections/{digest.hex()}/reports?request={request.hex()} HTTP/1.1\r\n"
        head += f"Host: 127.0.0.1:{self.port}\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as line:
                line.sendall(head.encode() + body)
                time.sleep(self.odds.uniform(0, 0.02))
        except OSError:
            pass  # it was being killed


def until(condition, what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that live."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, parent, *_ = stat.read_text().rpartition(") ")[2].split()
            if int(parent) == pid and state != "Z":
                found.append(int(stat.parent.name))
    return found


class Killer:
    """Kills a collector in three ways, after it has acknowledged something more."""

    def __init__(self, collector, senders: list[Sender], mutant: str) -> None:
        self.collector, self.senders, self.mutant = collector, senders, mutant
        self.odds = random.Random(1)
        self.killed: Counter[str] = Counter()
        self.sealed = 0

    def server(self) -> None:
        """Kill the process wherever it is."""
        self.progress()
        self.collector.kill()
        self.killed["server"] += 1
        self.collector.start(self.mutant)

    def sealer(self) -> None:
        """Let the process kill itself after a step of a seal."""
        step, seal = self.odds.choice(STEPS), self.odds.randint(1, 3)
        self.collector.kill()
        self.killed["server"] += 1
        self.collector.start(f"dies_sealing {step} {seal}")
        until(self.collector.has_ended, "nothing was sealed")
        self.killed["sealer"] += 1
        self.collector.start(self.mutant)

    def reader(self) -> None:
        """Kill a process that computed an answer, if there is one, and ask again."""
        self._ask()
        for pid in children(self.collector.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
            self.killed["reader"] += 1
        self._ask()

    def _ask(self) -> None:
        """Ask until there is an answer; what was sealed once must stay sealed."""
        until(self._is_answered, "no query was answered")

    def _is_answered(self) -> bool:
        address = f"{collection_path(DROPPED.digest.hex())}/estimates"
        try:
            with Connection(self.collector.url, retries=0) as connection:
                found = connection.ask("POST", address, {"keys": [1, 2, 3], "epoch": 0})
        except SendFailed as refused:
            if refused.code in {"NO_REPORTS", "READER_LOST"}:  # a reader died over the query
                return False
            raise
        assert found["reports"] >= self.sealed
        self.sealed = found["reports"]
        return True

    def progress(self, batches: int = 0) -> None:
        """Wait until more batches are acknowledged: so many, or a few."""
        more = self._acknowledged() + (batches or self.odds.randint(1, 12))
        until(lambda: self._acknowledged() >= more, "no sender gets anywhere")

    def _acknowledged(self) -> int:
        return sum(len(sender.acknowledged) for sender in self.senders)


def run_and_kill(
    collector, ways: Sequence[str], mutant: str = ""
) -> tuple[list[ReportBatch], Killer]:
    """Kill a collector again and again under its senders; return what was acknowledged."""
    with Store.open(collector.folder) as store:
        store.registry.create(KEPT)
        store.registry.create(DROPPED, retention="drop")
    collector.start(mutant)
    senders = [Sender(number, collector.url, collector.port) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    killer = Killer(collector, senders, mutant)
    for way in ways:
        getattr(killer, way)()
    killer.progress(80)  # of a request in five the answer is lost: enough to meet some
    for sender in senders:
        sender.enough.set()
    for sender in senders:
        sender.join(60)
        assert not sender.is_alive()
        assert sender.failure is None, repr(sender.failure)
    collector.stop()
    return [batch for sender in senders for batch in sender.acknowledged], killer


def differences(folder: Path, acknowledged: list[ReportBatch]) -> set[str]:
    """Return in which ways a folder is not what was acknowledged, once each."""
    found: set[str] = set()
    with Store.open(folder, StoreLimits(seal_s=3600)) as store:
        store.seal()
        have = Counter(records(store, KEPT))
        want = names([batch for batch in acknowledged if batch.plan_digest == KEPT.digest])
        found |= {"lost"} if want - have else set()
        found |= {"twice"} if any(times > 1 for times in have.values()) else set()
        found |= {"never acknowledged"} if set(have) - set(want) else set()
        for plan in (KEPT, DROPPED):
            sent = [batch for batch in acknowledged if batch.plan_digest == plan.digest]
            sketch, expected = sketch_of(store, plan.digest, 0), aggregate(plan, sent)
            if sketch.count != expected.count:
                found.add("lost" if sketch.count < expected.count else "twice")
            elif sketch_bytes(sketch) != sketch_bytes(expected):
                found.add("other bytes")
    return found


def records(store: Store, plan: Plan) -> list[bytes]:
    """Return the sealed records of a collection, read as another program would."""
    files = [store.folder / each.file for each in store.manifest.segments(plan.digest)]
    tables = [parquet.read_table(file, partitioning=None) for file in files]
    return [record for table in tables for record in table.column("record").to_pylist()]


def names(batches: list[ReportBatch]) -> Counter[bytes]:
    """Return how often each record is there."""
    return Counter(row.tobytes() for batch in batches for row in pack(batch, LAYOUT))


@pytest.mark.long
def test_kills_lose_nothing_and_count_nothing_twice(collector, faintly):
    served = collector(**SEALS)
    acknowledged, killer = run_and_kill(served, WAYS * ROUNDS)
    assert killer.killed["server"] + killer.killed["sealer"] > 100
    assert faintly("fsck", served.folder, "--json").json["findings"] == []
    assert differences(served.folder, acknowledged) == set()


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "seen"), [("answers_early", "lost"), ("forgets_requests", "twice")]
)
def test_the_same_check_notices_a_broken_store(collector, mutant, seen):
    served = collector(**SEALS)
    acknowledged, _ = run_and_kill(served, ["server"] * 6, mutant)
    assert seen in differences(served.folder, acknowledged)


def test_a_full_disk_refuses_and_keeps_what_it_has(collector, small_disk):
    grow = ["mount", "-o", "remount,size=64m", str(small_disk)]
    folder = small_disk / "collected"
    _fill(collector, folder, lambda _: None, lambda _: subprocess.run(grow, check=True))


def test_a_file_limit_refuses_and_keeps_what_it_has(collector, tmp_path):
    """The same without root: no file may grow beyond 2 MB."""

    def limit(size):
        most = resource.RLIM_INFINITY
        return lambda pid: resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))

    _fill(collector, tmp_path / "collected", limit(2 << 20), limit(resource.RLIM_INFINITY))


def _fill(collector, folder: Path, shrink, grow) -> None:
    """Send until the collector refuses, give it room, and look at what it has."""
    with Store.open(folder) as store:
        store.registry.create(KEPT)
    served = collector(folder, seal_s=3600).start()
    shrink(served.pid)
    acknowledged: list[ReportBatch] = []
    with Connection(served.url, retries=0) as connection:
        for first in count(1, 10_000):
            batch, request = reports(KEPT, first, 10_000), os.urandom(16)
            body = encode_batch(batch, LAYOUT)
            if outcome(connection, body, request) != "counted":
                break
            acknowledged.append(batch)
            assert len(acknowledged) < 200, "the disk never filled up"
        assert outcome(connection, body, request) == "CANNOT_STORE"
        grow(served.pid)
        # The same process goes on, and the batch that was refused had left nothing behind.
        assert outcome(connection, body, request) == "counted"
    served.kill()
    with Store.open(folder) as store:
        store.seal()
        assert Counter(records(store, KEPT)) == names([*acknowledged, batch])
    assert acknowledged, "something was stored before the disk was full"


def outcome(connection: Connection, body: bytes, request: bytes) -> str:
    try:
        receipt = connection.send(KEPT.digest, body, request=request)
    except SendFailed as refused:
        return refused.code
    return "replayed" if receipt.replayed else "counted"


# Submits batches and dies without closing anything, as a machine does that loses power.
DIES = """
import os, signal, sys
from pathlib import Path
from faintly_collector.storage.store import StoreLimits, Store
from tests.collecting import submit
folder, *bodies = sys.argv[1:]
store = Store.open(Path(folder), StoreLimits(seal_s=3600))
digest = list(store.registry.collections)[0]
log = Path(folder) / "collector.sqlite-wal"
for number, body in enumerate(bodies):
    submit(store, digest, 0, bytes([number]) * 16, bytes.fromhex(body))
    print(log.stat().st_size, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def died(tmp_path):
    """A folder whose log holds three commits, and the size of the log after each."""
    folder = tmp_path / "collected"
    with Store.open(folder) as store:
        store.registry.create(KEPT)
    batches = [reports(KEPT, 100 * number, 50) for number in range(3)]
    bodies = [encode_batch(batch, LAYOUT) for batch in batches]
    command = [sys.executable, "-c", DIES, str(folder), *(body.hex() for body in bodies)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return folder, bodies, [int(line) for line in done.stdout.split()]


def pending(folder: Path) -> int:
    with Store.open(folder, StoreLimits(seal_s=3600)) as store:
        return status_of(store.registry.collection(KEPT.digest)).pending


@pytest.mark.parametrize(
    "tail",
    [bytes(4096), random.Random(1).randbytes(5000), b"\x37\x7f\x06\x82" * 9],
    ids=["zeros", "noise", "magic"],
)
def test_garbage_after_the_last_commit_is_ignored(died, tail):
    folder, _, _ = died
    with (folder / "collector.sqlite-wal").open("ab") as log:
        log.write(tail)
    assert pending(folder) == 150


def test_a_torn_commit_was_never_there(died):
    folder, bodies, sizes = died
    log = folder / "collector.sqlite-wal"
    # The last commit reached the disk in part: it had not been acknowledged then.
    os.truncate(log, sizes[1] + (sizes[2] - sizes[1]) // 2)
    (folder / "collector.count").write_bytes(b"%020d\n" % 2)
    with Store.open(folder, StoreLimits(seal_s=3600)) as store:
        assert status_of(store.registry.collection(KEPT.digest)).pending == 100
        assert submit(store, KEPT.digest, 0, bytes([1]) * 16, bodies[1]) == "replayed"
        assert submit(store, KEPT.digest, 0, bytes([2]) * 16, bodies[2]) == "counted"
        assert status_of(store.registry.collection(KEPT.digest)).pending == 150


def test_a_damaged_page_in_the_middle_is_noticed_and_loses_only_what_follows(died):
    """SQLite takes the log up to the first frame whose checksum is wrong."""
    folder, bodies, sizes = died
    log = folder / "collector.sqlite-wal"
    data = bytearray(log.read_bytes())
    data[sizes[1] + 200] ^= 1
    log.write_bytes(data)
    with pytest.raises(FolderDamaged, match=r"acknowledged requests are missing \(1\)"):
        Store.open(folder)
    (folder / "collector.count").unlink()  # as it advises who has no other copy of the log
    with Store.open(folder, StoreLimits(seal_s=3600)) as store:
        assert status_of(store.registry.collection(KEPT.digest)).pending == 100
        assert submit(store, KEPT.digest, 0, bytes([2]) * 16, bodies[2]) == "counted"


def test_a_clock_that_jumps_neither_loses_nor_counts_twice(tmp_path, monkeypatch):
    day, now = 86_400.0, [20_000 * 86_400.0 + 100]
    monkeypatch.setattr(time, "time", lambda: now[0])
    bodies = [encode_batch(reports(KEPT, 100 * number, 10), LAYOUT) for number in range(4)]

    def sent(number: int, epoch: int) -> str:
        try:
            return submit(store, KEPT.digest, epoch, bytes([number]) * 16, bodies[number])
        except Problem as problem:
            return problem.kind.code

    with Store.open(tmp_path / "collected", StoreLimits(seal_s=3600)) as store:
        store.registry.create(KEPT, period_s=day, epochs=())
        assert sent(0, 20_000) == "counted"
        assert sent(0, 20_000) == "replayed"
        now[0] += 5 * day  # forward: epochs of either time take reports, whichever is true
        assert sent(0, 20_000) == "replayed"
        assert sent(1, 20_005) == "counted"
        assert sent(2, 20_003) == "counted"
        assert sent(3, 20_007) == "UNKNOWN_EPOCH"
        now[0] -= 10 * day  # back, before everything
        assert sent(1, 20_005) == "replayed"
        assert sent(3, 19_993) == "UNKNOWN_EPOCH"
        store.maintenance.stop()
        assert store.maintenance.find_ended(time.monotonic() + 100 * day) == []
        store.seal()
        found = {
            row.epoch: row.reports
            for row in status_of(store.registry.collection(KEPT.digest)).epochs
        }
    assert found == {20_000: 10, 20_003: 10, 20_005: 10}


def test_a_second_server_refuses_the_folder(collector, faintly):
    served = collector().start()
    result = faintly("serve", "--data", served.folder, "--port", 0, status=1)
    assert "FolderInUse" in result.err
    with pytest.raises(FolderInUse):
        Store.open(served.folder)
    served.kill()
    Store.open(served.folder).close()  # death gives it back
