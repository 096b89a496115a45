"""Readers are processes: they die, stop and are replaced, and reports go on meanwhile."""

import asyncio
import json
import os
import signal
import sys
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest

from benchmarks import samples
from faintly.wire.problems import Problem
from faintly_collector.http import answers, limits, models, routes_collections

HEADERS = {"content-type": "application/json"}
ESTIMATES = {"json": {"keys": [1]}}


def numbers(web):
    """Return the process ids of the readers, those free and those at work."""
    slots = web.collector.service.readers.slots
    return [each.process.pid for each in slots if each.process is not None]


def at_the_sketch(web, monkeypatch, act):
    """Call `act` once, with the reader's process id, when a reader asks for a sketch."""
    file_of = web.store.sketches.file

    def acting(*given, **named):
        monkeypatch.setattr(web.store.sketches, "file", file_of)
        act(numbers(web)[0])
        return file_of(*given, **named)

    monkeypatch.setattr(web.store.sketches, "file", acting)


@pytest.mark.usefixtures("processes")
def test_a_reader_that_dies_is_replaced_and_its_asker_told(web, sealed, refused, monkeypatch):
    at_the_sketch(web, monkeypatch, lambda number: os.kill(number, signal.SIGKILL))
    told = refused(web("POST", f"{sealed}/estimates", **ESTIMATES), 503, "READER_LOST")
    assert "ended" in told["message"]
    assert numbers(web) == []
    assert web("POST", f"{sealed}/estimates", **ESTIMATES).status_code == 200
    assert len(numbers(web)) == 1


@pytest.mark.usefixtures("processes")
def test_nobody_notices_the_death_of_an_idle_reader(web, sealed):
    assert web("POST", f"{sealed}/estimates", **ESTIMATES).status_code == 200
    (before,) = numbers(web)
    os.kill(before, signal.SIGKILL)
    os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)
    assert web("POST", f"{sealed}/estimates", **ESTIMATES).status_code == 200
    assert numbers(web) != [before]


@pytest.mark.usefixtures("processes")
def test_reports_are_taken_while_no_reader_moves(web, sealed, plan, body_of, monkeypatch):
    stopped = asyncio.Event()

    async def ask():
        loop = asyncio.get_running_loop()

        def stop(number):
            os.kill(number, signal.SIGSTOP)
            loop.call_soon_threadsafe(stopped.set)

        at_the_sketch(web, monkeypatch, stop)
        asked = asyncio.create_task(web.at_once(("POST", f"{sealed}/estimates", ESTIMATES)))
        await stopped.wait()
        sent = [
            ("POST", f"{sealed}/reports?request={each:032x}", {"content": body})
            for each in range(20)
        ]
        others = await web.at_once(*sent, ("GET", "/readyz", {}), ("GET", sealed, {}))
        assert not asked.done()
        os.kill(numbers(web)[0], signal.SIGCONT)
        return others + await asked

    body = body_of(plan, 1)
    assert {answer.status_code for answer in asyncio.run(ask())} == {200}


@pytest.mark.usefixtures("processes")
def test_a_query_that_waits_is_told_that_the_collector_stops(web, sealed, refused, monkeypatch):
    at_the_sketch(web, monkeypatch, lambda _: web.collector.service.readers.close())
    refused(web("POST", f"{sealed}/estimates", **ESTIMATES), 503, "STOPPING")
    assert numbers(web) == []


