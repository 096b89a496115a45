"""The page: its files and policy, signing in, what a session may do, and what it shows."""

import io
import json
import re
import time
from pathlib import Path

import pyarrow.parquet
import pytest

from benchmarks import samples
from faintly_collector.http import access, limits
from faintly_collector.http.routes_page import FOLDER
from faintly_collector.storage.collection import HOURS

OWN, FOREIGN = {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "cross-site"}


@pytest.fixture
def web(shared_web):
    return shared_web


@pytest.fixture
def guarded(web):
    """A collector with a credential of each role, and the secrets."""
    secrets = {role: web.store.credentials.add(role, role) for role in ("submit", "read", "admin")}
    return web, secrets


def sign_in(web, secret, **headers):
    return web("POST", "/session", json={"credential": secret}, headers=headers)


def cookie_of(answer) -> dict[str, str]:
    name, _, rest = answer.headers["set-cookie"].partition("=")
    assert name == access.COOKIE
    return {"cookie": f"{name}={rest.partition(';')[0]}"}


def test_the_page_loads_its_own_files_alone(web):
    page = web("GET", "/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert all(each.startswith(("./assets/", "data:")) for each in named)  # under any path
    assert "<style" not in page.text
    assert not re.search(r"<script(?![^>]*src=)", page.text)
    for each in named:
        if each.startswith("./"):
            kept = web("GET", each[1:], headers={"accept-encoding": "identity"})
            assert kept.content == (FOLDER / each).read_bytes()
            assert "immutable" in kept.headers["cache-control"]
            assert kept.headers["content-security-policy"] == policy
            packed = web("GET", each[1:], headers={"accept-encoding": "br, gzip"})
            assert packed.headers["content-encoding"] == "gzip"
            assert packed.content == kept.content  # httpx unpacks it
    assert page.headers["cache-control"] == "no-cache"
    same = web("GET", "/", headers={"if-none-match": page.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    head = web("HEAD", "/")
    assert (head.status_code, head.content) == (200, b"")


def test_the_bundle_is_small():
    sizes = {path.name: len(path.read_bytes()) for path in (FOLDER / "assets").iterdir()}
    first = sum(size for name, size in sizes.items() if name.startswith("index"))
    assert first < 80_000, sizes  # before it is packed; charts come later
    assert sum(sizes.values()) < 450_000


@pytest.mark.parametrize("name", ["%2e%2e%2findex.html", "..%5cindex.html", "x.js", "index.html"])
def test_no_other_file_is_served(web, refused, name):
    refused(web("GET", f"/assets/{name}"), 404, "NOT_FOUND")


def test_a_credential_is_exchanged_for_a_cookie(guarded):
    web, secrets = guarded
    made = sign_in(web, secrets["read"], **OWN)
    assert made.json() == {"role": "read"}
    told = made.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= set(told.split("; "))
    assert "Path" not in told  # so that browsers keep it below the proxy's path
    assert "Secure" not in told  # there is no TLS here
    assert secrets["read"] not in told
    cookie = cookie_of(made)
    assert web("GET", "/session", headers=cookie).json() == {"role": "read"}
    for path in ("/v1/collections", "/v1/activity", "/metrics"):
        assert web("GET", path, headers=cookie).status_code == 200
        assert web("GET", path).status_code == 401


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_cookie_of_a_page_behind_tls_is_for_tls(guarded, scheme):
    web, secrets = guarded
    made = sign_in(web, secrets["read"], origin=f"{scheme}://127.0.0.1")
    assert ("Secure" in made.headers["set-cookie"]) == (scheme == "https")


def test_a_session_reads_and_nothing_else(guarded, plan, refused):
    """Not even that of an admin: a forged request could not change anything."""
    web, secrets = guarded
    admin = {"authorization": f"Bearer {secrets['admin']}"}
    created = web("POST", "/v1/collections", json={"plan": plan.document()}, headers=admin)
    assert created.status_code == 201
    cookie = cookie_of(sign_in(web, secrets["admin"])) | OWN
    address = f"/v1/collections/{plan.digest.hex()}"
    assert web("GET", f"{address}/plan", headers=cookie).status_code == 200
    for method, path in (
        ("POST", "/v1/collections"),
        ("POST", f"{address}/seal"),
        ("POST", f"{address}/close"),
        ("POST", f"{address}/tokens"),
        ("PUT", f"{address}/epochs/1"),
        ("DELETE", f"{address}?confirm={plan.digest.hex()}"),
        ("POST", f"{address}/reports?request={'0' * 32}"),
    ):
        refused(web(method, path, headers=cookie), 401, "NOT_AUTHORISED")


def test_without_the_right_to_read_there_is_no_session(guarded, refused):
    web, secrets = guarded
    refused(sign_in(web, secrets["submit"]), 403, "NOT_ALLOWED")
    refused(sign_in(web, "wrong"), 401, "NOT_AUTHORISED")
    refused(web("POST", "/session", json={}), 422, "INVALID")
    refused(web("POST", "/session", json={"credential": "x", "role": "admin"}), 422, "INVALID")
    text = {"content-type": "text/plain"}
    refused(web("POST", "/session", content=b"{}", headers=text), 422, "INVALID")


@pytest.mark.parametrize(
    "headers",
    [
        FOREIGN,
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
def test_pages_of_others_get_nothing(guarded, refused, headers):
    web, secrets = guarded
    refused(sign_in(web, secrets["read"], **headers), 403, "NOT_ALLOWED")
    cookie = cookie_of(sign_in(web, secrets["read"]))
    refused(web("GET", "/v1/collections", headers=cookie | headers), 401, "NOT_AUTHORISED")
    refused(web("DELETE", "/session", headers=cookie | headers), 403, "NOT_ALLOWED")
    assert web("GET", "/v1/collections", headers=cookie).status_code == 200  # still signed in


def test_a_page_that_may_call_has_no_session(make_web, refused):
    """An origin of --cors brings a credential of its own; the cookie of the page is not for it."""
    web = make_web(cors=("https://shop.example",))
    secret = web.store.credentials.add("read", "r")
    cookie = cookie_of(sign_in(web, secret))
    foreign = {"origin": "https://shop.example"}
    refused(web("GET", "/v1/collections", headers=cookie | foreign), 401, "NOT_AUTHORISED")
    refused(sign_in(web, secret, **foreign), 403, "NOT_ALLOWED")
    told = web("GET", "/v1/collections", headers=foreign | {"authorization": f"Bearer {secret}"})
    assert told.status_code == 200
    assert "access-control-allow-credentials" not in told.headers


def test_behind_a_proxy_of_another_name_the_page_may_ask(guarded):
    web, secrets = guarded
    proxied = OWN | {"origin": "https://stats.example"}
    cookie = cookie_of(sign_in(web, secrets["read"], **proxied))
    assert web("GET", "/v1/collections", headers=cookie | proxied).status_code == 200


def test_sessions_end(guarded, monkeypatch):
    web, secrets = guarded
    first, second, third = (cookie_of(sign_in(web, secrets["read"])) for _ in range(3))

    def status(cookie):
        return web("GET", "/v1/collections", headers=cookie).status_code

    web("DELETE", "/session", headers=first)
    assert [status(each) for each in (first, second)] == [401, 200]
    now = time.monotonic()
    monkeypatch.setattr(access.time, "monotonic", lambda: now + limits.SESSION_S + 1)
    assert status(second) == 401
    monkeypatch.undo()
    assert status(third) == 200
    web.store.credentials.remove("read")
    assert status(third) == 401


def test_the_oldest_session_ends_where_there_are_too_many(guarded, monkeypatch):
    web, secrets = guarded
    monkeypatch.setattr(limits, "SESSIONS", 2)
    cookies = [cookie_of(sign_in(web, secrets["read"])) for _ in range(3)]
    answers = [web("GET", "/v1/collections", headers=each).status_code for each in cookies]
    assert answers == [401, 200, 200]


@pytest.mark.parametrize("text", ["", "x", "faintly-session=", "faintly-session=x; y", "a=\x80;;="])
def test_other_cookies_are_refused(guarded, refused, text):
    web, _ = guarded
    told = web("GET", "/v1/collections", headers={"cookie": text.encode("latin-1")})
    refused(told, 401, "NOT_AUTHORISED")


def test_activity_tells_what_arrives(make_web, plan, open_plan, body_of):
    web = make_web()
    web.create(plan, name="first")
    web.create(open_plan)
    web.send(plan, body_of(plan, 7))
    web.send(plan, b"nonsense")
    web("POST", f"/v1/collections/{'0' * 32}/reports?request={'0' * 32}", content=b"x")
    told = web("GET", "/v1/activity").json()
    first, second = sorted(told["collections"], key=lambda each: each["name"], reverse=True)
    assert (first["name"], first["reports"], first["pending"]) == ("first", 0, 7)
    assert (first["universe"], first["keys"], second["keys"]) == ("indexed", 64, None)
    assert len(first["hours"]) == HOURS
    assert sum(first["hours"][-2:]) == 7  # the hour may just have changed
    assert second["last_report"] is None
    assert not any(second["hours"])
    health = told["health"]
    assert health["refusals"] == {"BAD_REPORTS": 1, "OTHER": 1}
    assert health["last_seal"] is None
    assert health["pending"] == health["reports"] == 7
    assert 0 < health["disk_free"] <= health["disk_total"]
    assert health["waits"][-1] == [None, 3]
    web.store.seal()
    sealed = web("GET", "/v1/activity").json()
    assert sealed["health"]["last_seal"] % 60 == 0
    assert sealed["collections"][0]["reports"] + sealed["collections"][1]["reports"] == 7
    lines = web("GET", "/metrics").text
    assert "faintly_last_seal_timestamp_seconds" in lines
    assert "faintly_disk_free_bytes" in lines


def test_old_hours_are_forgotten(store, plan):
    arrivals = store.registry.create(plan).arrivals
    for hour in range(1000, 1100):
        arrivals.hours[hour] = hour
    assert arrivals.last_hours(1099) == list(range(1100 - HOURS, 1100))
    assert len(arrivals.hours) == HOURS


def test_the_anatomy_of_a_report(web, plan, open_plan):
    for each in (plan, open_plan):
        told = web("GET", f"{web.create(each)}/anatomy").json()
        bits = sum(field["count"] * field["bits"] for field in told["fields"])
        assert told["record_bytes"] == told["seed_bytes"] + (bits + 7) // 8
        assert told["header_bytes"] + told["checksum_bytes"] == 31
        assert told["epsilon"] <= each.budget.epsilon
        assert told["short"] in web("GET", "/v1/activity").text.encode().decode("unicode-escape")


def test_a_few_keys_by_their_address(web, plan, open_plan, body_of, refused):
    for each in (plan, open_plan):
        web.create(each)
        web.send(each, body_of(each, 20))
    web.store.seal()
    address = f"/v1/collections/{plan.digest.hex()}/estimates"
    asked = web("GET", f"{address}?key=3&key=5&level=0.9").json()
    assert asked == web("POST", address, json={"keys": [3, 5], "level": 0.9}).json()
    refused(web("GET", f"{address}?key=3&key=tea"), 422, "UNKNOWN_KEY")
    refused(web("GET", address), 422, "INVALID")
    refused(web("GET", address + "?" + "&".join(["key=1"] * 21)), 422, "INVALID")
    address = f"/v1/collections/{open_plan.digest.hex()}/estimates"
    texts = web("GET", f"{address}?key=3&key=%F0%9F%8E%89").json()  # texts, both of them
    assert texts == web("POST", address, json={"keys": ["3", "🎉"]}).json()
    listed = web("GET", f"/v1/collections/{open_plan.digest.hex()}/top")
    assert "POST /v1/collections/{digest}/top" in refused(listed, 422, "INVALID")["hint"]


def test_the_noise_floor_of_a_direct_plan(web, body_of):
    """The list of collections asks for it, for every plan, and names no key."""
    plan = samples.retrieval_plan(1000, 64, 8, "direct")
    address = web.create(plan)
    web.send(plan, body_of(plan, 20))
    web.store.seal()
    told = web("GET", f"{address}/noise-floor?keys=64").json()
    asked = web("POST", f"{address}/estimates", json={"keys": [1]}).json()
    assert told["noise_floor"] == pytest.approx(asked["noise_floor"])
    assert told["noise_floor_all"] > told["noise_floor"]


def test_answers_as_parquet(web, plan, body_of):
    web.create(plan)
    web.send(plan, body_of(plan, 20))
    web.store.seal()
    address = f"/v1/collections/{plan.digest.hex()}/top?count=5"
    told = web("GET", address, headers={"accept": "application/vnd.apache.parquet"})
    assert told.headers["content-type"] == "application/vnd.apache.parquet"
    table, answer = pyarrow.parquet.read_table(io.BytesIO(told.content)), web("GET", address).json()
    assert table.column("mean").to_pylist() == [row["mean"] for row in answer["estimates"]]
    rest = json.loads(table.schema.metadata[b"faintly"])
    assert rest == {name: each for name, each in answer.items() if name != "estimates"}


def test_every_metric_of_the_dashboard_exists(make_web, plan, body_of):
    web = make_web()
    web.create(plan)
    web.send(plan, body_of(plan, 3))
    web.send(plan, b"nonsense")
    web.store.seal()
    served = set(re.findall(r"^(\w+)", web("GET", "/metrics").text, re.MULTILINE))
    board = json.loads((Path(__file__).parents[4] / "packaging/grafana.json").read_text("utf-8"))
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"faintly_\w+", target["expr"])
    }
    assert len(asked) >= 12
    assert asked <= served
