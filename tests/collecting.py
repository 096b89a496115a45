"""What tests ask of a collector's store."""

import time
from collections.abc import Callable
from concurrent.futures import Future

from faintly.core import Sketch
from faintly.wire.problems import Problem
from faintly_collector.storage.inbox import Outcome
from faintly_collector.storage.store import Store, StoreLimits

QUIET = StoreLimits(seal_s=1e9)  # nothing is sealed unless a test says so


def submit(
    store: Store, digest: bytes, epoch: int, request: bytes, body: bytes, token: bytes | None = None
) -> str:
    """Submit reports and wait: return "counted" or "replayed", or raise `Problem`."""
    future: Future[Outcome] = Future()
    store.take(digest, epoch, request, body, waiter=future, token=token)
    outcome = future.result()
    if isinstance(outcome, Problem):
        raise outcome
    return outcome


def sketch_of(store: Store, digest: bytes, number: int) -> Sketch:
    """Return the sketch of an epoch's sealed reports."""
    epoch = store.registry.epoch(digest, number)
    with epoch.lock:
        return store.sketches.count(epoch).sketch()


def refused(call: Callable[..., object], *arguments: object, **named: object) -> str:
    """Return the code of the problem that a call raises."""
    try:
        call(*arguments, **named)
    except Problem as problem:
        return problem.kind.code
    raise AssertionError("nothing was refused")


def wait_for(condition: Callable[[], bool]) -> None:
    """Return once a condition holds, and fail if that takes ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
