"""The control plane: collections, errors in one shape, documentation."""

import base64
import hashlib
import json
import math
import re

import pytest

from benchmarks import samples
from faintly import make_plan
from faintly.core import Plan
from faintly.mechanisms import mechanism_of
from faintly_collector.storage.store import StoreLimits
from tests.every import every


@pytest.fixture
def web(shared_web):
    return shared_web


def test_a_collection_from_creation_to_deletion(web, plan, body_of, refused):
    address = web.create(plan, name="teas", retention="drop", epochs=[2, 1])
    again = web(
        "POST",
        "/v1/collections",
        json={"plan": plan.document(), "name": "teas", "retention": "drop", "epochs": [1, 2]},
    )
    assert again.status_code == 200
    shown = web("GET", address).json()
    assert again.json() == shown
    assert (shown["name"], shown["retention"], shown["state"]) == ("teas", "drop", "open")
    assert [each["epoch"] for each in shown["epochs"]] == [1, 2]
    web.send(plan, body_of(plan, 6), params={"epoch": "1"})
    listed = web("GET", "/v1/collections").json()["collections"]
    assert [(each["digest"], each["pending"]) for each in listed] == [(plan.digest.hex(), 6)]
    assert web("POST", f"{address}/seal").json() == {"sealed": 6}
    closed = web("POST", f"{address}/close").json()
    assert (closed["state"], closed["reports"], closed["pending"]) == ("closed", 6, 0)
    told = refused(web("DELETE", address), 400, "BAD_REQUEST")
    assert "confirm" in told["hint"]
    refused(web("DELETE", f"{address}?confirm={'0' * 32}"), 400, "BAD_REQUEST")
    assert web("DELETE", f"{address}?confirm={plan.digest.hex()}").status_code == 200
    refused(web("GET", address), 404, "UNKNOWN_COLLECTION")
    assert web("GET", "/v1/collections").json() == {"collections": []}


def test_other_settings_for_a_plan_are_a_conflict(web, plan, refused):
    web.create(plan)
    other = {"plan": plan.document(), "retention": "drop"}
    refused(web("POST", "/v1/collections", json=other), 409, "CONFLICT")


def test_epochs_of_the_clock_leave_epoch_0_shut(web, plan, body_of, refused):
    """A sender that names no epoch would else be counted into epoch 0 for good."""
    wanted = {"plan": plan.document(), "period_s": 3600.0}
    made = web("POST", "/v1/collections", json=wanted)
    assert (made.status_code, made.json()["epochs"]) == (201, [])
    refused(web.send(plan, body_of(plan, 1)), 404, "UNKNOWN_EPOCH")
    again = web("POST", "/v1/collections", json=wanted | {"epochs": None})
    assert again.status_code == 200
    refused(web("POST", "/v1/collections", json=wanted | {"epochs": [0]}), 409, "CONFLICT")


def test_the_plan_comes_back_to_the_byte(web, plan):
    address = web.create(plan)
    answer = web("GET", f"{address}/plan")
    assert answer.content == plan.canonical
    assert Plan.from_json(answer.content).digest == plan.digest
    assert "immutable" in answer.headers["cache-control"]
    etag = answer.headers["etag"]
    assert etag == f'"{plan.digest.hex()}"'
    known = web("GET", f"{address}/plan", headers={"if-none-match": etag})
    assert (known.status_code, known.content) == (304, b"")


def test_segments_are_listed(web, plan, body_of):
    address = web.create(plan)
    web.send(plan, body_of(plan, 20))
    web("POST", f"{address}/seal")
    (segment,) = web("GET", f"{address}/segments").json()["segments"]
    assert (segment["epoch"], segment["reports"]) == (0, 20)
    assert (web.store.folder / segment["file"]).stat().st_size == segment["bytes"]


@every(
    "change",
    [
        {"epsilon": "99"},
        {"epsilon": 1.0},
        {"format": "faintly-plan/9"},
        {"mechanism": "none"},
        {"salt": ""},
        {"more": 1},
        {"parameters": {}},
        {"universe": {"kind": "indexed", "size": -1}},
    ],
)
def test_bad_plans_are_refused(web, plan, refused, change):
    document = plan.document() | change
    refused(web("POST", "/v1/collections", json={"plan": document}), 422, "BAD_PLAN")
    assert list(web.store.registry.collections.values()) == []


def test_a_plan_larger_than_the_collector_allows_is_refused(make_web, plan, refused):
    cells = math.prod(mechanism_of(plan).tables.shape)
    web, large = make_web(StoreLimits(table_bytes=4 * max(cells, 256))), samples.open_plan(100_000)
    assert 4 * math.prod(mechanism_of(large).tables.shape) > 4 * max(cells, 256)
    told = web("POST", "/v1/collections", json={"plan": large.document()})
    document = refused(told, 422, "BAD_PLAN")
    assert "bytes" in document["message"]
    assert "table_bytes" in document["hint"]
    direct = samples.retrieval_plan(1000, 64, 8, "direct")
    web.create(direct)
    web.create(plan)