@pytest.mark.usefixtures("processes")
def test_long_json_is_parsed_by_readers_alone(web, sealed, refused, monkeypatch):
    def fail(*_):
        raise AssertionError("the process that takes reports parses it")

    monkeypatch.setattr(models, "parse", fail)
    monkeypatch.setattr(routes_collections, "new_collection", fail)
    long = json.dumps({"keys": ["x" * 1000] * 5_000, "unknown": 1})
    refused(web("POST", f"{sealed}/estimates", content=long, headers=HEADERS), 422, "INVALID")
    long = "[" * (limits.SHORT_BYTES + 1)
    refused(web("POST", "/v1/collections", content=long, headers=HEADERS), 400, "BAD_REQUEST")
    plan = samples.open_plan(1000)
    long = json.dumps({"plan": plan.document(), "epochs": list(range(1000))}, indent=9)
    monkeypatch.setattr("faintly.core.Plan.from_json", fail)
    made = web("POST", "/v1/collections", content=long, headers=HEADERS)
    assert (made.status_code, made.json()["digest"]) == (201, plan.digest.hex())
    assert web("GET", f"/v1/collections/{plan.digest.hex()}/plan").content == plan.canonical


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/epochs/7"), ("POST", "/tokens")], ids=["epochs", "tokens"]
)
def test_what_readers_do_not_parse_must_be_short(web, sealed, refused, method, path):
    document = json.dumps({"state": "open", "x": "y" * limits.SHORT_BYTES})
    answer = web(method, sealed + path, content=document, headers=HEADERS)
    refused(answer, 413, "TOO_LARGE")


def test_a_long_plan_is_taken(web):
    plan = samples.one_cell_plan(1000, 64)
    padded = json.dumps({"plan": plan.document(), "epochs": list(range(1000))}, indent=9)
    assert len(padded) > limits.SHORT_BYTES
    made = web("POST", "/v1/collections", content=padded, headers=HEADERS)
    assert (made.status_code, len(made.json()["epochs"])) == (201, 1000)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.usefixtures("processes")
def test_sketches_are_mapped_and_shared(web, direct_plan, body_of):
    """Reports that are read one by one stay in their file: no reader has a copy."""
    address = web.create(direct_plan)
    web.send(direct_plan, body_of(direct_plan, 50))
    web.store.seal()
    asked = ("POST", f"{address}/estimates", ESTIMATES)
    file = str(web.store.sketches.file(direct_plan.digest, 0).path)

    async def ask():
        return await web.at_once(asked, asked)

    assert {answer.status_code for answer in asyncio.run(ask())} == {200}
    assert numbers(web)
    for number in numbers(web):
        maps = Path(f"/proc/{number}/maps").read_text()
        (line,) = [line for line in maps.splitlines() if file in line]
        assert line.split()[1] == "r--s", "read-only, and shared"
        assert os.getpriority(os.PRIO_PROCESS, number) > os.getpriority(os.PRIO_PROCESS, 0)


def test_one_transform_is_kept_and_serves_until_a_seal(web, sealed, plan, body_of, monkeypatch):
    made, reader_of = [], answers.open_reader
    monkeypatch.setattr(answers, "open_reader", lambda sketch: made.append(1) or reader_of(sketch))
    for level in (0.9, 0.95, 0.99):
        web("POST", f"{sealed}/estimates", json={"keys": [1], "level": level})
    assert len(made) == 1
    web.send(plan, body_of(plan, 5))
    web.store.seal()
    assert web("POST", f"{sealed}/estimates", **ESTIMATES).json()["reports"] == 55
    assert len(made) == 2


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_a_damaged_sketch_is_rebuilt_where_it_can_be(web, plan, body_of, refused, retention):
    address = web.create(plan, retention=retention)
    web.send(plan, body_of(plan, 50))
    web.store.seal()
    before = web("POST", f"{address}/estimates", **ESTIMATES).json()
    path = web.store.sketches.file(plan.digest, 0).path
    for damage in (b"", path.read_bytes()[:-1] + b"x", None):
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
        for slot in web.collector.service.readers.slots:  # nothing is kept
            slot.end()
        answer = web("POST", f"{address}/estimates", **ESTIMATES)
        if retention == "keep":
            assert answer.json() == before
        else:
            refused(answer, 503, "DAMAGED")


def test_a_cancelled_query_is_known_by_its_number():
    listening, told = Pipe(duplex=False)
    found = answers.SketchSource(None, listening)

    def begin(number):
        found.begin(answers.Query(number, "", "", "", "", b"", Path()))

    begin(0)
    told.send(3)
    told.send(4)
    with pytest.raises(Problem, match="disconnected"):
        begin(4)
    begin(5)  # asked later
    told.close()
    with pytest.raises(EOFError):  # the collector is gone
        begin(6)
