"""Die at each step of storing, sealing and merging in turn, and recover: a program, run by a test.

A step is whatever reaches the disk: the beginning and end of a transaction, a file that is
synced, renamed or deleted. Each child dies at the next one, until a child gets through.
Prints how many steps each retention has.
"""

import os
import sys
import traceback
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow.parquet  # noqa: F401  # children would import it again and again

from benchmarks import samples
from faintly.engine import aggregate
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly_collector.admin import fsck
from faintly_collector.storage import database
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.database import Database
from faintly_collector.storage.store import Store
from tests.collecting import QUIET, sketch_of, submit

DIED = 77
PLAN = samples.one_cell_plan(1000, 64)
BATCHES = list(samples.batches(PLAN, 40, 10))
BODIES = [report_v1.encode_batch(batch, mechanism_of(PLAN).layout) for batch in BATCHES]
SKETCH = aggregate(PLAN, BATCHES)
REQUESTS = [bytes([number]) * 16 for number in range(len(BODIES))]


def forget_syncs() -> None:
    """Wait for no disk: a process dies here, not the machine."""
    os.fsync = lambda _: None
    database.SETTINGS = (*database.SETTINGS, "synchronous = OFF")


class Steps:
    """Counts steps, and dies at one of them."""

    def __init__(self, last: int) -> None:
        self.left = last

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(DIED)

    def around(self, function):
        def wrapped(*arguments, **named):
            self.step()
            made = function(*arguments, **named)
            self.step()
            return made

        return wrapped

    def install(self) -> None:
        os.fsync = self.around(os.fsync)
        Path.replace = self.around(Path.replace)
        Path.unlink = self.around(Path.unlink)
        original = Database.transaction

        @contextmanager
        def transaction(database):
            self.step()
            with original(database) as connection:
                yield connection
                self.step()
            self.step()

        Database.transaction = transaction


def act(folder: Path, acknowledged: int, retention: str, last: int) -> None:
    """Store, seal and merge, die at a step, and write down what was acknowledged."""
    store = Store.open(folder, QUIET)
    store.registry.create(PLAN, retention=retention)
    for number in range(2):
        submit(store, PLAN.digest, 0, REQUESTS[number], BODIES[number])
    store.seal()
    Steps(last).install()
    for number in range(2, len(BODIES)):
        os.write(acknowledged, b"s")
        submit(store, PLAN.digest, 0, REQUESTS[number], BODIES[number])
        os.write(acknowledged, b"a")
        if number % 2:
            store.seal()
    while store.sealer.compact(store.registry.epoch(PLAN.digest, 0)):
        pass
    store.close()


def verify(folder: Path, sent: int, acknowledged: int) -> None:
    """Look that everything acknowledged is there once, and that senders may go on."""
    assert fsck_is_harmless(folder)
    store = Store.open(folder, QUIET)
    status = status_of(store.registry.collection(PLAN.digest))
    total = status.reports + status.pending
    assert 10 * acknowledged <= total <= 10 * sent, (total, acknowledged, sent)
    for number in range(acknowledged):
        assert submit(store, PLAN.digest, 0, REQUESTS[number], BODIES[number]) == "replayed"
    for number in range(acknowledged, len(BODIES)):
        submit(store, PLAN.digest, 0, REQUESTS[number], BODIES[number])
    store.seal()
    assert status_of(store.registry.collection(PLAN.digest)).reports == 40
    assert sketch_of(store, PLAN.digest, 0) == SKETCH
    store.close()
    assert fsck.check(folder).findings == []
    store = Store.open(folder, QUIET)
    assert sketch_of(store, PLAN.digest, 0) == SKETCH
    store.close()


def fsck_is_harmless(folder: Path) -> bool:
    """Return whether a crash left nothing worse than files without a name."""
    found = fsck.check(folder).findings
    return all(finding.what == "nothing names this file" for finding in found)


def in_child(work) -> int:
    """Return how a child ended that did some work; threads die with it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def crash_everywhere(folder: Path, retention: str) -> list[tuple[Path, int, int]]:
    """Return the folder that each step left behind, with the bodies sent and acknowledged."""
    left: list[tuple[Path, int, int]] = []
    code = DIED
    while code == DIED:
        data = folder / f"{retention}-{len(left) + 1}"
        reading, writing = os.pipe()
        code = in_child(partial(act, data, writing, retention, len(left) + 1))
        os.close(writing)
        told = os.read(reading, 1000)
        os.close(reading)
        left.append((data, 2 + told.count(b"s"), 2 + told.count(b"a")))
    assert code == 0, "a child failed of something else"
    return left


def main(folder: Path) -> int:
    forget_syncs()
    left = {retention: crash_everywhere(folder, retention) for retention in ("keep", "drop")}
    # The threads of a store begin here: nothing is forked any more.
    for retention, every in left.items():
        for data, sent, acknowledged in every:
            try:
                verify(data, sent, acknowledged)
            except Exception as error:
                error.add_note(f"not recovered from the crash that left {data.name}")
                raise
        sys.stdout.write(f"{retention} {len(every) - 1}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
