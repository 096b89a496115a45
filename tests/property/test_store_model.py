"""A store against a model of a few lines: whatever is done in whatever order, both agree."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import samples
from faintly.engine import aggregate
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly.wire.problems import Problem
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.store import Store, StoreLimits
from tests import collecting

PLAN = samples.one_cell_plan(1000, 64)
LAYOUT = mechanism_of(PLAN).layout
BATCHES = [next(iter(samples.batches(PLAN, size, size))) for size in (1, 2, 7)]
BODIES = [report_v1.encode_batch(batch, LAYOUT) for batch in BATCHES]
EPOCHS = (0, 1)
SMALL = st.integers(0, 2)

SUBMIT = st.tuples(st.just("submit"), st.sampled_from(EPOCHS), st.integers(0, 4), SMALL)
STEPS = st.lists(
    SUBMIT
    | st.tuples(st.just("seal"))
    | st.tuples(st.just("reopen"))
    | st.tuples(st.just("close"), st.sampled_from(EPOCHS)),
    max_size=25,
)


class Model:
    """What a store must say, kept in plain dictionaries."""

    def __init__(self) -> None:
        self.requests: dict[tuple[int, int], int] = {}
        self.counted: dict[int, list[int]] = {epoch: [] for epoch in EPOCHS}
        self.closed: set[int] = set()

    def submit(self, epoch: int, request: int, body: int) -> str:
        if epoch in self.closed:
            return "CLOSED"
        before = self.requests.get((epoch, request))
        if before is not None:
            return "replayed" if before == body else "REQUEST_REUSED"
        self.requests[epoch, request] = body
        self.counted[epoch].append(body)
        return "counted"


def submit(store, epoch, request, body):
    try:
        return collecting.submit(store, PLAN.digest, epoch, bytes([request]) * 16, BODIES[body])
    except Problem as problem:
        return problem.kind.code


def compare(store, model):
    status = status_of(store.registry.collection(PLAN.digest))
    for row in status.epochs:
        mine = model.counted[row.epoch]
        assert row.reports + row.pending == sum(len(BATCHES[body]) for body in mine)
        assert row.state == ("closed" if row.epoch in model.closed else "open")
        if not row.pending and row.reports:
            assert collecting.sketch_of(store, PLAN.digest, row.epoch) == aggregate(
                PLAN, [BATCHES[body] for body in mine]
            )


@pytest.mark.parametrize("retention", ["keep", "drop"])
@settings(max_examples=15)
@given(steps=STEPS)
def test_a_store_does_what_its_model_does(retention, steps):
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name) / "data", Model()
        store = Store.open(folder, StoreLimits(seal_s=1e9))
        try:
            store.registry.create(PLAN, retention=retention, epochs=EPOCHS)
            for verb, *rest in steps:
                if verb == "submit":
                    assert submit(store, *rest) == model.submit(*rest)
                elif verb == "seal":
                    store.seal()
                elif verb == "close":
                    store.close_epoch(store.registry.epoch(PLAN.digest, *rest))
                    model.closed.update(rest)
                else:
                    store.close()
                    store = Store.open(folder, StoreLimits(seal_s=1e9))
                compare(store, model)
            store.seal()
            compare(store, model)
        finally:
            store.close()
