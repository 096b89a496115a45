"""What a stranger, a slow sender, a full disk or a damaged folder can do to the collector."""

import asyncio
import os
import threading
import time
import weakref

import pytest

from faintly_collector.http import answers, limits, routes_collections
from faintly_collector.storage import registry
from faintly_collector.storage.collection import Epoch


@pytest.fixture
def web(shared_web):
    return shared_web


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_damage_is_told_apart_from_faults(make_web, plan, body_of, refused, retention):
    web = make_web()
    address = web.create(plan, epochs=[0, 1], retention=retention)
    for epoch in (0, 1):  # the second takes the only place in memory
        assert web.send(plan, body_of(plan, 50), params={"epoch": epoch}).status_code == 200
        web.store.seal()
    folder = "segments" if retention == "keep" else "sketches"
    (file,) = web.store.folder.glob(f"{folder}/*/0-1.*")
    file.write_bytes(file.read_bytes()[:-1])
    asked = web("POST", f"{address}/estimates", json={"keys": [1], "epoch": 0})
    document = refused(asked, 503, "DAMAGED")
    assert str(web.store.folder) not in str(document)
    refused(web("GET", f"{address}/sketch?epoch=0"), 503, "DAMAGED")
    assert web("POST", f"{address}/estimates", json={"keys": [1]}).status_code == 200


def test_damaged_pending_reports_are_told(make_web, plan, body_of, refused):
    web = make_web()
    address = web.create(plan)
    web.send(plan, body_of(plan, 50))
    with web.store.database.transaction() as connection:
        connection.execute("UPDATE inbox SET records = zeroblob(length(records))")
    refused(web("POST", f"{address}/seal"), 503, "DAMAGED")


