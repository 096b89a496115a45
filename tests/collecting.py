"""What tests ask of a collector's store."""

from concurrent.futures import Future

from faintly.core import Sketch
from faintly.wire.problems import Problem
from faintly_collector.storage.inbox import Outcome
from faintly_collector.storage.store import Store


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
