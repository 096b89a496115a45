"""The collector's store without HTTP: single reports and batches, durable, sealing included.

python -m benchmarks.store [--quick] [--json FILE]

It alternates with the simplest thing that is as durable: bodies appended to a file, which is synced
after each group as large as a commit of the store. This checks, counts, shuffles and seals nothing.
Times of the store end when everything is sealed.
"""

import os
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path

from benchmarks import document, samples
from benchmarks.result import Row, amount
from benchmarks.script import finish, options
from faintly.core import Plan
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly_collector.storage.inbox import Outcome
from faintly_collector.storage.store import Store

ROUNDS = 3
BODIES = 64  # made in advance and sent repeatedly, each time under a fresh request id


def bodies_of(plan: Plan, size: int) -> list[bytes]:
    """Return bodies of so many reports each."""
    layout = mechanism_of(plan).layout
    made = samples.batches(plan, BODIES * size, size)
    return [report_v1.encode_batch(batch, layout) for batch in made]


def store_seconds(plan: Plan, bodies: list[bytes], count: int, window: int) -> tuple[float, float]:
    """Return the seconds until all is sealed, and the submissions that shared a commit."""
    requests = [os.urandom(16) for _ in range(count)]
    room = threading.Semaphore(window)
    refused: list[object] = []

    def answer(waiter: Future[Outcome]) -> None:
        if waiter.result() != "counted":
            refused.append(waiter.result())
        room.release()

    with tempfile.TemporaryDirectory() as name, Store.open(Path(name) / "data") as store:
        store.registry.create(plan)
        started = time.perf_counter()
        for number, request in enumerate(requests):
            room.acquire()
            body = bodies[number % BODIES]
            waiter: Future[Outcome] = Future()
            waiter.add_done_callback(answer)
            store.take(plan.digest, 0, request, body, waiter=waiter)
        for _ in range(window):
            room.acquire()
        store.seal()
        seconds = time.perf_counter() - started
        if refused or store.counters.sealed_reports != store.counters.reports:
            raise AssertionError("the store did not count everything")
        return seconds, count / store.counters.commits


def file_seconds(bodies: list[bytes], count: int, group: int) -> float:
    """Return the seconds of appending the same bodies to a file, synced after each group."""
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("wb") as log:
        started = time.perf_counter()
        for number in range(count):
            log.write(bodies[number % BODIES])
            if (number + 1) % group == 0:
                log.flush()
                os.fsync(log.fileno())
        log.flush()
        os.fsync(log.fileno())
        return time.perf_counter() - started


def compare(name: str, size: int, count: int, window: int, at_least: float) -> Row:
    """Return the row of one kind of submission: reports a second, ours and the file's."""
    plan = samples.one_cell_plan(10**7, 10**6)
    bodies = bodies_of(plan, size)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        seconds, group = store_seconds(plan, bodies, count, window)
        ours.append(seconds)
        theirs.append(file_seconds(bodies, count, max(1, round(group))))
    rate, bare = size * count / min(ours), size * count / min(theirs)
    return Row(
        name=name,
        what=f"{name}, {size * count:,} reports",
        ours=rate,
        theirs=bare,
        unit="reports/s",
        ratio=bare / rate,
        target=f"≥ {at_least:,.0f}/s",
        met=rate >= at_least,
        note="theirs: bodies appended to a file and synced in equal groups, nothing else; "
        "ratio: theirs / ours",
    )


def memory_mib() -> float:
    """Return the memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    """Measure both kinds, and how much memory grows from one round of batches to the next."""
    parser = options("Store")
    parser.add_argument("--quick", action="store_true", help="a tenth of the reports")
    given = parser.parse_args()
    part = 10 if given.quick else 1
    rows = [
        compare("singles", 1, 100_000 // part, 512, 8_000),
        compare("batches of 10,000", 10_000, 2_000 // part, 64, 4e6),
    ]
    before = memory_mib()
    rows.append(compare("batches again", 10_000, 2_000 // part, 64, 4e6))
    rows.append(amount("growth", "memory after as many again", memory_mib() - before, unit="MiB"))
    finish("Store", document(rows), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