def test_a_large_plan_that_is_there_already_is_found(make_web, open_plan):
    with make_web().store as before:
        before.registry.create(open_plan)
    web = make_web(StoreLimits(table_bytes=1024))
    again = web("POST", "/v1/collections", json={"plan": open_plan.document()})
    assert again.status_code == 200


def test_a_plan_of_gibibytes_is_refused_unless_told(web, refused):
    large = make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=8,
        clients=1000,
        universe=2**30,
        mechanism="signed-binning",
        family="linear",
        decode="table",
    )
    document = large.document()
    told = refused(web("POST", "/v1/collections", json={"plan": document}), 422, "BAD_PLAN")
    assert f"{4 << 30:,}" in told["message"]


def test_what_is_wrong_with_a_plan_is_told_briefly(web, plan, refused):
    document = plan.document() | {"x" * 100_000: 1}
    told = refused(web("POST", "/v1/collections", json={"plan": document}), 422, "BAD_PLAN")
    assert told["message"].startswith("plan has an unknown field 'x")
    assert len(told["message"]) <= 300


@every(
    ("content", "status", "code"),
    [
        (b"", 422, "INVALID"),
        (b"{", 400, "BAD_REQUEST"),
        (b"\xff", 400, "BAD_REQUEST"),
        (b"[" * 100_000, 400, "BAD_REQUEST"),
        (b'{"plan": ' + b"1" * 10_000 + b"}", 400, "BAD_REQUEST"),
        (b"null", 422, "INVALID"),
        (b'{"plan": {}, "name": 3}', 422, "INVALID"),
        (b'{"plan": {}, "<b>\\u0000": 3}', 422, "INVALID"),
        (b'{"plan": {}, "epochs": [-1]}', 422, "INVALID"),
        (b'{"plan": {}, "period_s": 1e999}', 422, "INVALID"),
        (b'{"plan": {"a": "\\ud800"}}', 422, "BAD_PLAN"),
    ],
)
def test_bad_bodies_are_refused(web, refused, content, status, code):
    headers = {"content-type": "application/json"}
    refused(web("POST", "/v1/collections", content=content, headers=headers), status, code)


def test_a_field_that_appears_twice_is_refused(web, plan, refused):
    """Of two plans in one body, or two epsilons in one plan, nobody could say which was meant."""
    address = web.create(plan)
    document = json.dumps(plan.document())
    for path, body in (
        ("/v1/collections", f'{{"plan": {document[:-1]}, "clients": 1000}}}}'),
        ("/v1/collections", f'{{"plan": {document}, "plan": {document}}}'),
        (f"{address}/tokens", '{"count": 1, "count": 2}'),
        (f"{address}/top", '{"candidates": [1], "count": 1, "count": 2}'),
    ):
        told = web("POST", path, content=body, headers={"content-type": "application/json"})
        assert "a field appears twice" in refused(told, 400, "BAD_REQUEST")["message"]


def test_json_must_be_called_so(web, plan, refused):
    """A page may send text anywhere without asking; JSON it may not."""
    body = json.dumps({"plan": plan.document()})
    for headers in ({}, {"content-type": "text/plain"}):
        told = web("POST", "/v1/collections", content=body, headers=headers)
        assert "application/json" in refused(told, 422, "INVALID")["hint"]


def test_the_body_of_a_query_has_a_limit_too(make_web, refused):
    web = make_web(body_bytes=2048)
    headers = {"content-type": "application/json"}
    told = web("POST", "/v1/collections", content=bytes(2049), headers=headers)
    refused(told, 413, "TOO_LARGE")
    pieces = (b" " * 500 for _ in range(9))
    refused(web("POST", "/v1/collections", content=pieces, headers=headers), 413, "TOO_LARGE")


@every(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("GET", "/v1/collections/", 404, "NOT_FOUND"),
        ("GET", "/<script>", 404, "NOT_FOUND"),
        ("GET", "/v1/collections/short", 404, "UNKNOWN_COLLECTION"),  # which might be a name
        ("GET", f"/v1/collections/{'A' * 32}", 404, "UNKNOWN_COLLECTION"),
        ("GET", f"/v1/collections/{'a' * 32}", 404, "UNKNOWN_COLLECTION"),
        ("PUT", f"/v1/collections/{'a' * 32}/epochs/x", 422, "INVALID"),
        ("PATCH", "/v1/collections", 405, "METHOD_NOT_ALLOWED"),
        ("OPTIONS", "/v1/collections", 405, "METHOD_NOT_ALLOWED"),
        ("TRACE", "/healthz", 405, "METHOD_NOT_ALLOWED"),
    ],
)
def test_errors_of_the_framework_have_the_same_shape(web, refused, method, path, status, code):
    refused(web(method, path), status, code)


