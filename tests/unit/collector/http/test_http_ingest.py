"""The hot path: what it counts, and what it refuses without storing anything."""

import json
import os

import pytest

from faintly_collector.http import routes_collections
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.store import StoreLimits
from tests.every import every

ID = "0123456789abcdef" * 2


@pytest.fixture
def web(shared_web):
    return shared_web


def pending(web, plan) -> int:
    return status_of(web.store.registry.collection(plan.digest)).pending


@pytest.mark.parametrize("reports", [1, 2, 700])
@pytest.mark.parametrize("kind", [None, "text/plain", "application/json", "x/y"])
def test_any_content_type_is_counted(web, address, plan, body_of, reports, kind):
    headers = {} if kind is None else {"content-type": kind}
    answer = web.send(plan, body_of(plan, reports), headers=headers)
    assert answer.status_code == 200
    assert answer.json() == {"status": "counted", "reports": reports}
    assert set(answer.headers) == {"content-type", "content-length"}
    assert pending(web, plan) == reports


def test_a_retry_counts_once_and_another_body_is_refused(web, address, plan, body_of, refused):
    body = body_of(plan, 3)
    assert web.send(plan, body, ID).json()["status"] == "counted"
    assert web.send(plan, body, ID.upper()).json() == {"status": "replayed", "reports": 3}
    told = refused(web.send(plan, body_of(plan, 4), ID), 409, "REQUEST_REUSED")
    assert told["message"] == "this request id was already used with another body"
    assert pending(web, plan) == 3


@every(
    ("query", "code"),
    [
        ("", "NO_REQUEST_ID"),
        ("request=", "NO_REQUEST_ID"),
        (f"request={ID[:-1]}", "NO_REQUEST_ID"),
        (f"request={ID}0", "NO_REQUEST_ID"),
        (f"request={ID[:-2]}  ", "NO_REQUEST_ID"),
        (f"request={ID[:-1]}g", "NO_REQUEST_ID"),
        ("epoch=0", "NO_REQUEST_ID"),
        (f"request={ID}&request={ID}", "BAD_REQUEST"),
        (f"request={ID}&other=1", "BAD_REQUEST"),
        (f"request={ID}&epoch=", "BAD_REQUEST"),
        (f"request={ID}&epoch=-1", "BAD_REQUEST"),
        (f"request={ID}&epoch=1.0", "BAD_REQUEST"),
        (f"request={ID}&epoch=%31", "BAD_REQUEST"),
        (f"request={ID}&epoch={2**53}", "BAD_REQUEST"),
        (f"request={ID}&epoch={'9' * 5000}", "BAD_REQUEST"),
    ],
)
def test_bad_queries_are_refused(web, address, plan, body_of, refused, query, code):
    answer = web("POST", f"{address}/reports?{query}", content=body_of(plan, 1))
    refused(answer, 400, code)
    assert pending(web, plan) == 0


def test_bad_bodies_are_refused_with_their_reason(web, address, plan, open_plan, body_of, refused):
    good = body_of(plan, 2)
    cases = {
        "TRUNCATED": good[:-1],
        "TRAILING_BYTES": good + b"\0",
        "BAD_MAGIC": b"GET /" + good[5:],
        "BAD_CHECKSUM": good[:-1] + bytes([good[-1] ^ 1]),
        "OTHER_PLAN": body_of(open_plan, 2),
    }
    for reason, body in cases.items():
        assert reason in refused(web.send(plan, body), 400, "BAD_REPORTS")["message"]
    refused(web.send(plan, b""), 400, "BAD_REPORTS")
    assert pending(web, plan) == 0


def test_unknown_places_are_refused(web, address, plan, open_plan, body_of, refused):
    refused(web.send(open_plan, body_of(open_plan, 1)), 404, "UNKNOWN_COLLECTION")
    refused(web.send(plan, body_of(plan, 1), params={"epoch": "7"}), 404, "UNKNOWN_EPOCH")
    unhex = address[:-1] + "g"
    refused(web("POST", f"{unhex}/reports?request={ID}"), 422, "INVALID")
    refused(web("POST", f"{address}0/reports?request={ID}"), 422, "INVALID")
    refused(web("GET", f"{address}/reports"), 405, "METHOD_NOT_ALLOWED")