def test_administrators_are_told_of_a_full_disk(make_web, plan, body_of, refused, monkeypatch):
    web = make_web()
    address = web.create(plan, tokens=True)
    writer = web.store.database.writer
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages}")
    many = {"count": 10_000, "epoch": 0}
    refused(web("POST", f"{address}/tokens", json=many), 503, "CANNOT_STORE")
    writer.execute("PRAGMA max_page_count = 1000000")
    (token, *_) = web("POST", f"{address}/tokens", json=many).json()["tokens"]
    assert web.send(plan, body_of(plan, 1), headers={"faintly-token": token}).status_code == 200

    def fail(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        closed = web("PUT", f"{address}/epochs/0", json={"state": "closed"})
    refused(closed, 503, "CANNOT_STORE")
    assert web("PUT", f"{address}/epochs/0", json={"state": "closed"}).json()["reports"] == 1


def test_a_body_without_credentials_is_not_read(web, address, refused):
    web.store.credentials.add("admin", "me")
    web.store.credentials.add("read", "page")
    kind = {"content-type": "application/json"}
    for path in ("/v1/collections", f"{address}/estimates", f"{address}/tokens"):
        sent = web("POST", path, content=b"{" * 1000, headers=kind)
        refused(sent, 401, "NOT_AUTHORISED")


def test_bodies_have_so_much_memory_and_no_more(web, address, plan, body_of, refused):
    capacity = web.collector.middleware.report_bytes
    body = body_of(plan, 1000)
    used = capacity.used = capacity.limit - len(body) + 1  # by others that wait
    refused(web.send(plan, body), 429, "BUSY")
    refused(web.send(plan, iter([body[:500], body[500:]])), 429, "BUSY")
    assert capacity.used == used
    capacity.used = 0
    assert web.send(plan, body).status_code == 200
    assert web.send(plan, iter([body[:500], body[500:]])).status_code == 200
    refused(web.send(plan, iter([body[:500], body[:500]])), 400, "BAD_REPORTS")
    assert capacity.used == 0


def test_the_event_loop_does_not_open_epochs(make_web, plan, body_of, monkeypatch):
    web = make_web()
    web.create(plan, period_s=3600.0, epochs=[])
    opened = []

    def noting(*arguments):
        opened.append(threading.current_thread())
        return Epoch(*arguments)

    monkeypatch.setattr(registry, "Epoch", noting)
    now = int(time.time() // 3600)
    for _ in range(2):
        sent = web.send(plan, body_of(plan, 1), params={"epoch": now})
        assert sent.status_code == 200
    assert len(opened) == 1
    assert opened[0] is not threading.current_thread()


def test_history_keeps_one_reader_at_a_time(make_web, plan, body_of, monkeypatch):
    web = make_web()
    address = web.create(plan, epochs=[0, 1, 2, 3])
    for epoch in range(4):
        web.send(plan, body_of(plan, 50), params={"epoch": epoch})
    web.store.seal()
    made, alive, reader_of = [], [], answers.open_reader

    def noting(sketch):
        alive.append(sum(each() is not None for each in made))
        reader = reader_of(sketch)
        made.append(weakref.ref(reader))
        return reader

    monkeypatch.setattr(answers, "open_reader", noting)
    asked = web("POST", f"{address}/history", json={"keys": [1]})
    assert [row["epoch"] for row in asked.json()["epochs"]] == [0, 1, 2, 3]
    assert max(alive) <= 1
    known = {"if-none-match": asked.headers["etag"]}
    again = web("POST", f"{address}/history", json={"keys": [1]}, headers=known)
    assert (again.status_code, len(made)) == (304, 4)
    web.send(plan, body_of(plan, 50), params={"epoch": 2})
    more = web("POST", f"{address}/history", json={"keys": [1]}, headers=known)
    assert more.status_code == 200


def test_a_history_has_a_bound(web, plan, body_of, refused, monkeypatch):
    address = web.create(plan, epochs=[0, 1, 2])
    for epoch in range(3):
        web.send(plan, body_of(plan, 50), params={"epoch": epoch})
    web.store.seal()
    monkeypatch.setattr(limits, "CELLS", 12)
    whole = web("POST", f"{address}/history", json={"keys": [1, 2, 3, 4]})
    assert [len(row["estimates"]) for row in whole.json()["epochs"]] == [4, 4, 4]
    told = refused(
        web("POST", f"{address}/history", json={"keys": [1, 2, 3, 4, 5]}), 422, "INVALID"
    )
    assert "5 keys in 3 epochs" in told["message"]
    monkeypatch.setattr(limits, "HISTORY_BYTES", len(whole.content) - 100)
    told = refused(web("POST", f"{address}/history", json={"keys": [1, 2, 3, 4]}), 422, "INVALID")
    assert "too long" in told["message"]


def test_a_sketch_leaves_in_pieces_and_by_the_disk(web, address, plan, body_of, monkeypatch):
    web.send(plan, body_of(plan, 50))
    web.store.seal()
    whole = web("GET", f"{address}/sketch")
    assert int(whole.headers["content-length"]) == len(whole.content)
    monkeypatch.setattr(limits, "DOWNLOAD_CHUNK_BYTES", 100)
    chunks, scope = [], {"type": "http", "method": "GET", "path": f"{address}/sketch"}
    scope |= {"headers": [(b"host", b"localhost")], "query_string": b"", "root_path": ""}
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message):
        chunks.append(message.get("body", b""))

    asyncio.run(web.collector.middleware(scope, receive, send))
    assert b"".join(chunks) == whole.content
    assert max(map(len, chunks)) == 100
    assert list((web.store.folder / "spool").iterdir()) == []


def test_few_sketches_are_on_their_way_at_a_time(web, address, plan, body_of, refused, monkeypatch):
    web.send(plan, body_of(plan, 50))
    web.store.seal()
    monkeypatch.setattr(limits, "DOWNLOADS", 1)
    downloading = []
    monkeypatch.setattr(
        routes_collections, "read_chunks", lambda file: downloading.append(file) or iter(())
    )
    assert web("GET", f"{address}/sketch").status_code == 200  # and somebody reads slowly
    refused(web("GET", f"{address}/sketch"), 429, "BUSY")
    downloading.pop().close()
    assert web("GET", f"{address}/sketch").status_code == 200
    downloading.clear()  # somebody hung up
    assert web("GET", f"{address}/sketch").status_code == 200
    assert list((web.store.folder / "spool").iterdir()) == []


def test_a_download_is_told_of_a_full_disk(web, address, plan, body_of, refused, monkeypatch):
    web.send(plan, body_of(plan, 50))
    web.store.seal()

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(answers, "write_sketch", fail)
        refused(web("GET", f"{address}/sketch"), 503, "CANNOT_STORE")
    assert list((web.store.folder / "spool").iterdir()) == []
    assert web("GET", f"{address}/sketch").status_code == 200