@every(
    ("method", "path", "methods"),
    [
        ("PATCH", "/v1/collections", "GET, POST"),
        ("DELETE", "/healthz", "GET"),
        ("PUT", "/v1/collections/{digest}", "DELETE, GET"),
        ("GET", "/v1/collections/{digest}/reports", "POST"),
        ("DELETE", "/v1/collections/{digest}/estimates", "GET, POST"),
        ("GET", "/v1/collections/{digest}/history", "POST"),
        ("GET", "/v1/collections/{digest}/epochs/{epoch}", "PUT"),
        ("PUT", "/session", "DELETE, GET, POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(web, refused, method, path, methods):
    told = web(method, path.format(digest="a" * 32, epoch=1))
    named = path if path != "/session" else "This address"  # not part of the interface
    assert refused(told, 405, "METHOD_NOT_ALLOWED")["hint"] == f"{named} takes {methods}."
    assert told.headers["allow"] == methods


def test_the_document_has_a_route_of_its_own(make_web):
    """Metrics and logs would count it among addresses that are not there."""
    web = make_web()
    web("GET", "/openapi.json")
    lines = web("GET", "/metrics").text.splitlines()
    counted = 'faintly_http_requests_total{method="GET",route="/openapi.json",status="200"} 1.0'
    assert counted in lines


def test_parameters_that_an_address_does_not_take_are_refused(web, refused):
    """Each route of the documentation, with all it takes, and with one more."""
    document = web("GET", "/openapi.json").json()
    for path, methods in document["paths"].items():
        if not path.startswith("/v1/"):
            continue
        for method, operation in methods.items():
            listed = operation.get("parameters", [])
            taken = [each["name"] for each in listed if each["in"] == "query"]
            address = path.format(digest="a" * 32, epoch=0)
            told = web(method, address, params=dict.fromkeys(taken, "x"))
            assert "not known here" not in told.text, (method, path)
            if path.endswith("/reports"):
                misspelt = {"request": "a" * 32, "epohc": 5}
                refused(web(method, address, params=misspelt), 400, "BAD_REQUEST")
                continue
            told = web(method, address, params={"<b>\x00é": 5} | dict.fromkeys(taken, "0"))
            said = refused(told, 422, "INVALID")
            assert said["message"] == "query: it has a parameter that is not known here"
            assert all(name in said["hint"] for name in taken or ["no parameters"])
            for name in set(taken) - {"key"}:  # of which there may be several
                said = refused(web(method, f"{address}?{name}=0&{name}=0"), 422, "INVALID")
                assert said["message"] == "query: it has a parameter twice"


def test_parameters_are_checked_after_credentials(web, refused):
    web.store.credentials.add("read", "r")
    refused(web("GET", "/v1/collections?x=1"), 401, "NOT_AUTHORISED")


@every("path", ["/healthz", "/readyz", "/metrics", "/docs", "/openapi.json"])
def test_probes_may_add_what_they_like(web, path):
    assert web("GET", f"{path}?at=1").status_code == 200


@pytest.mark.parametrize("epoch", ["1.0", "+1", "%201", "1_0", "-1", "1e3", "%D9%A1", "9" * 5000])
def test_an_epoch_is_written_in_digits(web, plan, refused, epoch):
    address = web.create(plan)
    told = web("PUT", f"{address}/epochs/{epoch}", json={"state": "open"})
    refused(told, 422, "INVALID")
    assert [each["epoch"] for each in web("GET", address).json()["epochs"]] == [0]


def test_head_is_get_without_the_body(make_web, plan, body_of):
    web = make_web()
    address = web.create(plan)
    web.send(plan, body_of(plan, 5))
    web.store.seal()
    for path in ("/healthz", "/readyz", "/docs", address, f"{address}/plan", f"{address}/sketch"):
        whole, head = web("GET", path), web("HEAD", path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers == whole.headers
    assert web("HEAD", f"{address}/seal").status_code == 405
    assert web("HEAD", "/nothing").status_code == 404
    web.store.credentials.add("read", "r")
    assert web("HEAD", address).status_code == 401
    labels = 'method="HEAD",route="/v1/collections/{digest}",status="200"'
    web.store.credentials.remove("r")
    assert f"faintly_http_requests_total{{{labels}}} 1.0" in web("GET", "/metrics").text


def test_the_documentation_names_every_address(web):
    document = web("GET", "/openapi.json").json()
    assert "/v1/collections/{digest}/reports" in document["paths"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            for status in ("400", "401", "500"):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Refusal"}, (method, path)


def test_the_page_loads_nothing_from_elsewhere(web):
    told = web("GET", "/docs")
    assert told.status_code == 200
    assert told.headers["content-type"].startswith("text/html")
    assert "//" not in told.text, "an address of somebody else"
    assert not re.search(r"src=|@import|url\(", told.text)
    assert 'fetch("openapi.json")' in told.text
    policy = told.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    for tag in ("script", "style"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", told.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy, "or browsers refuse our own"