def test_closed_is_told_apart_from_unknown(web, address, plan, body_of, refused):
    web("PUT", f"{address}/epochs/1", json={"state": "open"})
    assert web.send(plan, body_of(plan, 1), params={"epoch": "1"}).status_code == 200
    web("PUT", f"{address}/epochs/1", json={"state": "closed"})
    refused(web.send(plan, body_of(plan, 1), params={"epoch": "1"}), 410, "CLOSED")
    web("POST", f"{address}/close")
    refused(web.send(plan, body_of(plan, 1)), 410, "CLOSED")


def test_a_large_body_is_refused_before_and_while_it_comes(make_web, plan, body_of, refused):
    web = make_web(body_bytes=2048)
    web.create(plan)
    assert web.send(plan, body_of(plan, 100)).status_code == 200
    told = web.send(plan, bytes(2049))
    refused(told, 413, "TOO_LARGE")
    pieces = (bytes(500) for _ in range(9))  # without a length, so it must be counted
    refused(web.send(plan, pieces), 413, "TOO_LARGE")
    lie = web.send(plan, b"", headers={"content-length": "9" * 4000})
    refused(lie, 413, "TOO_LARGE")


def test_a_body_that_comes_in_pieces_is_counted(web, address, plan, body_of):
    body = body_of(plan, 50)
    pieces = (body[start : start + 7] for start in range(0, len(body), 7))
    assert web.send(plan, pieces).json() == {"status": "counted", "reports": 50}


def test_a_full_inbox_asks_to_wait(make_web, plan, body_of, refused):
    body = body_of(plan, 100)
    web = make_web(StoreLimits(seal_s=1e9, inbox_bytes=len(body) - 40))
    web.store.maintenance.stop()  # which would seal at once
    web.create(plan)
    assert web.send(plan, body).status_code == 200
    busy = web.send(plan, body_of(plan, 1))
    refused(busy, 429, "BUSY")
    assert int(busy.headers["retry-after"]) >= 1
    web.store.seal()
    assert web.send(plan, body_of(plan, 1)).status_code == 200


def test_a_store_that_fails_is_told_and_comes_back(web, address, plan, body_of, refused):
    transaction = web.store.database.transaction

    def fail():
        raise OSError(28, "No space left on device")

    web.store.database.transaction = fail
    failed = web.send(plan, body_of(plan, 1), ID)
    document = refused(failed, 503, "CANNOT_STORE")
    assert "No space" not in json.dumps(document)
    assert failed.headers["retry-after"]
    web.store.database.transaction = transaction
    assert web.send(plan, body_of(plan, 1), ID).json()["status"] == "counted"


def test_a_stopping_collector_takes_nothing_more(web, address, plan, body_of, refused):
    web.store.stopping = True
    stopped = web.send(plan, body_of(plan, 1))
    refused(stopped, 503, "STOPPING")
    assert stopped.headers["retry-after"]
    refused(web("GET", "/readyz"), 503, "STOPPING")
    assert web("GET", "/healthz").status_code == 200


def test_tokens_count_once(web, plan, body_of, refused):
    address = web.create(plan, tokens=True)
    issued = web("POST", f"{address}/tokens", json={"count": 2, "epoch": 0}).json()["tokens"]
    assert len(set(issued)) == 2
    body = body_of(plan, 1)
    header = {"faintly-token": issued[0]}
    assert web.send(plan, body, ID, headers=header).json()["status"] == "counted"
    assert web.send(plan, body, ID, headers=header).json()["status"] == "replayed"
    refused(web.send(plan, body_of(plan, 1), headers=header), 409, "TOKEN_USED")
    refused(web.send(plan, body), 403, "TOKEN_MISSING")
    refused(web.send(plan, body, headers={"faintly-token": "x"}), 403, "TOKEN_UNKNOWN")
    two = {"faintly-token": issued[1]}
    refused(web.send(plan, body_of(plan, 2), headers=two), 400, "BAD_REPORTS")
    assert web.send(plan, body_of(plan, 1), headers=two).json()["status"] == "counted"


def test_what_goes_wrong_inside_is_not_told(web, address, plan, body_of, refused, monkeypatch):
    secret = os.urandom(8).hex()

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(secret)

    monkeypatch.setattr(web.store, "take", fail)
    answer = web.send(plan, body_of(plan, 1))
    refused(answer, 500, "INTERNAL")
    assert secret not in answer.text
    monkeypatch.setattr(routes_collections, "status_of", fail)
    listed = web("GET", "/v1/collections")
    refused(listed, 500, "INTERNAL")
    assert secret not in listed.text
