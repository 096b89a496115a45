"""Metrics, logs and settings."""

import io
import json
import logging
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from faintly.errors import InvalidInput
from faintly_collector.http import logs, routes_collections, routes_operations
from faintly_collector.http.settings import Settings, read_settings
from faintly_collector.storage.store import StoreLimits


def metrics(web) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict = {}
    for family in text_string_to_metric_families(web("GET", "/metrics").text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_metrics_tell_what_arrived_for_each_collection(web, plan, open_plan, body_of, refused):
    web.create(plan)
    web.create(open_plan)
    name, other = plan.digest.hex(), open_plan.digest.hex()
    before = metrics(web)
    assert before["faintly_collection_reports_total"] == {
        (("collection", each),): 0.0 for each in (name, other)
    }
    assert "faintly_collection_last_report_timestamp_seconds" not in before
    start = time.time()
    assert web.send(plan, body_of(plan, 3), "ab" * 16).status_code == 200
    assert web.send(plan, body_of(plan, 3), "ab" * 16).json()["status"] == "replayed"
    for _ in range(2):
        refused(web.send(plan, b"nonsense"), 400, "BAD_REPORTS")
    refused(web.send(plan, body_of(plan, 3), params={"epoch": 7}), 404, "UNKNOWN_EPOCH")
    refused(web.send(plan, body_of(plan, 2), "ab" * 16), 409, "REQUEST_REUSED")
    after = metrics(web)
    mine = ("collection", name)
    assert after["faintly_collection_requests_total"][(mine,)] == 1
    assert after["faintly_collection_reports_total"][(mine,)] == 3
    assert after["faintly_collection_reports_total"][(("collection", other),)] == 0
    assert after["faintly_collection_refusals_total"] == {
        (mine, ("reason", "BAD_REPORTS")): 2.0,
        (mine, ("reason", "REQUEST_REUSED")): 1.0,
        (mine, ("reason", "UNKNOWN_EPOCH")): 1.0,
    }
    (last,) = after["faintly_collection_last_report_timestamp_seconds"].values()
    assert last % 60 == 0  # no closer: it would be about a person
    assert start - 60 < last <= time.time()


def test_a_jump_of_the_clock_is_told(web, monkeypatch):
    assert web("GET", "/readyz").json() == {"status": "ready", "warnings": []}
    monkeypatch.setattr(web.store.registry.clock, "times", lambda: (86_500.0, 100.0))
    found = web("GET", "/readyz")
    assert found.status_code == 200  # reports are stored, and none is lost
    (warning,) = found.json()["warnings"]
    assert "the clock jumped by +86,400 s" in warning
    assert metrics(web)["faintly_clock_jump_seconds"] == {(): 86_400.0}


def test_metrics_count_what_happened(web, plan, body_of):
    address = web.create(plan)
    body = body_of(plan, 30)
    for _ in range(2):
        web.send(plan, body, "ab" * 16)
    web.send(plan, b"x")
    web.send(plan, body_of(plan, 4))
    before = metrics(web)
    assert before["faintly_inbox_reports"][()] == 34
    web("POST", f"{address}/seal")
    web("GET", "/secret-address")
    after = metrics(web)
    assert after["faintly_reports_total"][()] == 34
    assert after["faintly_submissions_total"][()] == 2
    assert after["faintly_replays_total"][()] == 1
    assert after["faintly_sealed_reports_total"][()] == 34
    assert after["faintly_inbox_reports"][()] == 0
    route = ("route", "/v1/collections/{digest}/reports")
    counted = after["faintly_http_requests_total"]
    assert counted[(("method", "POST"), route, ("status", "200"))] == 3
    assert counted[(("method", "POST"), route, ("status", "400"))] == 1
    assert counted[(("method", "GET"), ("route", "unmatched"), ("status", "404"))] == 1
    page = web("GET", "/metrics").text
    assert "secret-address" not in page


def no_space(*_):
    raise OSError(28, "No space left on device")


def test_it_is_not_ready_from_a_failed_commit_to_one_that_passes(
    web, plan, body_of, refused, monkeypatch
):
    web.create(plan)
    assert web("GET", "/readyz").status_code == 200
    body = body_of(plan, 1)
    assert web.send(plan, body, "ab" * 16).status_code == 200
    with monkeypatch.context() as patched:
        patched.setattr(web.store.database, "transaction", no_space)
        assert web.send(plan, body_of(plan, 1)).status_code == 503
    refused(web("GET", "/readyz"), 503, "CANNOT_STORE")
    assert web.send(plan, body, "ab" * 16).json()["status"] == "replayed"
    refused(web("GET", "/readyz"), 503, "CANNOT_STORE")
    assert web.send(plan, body_of(plan, 1)).status_code == 200
    assert web("GET", "/readyz").status_code == 200


def test_without_senders_the_disk_says_that_it_is_well(web, plan, body_of, refused, monkeypatch):
    web.create(plan)
    with monkeypatch.context() as patched:
        patched.setattr(web.store.database, "transaction", no_space)
        assert web.send(plan, body_of(plan, 1)).status_code == 503
    monkeypatch.setattr(routes_operations, "FAILED_S", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(routes_operations.os, "fsync", no_space)
        refused(web("GET", "/readyz"), 503, "CANNOT_STORE")
    assert web("GET", "/readyz").status_code == 200


def test_it_is_not_ready_while_the_inbox_is_full(make_web, plan, body_of, refused):
    body = body_of(plan, 100)
    web = make_web(StoreLimits(seal_s=1e9, inbox_bytes=len(body) - 40))
    web.store.maintenance.stop()  # which would seal at once
    web.create(plan)
    assert web("GET", "/readyz").status_code == 200
    assert web.send(plan, body).status_code == 200
    refused(web("GET", "/readyz"), 503, "CANNOT_STORE")
    web.store.seal()
    assert web("GET", "/readyz").status_code == 200


@pytest.fixture
def lines():
    """Configure logs as the process does, and return what was written since."""
    root, stream = logging.getLogger(), io.StringIO()
    before = root.handlers, root.level
    logs.configure("info", stream)
    logging.getLogger("httpx").setLevel("ERROR")  # it is the one who calls, and tells all
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers, root.level = before


def test_a_log_line_has_the_route_and_nothing_of_the_request(
    lines, make_web, plan, body_of, monkeypatch
):
    web = make_web()
    secret = web.store.credentials.add("admin", "someone")
    headers = {"authorization": f"Bearer {secret}", "faintly-token": "tok" * 9}
    body = {"plan": plan.document(), "name": "hidden-name"}
    web("POST", "/v1/collections", json=body, headers=headers)
    web("POST", f"/v1/collections/{plan.digest.hex()}/seal", headers=headers)
    web("GET", "/v1/collections?q=hidden-query", headers=headers)

    def fail(_: object) -> None:
        raise RuntimeError("hidden-name")

    monkeypatch.setattr(routes_collections, "status_of", fail)
    web("GET", "/v1/collections", headers=headers)
    written = lines()
    statuses = [line["status"] for line in written if line["event"] == "request"]
    assert statuses == [201, 200, 422, 500]
    first = written[0]
    assert (first["method"], first["route"]) == ("POST", "/v1/collections")
    assert first["bytes"] == len(json.dumps(body, separators=(",", ":"), ensure_ascii=False))
    assert first["ms"] > 0
    (failure,) = [line for line in written if line["event"] == "unexpected"]
    assert failure["error"] == "RuntimeError"
    assert any("fail" in place for place in failure["at"])
    text = json.dumps(written)
    for hidden in (secret, "tok", "hidden-query", "hidden-name", plan.digest.hex(), "127.0.0.1"):
        assert hidden not in text


def test_a_librarys_exception_is_logged_without_its_message(lines):
    try:
        raise ValueError("hidden")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    (line,) = lines()
    assert line["error"] == "ValueError"
    assert "hidden" not in json.dumps(line)


def test_flags_win_over_variables_over_the_file(tmp_path: Path, monkeypatch):
    file = tmp_path / "faintly.toml"
    file.write_text('data = "there"\nport = 1\nhost = "::1"\nseal_s = 5\ncors = ["https://a.b"]\n')
    monkeypatch.setenv("FAINTLY_SERVE_PORT", "2")
    monkeypatch.setenv("FAINTLY_SERVE_HOST", "localhost")
    monkeypatch.setenv("FAINTLY_SERVE_CORS", "https://c.d, http://e.f:1")
    made = read_settings(file, port=3, host=None)
    assert (made.port, made.host, made.seal_s) == (3, "localhost", 5.0)
    assert (made.data, made.cors) == (Path("there"), ("https://c.d", "http://e.f:1"))
    monkeypatch.delenv("FAINTLY_SERVE_CORS")
    assert read_settings(file).cors == ("https://a.b",)


def test_a_misspelt_variable_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("faintly_serve_port", "2")
    monkeypatch.setenv("FAINTLY_SERVER", "not ours")
    assert read_settings(None, data=tmp_path).port == 2
    monkeypatch.setenv("FAINTLY_SERVE_SEALS", "5")
    with pytest.raises(InvalidInput, match="FAINTLY_SERVE_SEALS"):
        read_settings(None, data=tmp_path)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("https://App.Example:443", "https://app.example"),
        ("HTTP://a.b:80", "http://a.b"),
        ("http://a.b:443", "http://a.b:443"),
        ("https://a.b:1443", "https://a.b:1443"),
        ("https://[2001:DB8::1]:443", "https://[2001:db8::1]"),
    ],
)
def test_origins_are_taken_as_browsers_send_them(tmp_path: Path, written: str, sent: str):
    assert read_settings(None, data=tmp_path, cors=(written,)).cors == (sent,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = 70000", "port"),
        ("colour = 1", "colour"),
        ("port =", "TOML"),
        ('cors = ["*"]', "origin"),
        ('cors = ["https://a.b/"]', "origin"),
        ('cors = ["https://a.b:"]', "origin"),
        ('cors = ["https://me@a.b"]', "origin"),
        ('cors = ["https://b\\u00fccher.example"]', "origin"),
        ('tls_cert = "x"', "tls"),
        ('log_level = "loud"', "log_level"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, text: str, words: str):
    file = tmp_path / "faintly.toml"
    file.write_text(f'data = "d"\n{text}\n')
    with pytest.raises(InvalidInput, match=words):
        read_settings(file)


def test_what_is_missing_is_named(tmp_path: Path):
    with pytest.raises(InvalidInput, match="--data"):
        read_settings(None)
    with pytest.raises(InvalidInput, match="no file"):
        read_settings(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("host", "proxy", "exposed"),
    [
        ("127.0.0.1", False, False),
        ("127.8.8.8", False, False),
        ("::1", False, False),
        ("localhost", False, False),
        ("127.0.0.1", True, True),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("", False, True),
        ("example.org", False, True),
        ("10.0.0.1", False, True),
    ],
)
def test_which_addresses_are_exposed(host, proxy, exposed):
    assert Settings(data=Path("d"), host=host, proxy=proxy).exposed is exposed


def test_the_log_is_measured(web, plan, body_of):
    """Whenever nothing is pending the log is emptied, which may just happen beside a report."""
    web.create(plan)

    def measured():
        web.send(plan, body_of(plan, 50))
        lines = web("GET", "/metrics").text.splitlines()
        (line,) = [line for line in lines if line.startswith("faintly_log_bytes ")]
        return float(line.split()[1])

    assert any(measured() > 0 for _ in range(3))
