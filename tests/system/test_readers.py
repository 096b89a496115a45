"""Whoever asks does not slow down whoever sends, and readers end with their collector."""

import http.client
import json
import os
import select
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import samples
from faintly.core import Universe
from faintly.engine import aggregate
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.wire import report_v1
from faintly_collector.http.limits import SHORT_BYTES
from spec.generator.vectors import sketch_bytes

KEYS = 100_000
LOOPS, QUERIES = 4, 2  # queries of each loop
LEAST = 20  # acknowledgements for each answer: an idle machine gives some hundred
PLAN = samples.one_cell_plan(1000, 64)
ADDRESS = f"/v1/collections/{PLAN.digest.hex()}"


@pytest.fixture
def asked(collector):
    """A collector with a sealed report, and a function that asks it on a connection of its own."""
    (batch,) = samples.batches(PLAN, 1, 1)
    body = report_v1.encode_batch(batch, mechanism_of(PLAN).layout)
    server = collector().start()

    def connect():
        return http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)

    def ask(connection, path, content):
        connection.request("POST", path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def send(connection):
        path = f"{ADDRESS}/reports?request={os.urandom(16).hex()}"
        assert ask(connection, path, body)[0] == 200

    connection = connect()
    assert ask(connection, "/v1/collections", json.dumps({"plan": PLAN.document()}))[0] == 201
    send(connection)
    assert ask(connection, f"{ADDRESS}/seal", b"")[0] == 200
    return server, connect, ask, send


@pytest.mark.long
def test_reports_are_acknowledged_while_queries_are_answered(asked):
    _, connect, ask, send = asked
    query = json.dumps({"keys": [number % 64 for number in range(KEYS)]})

    def loop():
        connection = connect()
        for _ in range(QUERIES):
            status = 429
            while status == 429:  # where the machine is slow, it waits too long for a reader
                status, answer = ask(connection, f"{ADDRESS}/estimates", query)
            assert status == 200
            assert len(json.loads(answer)["estimates"]) == KEYS

    acknowledged, connection = 0, connect()
    with ThreadPoolExecutor(LOOPS) as pool:
        loops = [pool.submit(loop) for _ in range(LOOPS)]
        while not all(each.done() for each in loops):
            send(connection)
            acknowledged += 1
        for each in loops:
            each.result()
    assert acknowledged >= LEAST * LOOPS * QUERIES


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_readers_end_with_their_collector_and_not_before(asked):
    server, connect, ask, _ = asked
    assert ask(connect(), f"{ADDRESS}/estimates", '{"keys": [1]}')[0] == 200
    (reader,) = children(server.pid)
    for each in (signal.SIGINT, signal.SIGTERM):  # as a service manager sends to all processes
        os.kill(reader, each)
    assert ask(connect(), f"{ADDRESS}/estimates", '{"keys": [2]}')[0] == 200
    assert children(server.pid) == [reader]
    ended = os.pidfd_open(reader)
    server.kill()
    try:
        assert select.select([ended], [], [], 60)[0], "it goes on without a collector"
    finally:
        os.close(ended)


@pytest.mark.long
def test_readers_parse_long_plans_and_merge_sketches(collector):
    """As many names as a vocabulary has, and a sketch of two epochs to download."""
    names = [f"{number:x}" * 3 for number in range(1000)]
    universe = Universe.named(names)
    plan = make_plan(protect="user", epsilon=1.0, sparsity=4, clients=1000, universe=universe)
    server = collector().start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(method, path, content=None):
        connection.request(method, path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    wanted = json.dumps({"plan": plan.document(), "epochs": [0, 1]})
    assert len(wanted) > SHORT_BYTES
    assert ask("POST", "/v1/collections", wanted)[0] == 201
    assert len(children(server.pid)) == 1
    address = f"/v1/collections/{plan.digest.hex()}"
    batches = list(samples.batches(plan, 40, 20))
    for epoch, batch in enumerate(batches):
        body = report_v1.encode_batch(batch, mechanism_of(plan).layout)
        path = f"{address}/reports?epoch={epoch}&request={epoch:032x}"
        assert ask("POST", path, body)[0] == 200
    assert ask("POST", f"{address}/seal")[0] == 200
    status, sketch = ask("GET", f"{address}/sketch?epoch=all")
    assert (status, sketch) == (200, sketch_bytes(aggregate(plan, batches)))


def children(number):
    """Return the processes that a process has started."""
    tasks = Path(f"/proc/{number}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text().split()]
