"""Who may do what, and which pages may call."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from faintly.wire.problems import Problem
from faintly_collector.http.access import Access
from faintly_collector.http.settings import Settings
from faintly_collector.storage.collection import status_of
from tests.every import every

ROLES = ("submit", "read", "admin")
PAGE = "https://shop.example"


@pytest.fixture
def web(shared_web):
    return shared_web


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@pytest.fixture
def asked(plan, body_of):
    """Requests that need each role, in an order in which none is in the way of the next."""
    digest = plan.digest.hex()
    address = f"/v1/collections/{digest}"
    return {
        "submit": [
            ("POST", f"{address}/reports?request={'0' * 32}", {"content": body_of(plan, 1)})
        ],
        "plan": [("GET", f"{address}/plan", {})],
        "read": [
            ("GET", "/v1/collections", {}),
            ("GET", address, {}),
            ("GET", f"{address}/segments", {}),
            ("GET", f"{address}/top", {}),
            ("GET", f"{address}/noise-floor", {}),
            ("GET", f"{address}/estimates?key=1", {}),
            ("GET", "/v1/activity", {}),
            ("GET", f"{address}/sketch", {}),
            ("POST", f"{address}/estimates", {"json": {"keys": [1]}}),
            ("POST", f"{address}/top", {"json": {"candidates": [1]}}),
            ("POST", f"{address}/history", {"json": {"keys": [1]}}),
            ("GET", "/metrics", {}),
        ],
        "admin": [
            ("POST", "/v1/collections", {"json": {"plan": plan.document()}}),
            ("POST", f"{address}/seal", {}),
            ("PUT", f"{address}/epochs/3", {"json": {"state": "open"}}),
            ("POST", f"{address}/tokens", {"json": {"count": 1}}),
            ("POST", f"{address}/close", {}),
            ("DELETE", f"{address}?confirm={digest}", {}),
        ],
    }


@pytest.fixture
def filled(web, plan, body_of):
    web.create(plan)
    web.send(plan, body_of(plan, 5))
    web.store.seal()
    return web


def test_without_credentials_everything_is_open(filled, asked):
    for requests in asked.values():
        for method, path, options in requests:
            assert filled(method, path, **options).status_code in {200, 409}, path


@pytest.mark.parametrize("role", [*ROLES, None])
def test_each_role_opens_its_own(filled, asked, refused, role):
    secrets = {each: filled.store.credentials.add(each, each) for each in ROLES}
    headers = {} if role is None else bearer(secrets[role])
    opened = {"read": {"plan", "read"}, "submit": {"plan", "submit"}, None: set()}
    opens = opened.get(role, {"plan", "read", "admin"})
    for needed, requests in asked.items():
        for method, path, options in requests:
            answer = filled(method, path, headers=headers, **options)
            if needed in opens:
                assert answer.status_code in {200, 409}, path
            elif role is None:
                refused(answer, 401, "NOT_AUTHORISED")
                assert answer.headers["www-authenticate"] == "Bearer"
            else:
                refused(answer, 403, "NOT_ALLOWED")


def test_nobody_without_the_role_has_a_body_looked_at(filled, refused):
    """Neither a body nor a query that breaks rules is told apart from a good one."""
    secrets = {role: bearer(filled.store.credentials.add(role, role)) for role in ROLES}
    known = {"content-type": "application/json"}
    asked = 0
    for path, methods in filled("GET", "/openapi.json").json()["paths"].items():
        for method in {"post", "put", "delete"} & set(methods):
            address = path.format(digest="0" * 32, epoch="0")
            for query, body in itertools.product(["", "?x"], [b"", b"{", b"[" * 100_000]):
                told = filled(method, address + query, content=body, headers=known)
                refused(told, 401, "NOT_AUTHORISED")
                role = "admin" if address.endswith("/reports") else "submit"
                headers = known | secrets[role]
                refused(
                    filled(method, address + query, content=body, headers=headers),
                    403,
                    "NOT_ALLOWED",
                )
                asked += 1
    assert asked >= 60


def test_submitting_is_open_until_a_credential_to_submit_exists(filled, asked):
    filled.store.credentials.add("admin", "a")
    for needed in ("submit", "plan"):
        ((method, path, options),) = asked[needed]
        assert filled(method, path, **options).status_code == 200
    assert filled("GET", "/v1/collections").status_code == 401
    assert filled("GET", "/healthz").status_code == filled("GET", "/readyz").status_code == 200


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"proxy": True}])
def test_removing_the_last_credential_opens_nothing_to_others(
    make_web, plan, asked, refused, settings
):
    web = make_web(**settings)
    secret = web.store.credentials.add("admin", "a")
    body = {"plan": plan.document()}
    assert web("POST", "/v1/collections", json=body, headers=bearer(secret)).status_code == 201
    web.store.credentials.remove("a")
    for needed in ("read", "admin"):
        for method, path, options in asked[needed]:
            for headers in ({}, bearer(secret)):
                refused(web(method, path, headers=headers, **options), 401, "NOT_AUTHORISED")
    for needed in ("submit", "plan"):
        ((method, path, options),) = asked[needed]
        assert web(method, path, **options).status_code == 200
    assert web("GET", "/readyz").status_code == 200
    again = web.store.credentials.add("admin", "b")
    assert web("GET", "/v1/collections", headers=bearer(again)).status_code == 200


def test_anyone_may_where_that_was_said(make_web):
    web = make_web(host="0.0.0.0", allow_anyone=True)
    assert web("GET", "/v1/collections").status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer x{}", "Bearer {}x", "Bearer é{}"]
)
def test_anything_but_the_secret_is_unknown(filled, refused, header):
    secret = filled.store.credentials.add("read", "r")
    told = filled(
        "GET",
        "/v1/collections",
        headers={b"authorization": header.format(secret).encode("latin-1")},
    )
    refused(told, 401, "NOT_AUTHORISED")
    assert secret not in told.text
    assert filled("GET", "/v1/collections", headers=bearer(secret)).status_code == 200


@every("name", ["Authorization", "Host", "Origin"])
def test_headers_that_may_come_once(filled, refused, name):
    headers = [(name, "127.0.0.1")] * 2
    told = refused(filled("GET", "/v1/collections", headers=headers), 400, "BAD_REQUEST")
    assert "repeated" in told["message"]


def test_allowed_pages_may_read_answers_and_ask_first(make_web, plan, body_of):
    web = make_web(cors=(PAGE,))
    web.create(plan)
    simple = web.send(plan, body_of(plan, 1), headers={"origin": PAGE})
    assert simple.status_code == 200
    assert simple.headers["access-control-allow-origin"] == PAGE
    assert simple.headers["vary"] == "origin"
    listed = web("GET", "/v1/collections", headers={"origin": PAGE})
    assert listed.headers["access-control-allow-origin"] == PAGE
    refusal = web("GET", "/nothing", headers={"origin": PAGE})
    assert refusal.headers["access-control-allow-origin"] == PAGE
    path = f"/v1/collections/{plan.digest.hex()}/reports"
    asks = {"origin": PAGE, "access-control-request-method": "POST"}
    asks["access-control-request-headers"] = "faintly-token"
    first = web("OPTIONS", path, headers=asks)
    assert first.status_code == 204
    assert first.headers["access-control-allow-origin"] == PAGE
    assert "POST" in first.headers["access-control-allow-methods"]
    assert "faintly-token" in first.headers["access-control-allow-headers"]


def test_other_pages_may_not(make_web, plan, body_of, refused):
    web = make_web(cors=(PAGE,))
    web.create(plan)
    evil = {"origin": "https://evil.example"}
    told = web.send(plan, body_of(plan, 1), headers=evil)
    refused(told, 403, "NOT_ALLOWED")
    assert "access-control-allow-origin" not in told.headers
    asks = evil | {"access-control-request-method": "POST"}
    refused(web("OPTIONS", "/v1/collections", headers=asks), 403, "NOT_ALLOWED")
    refused(
        web("POST", f"/v1/collections/{plan.digest.hex()}/close", headers=evil), 403, "NOT_ALLOWED"
    )
    read = web("GET", "/v1/collections", headers=evil)
    assert "access-control-allow-origin" not in read.headers
    assert status_of(web.store.registry.collection(plan.digest)).state == "open"
    assert status_of(web.store.registry.collection(plan.digest)).pending == 0


def check(method: str, host: str, origin: str | None = None, *, local: bool) -> None:
    """Let a request pass the checks of a folder without credentials."""
    headers = {b"host": host.encode()} | ({} if origin is None else {b"origin": origin.encode()})
    credentials = SimpleNamespace(roles=frozenset())
    access = Access(credentials, Settings(data=Path("data"), allow_anyone=not local))
    access.check(method, list(headers.items()), headers)


def test_a_page_of_the_same_address_may_call():
    check("POST", "example.org:8790", "https://example.org:8790", local=False)
    with pytest.raises(Problem):
        check("POST", "example.org", "https://example.com", local=False)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8790", "127.0.0.1:1", "[::1]:8790", "[::1]"]
)
def test_this_machines_names_are_served(host):
    check("GET", host, local=True)
    with pytest.raises(Problem, match="this machine's own names"):
        check("GET", f"not-{host}", local=True)


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:80", "localhost.evil.example"])
def test_a_name_pointed_here_is_refused_while_all_is_open(web, plan, body_of, refused, host):
    web.create(plan)
    headers = {"host": host}
    refused(web("GET", "/v1/collections", headers=headers), 403, "NOT_ALLOWED")
    refused(web.send(plan, body_of(plan, 1), headers=headers), 403, "NOT_ALLOWED")


def test_with_credentials_any_name_will_do(filled):
    secret = filled.store.credentials.add("read", "r")
    headers = bearer(secret) | {"host": "example.org"}
    assert filled("GET", "/v1/collections", headers=headers).status_code == 200
