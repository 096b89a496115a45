"""The OpenAPI document against a running collector: no 5xx, and every answer as declared.

A bounded run with a fixed seed, and two broken collectors that the same run must notice.
tests/README.md has the long one.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchmarks import samples
from faintly.core import Plan
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly_collector.storage.store import Store

pytestmark = pytest.mark.long
SERVE = "from faintly.cli import main; main()"
# What breaks a collector: one route that fails, and one that answers as nothing announces.
FAILS = """
from faintly_collector.storage.manifest import Manifest
def segments(*_): raise RuntimeError
Manifest.segments = segments
"""
UNDECLARED = """
from faintly_collector.http import routes_collections
reply = routes_collections.json_reply
routes_collections.json_reply = lambda document, *_: reply(document, 202)
"""
LEAST_CASES = 300  # a run that was stopped early, or asked little, shows nothing
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,unsupported_method"
)


@contextmanager
def serving(folder: Path, mutant: str = "") -> Iterator[str]:
    """Run a collector, which a mutant may break, and yield its address."""
    options = ["serve", "--port", "0", "--data", str(folder), "--json", "--log-level", "error"]
    command = [sys.executable, "-c", mutant + SERVE, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield json.loads(running.stdout.readline())["url"]
        finally:
            running.terminate()


def fill(url: str, plan: Plan, headers: dict[str, str]) -> None:
    """Create a collection with some sealed reports."""
    batch = next(iter(samples.batches(plan, 200, 200)))
    body = report_v1.encode_batch(batch, mechanism_of(plan).layout)
    address = f"{url}/v1/collections/{plan.digest.hex()}"
    for method, path, options in (
        ("POST", f"{url}/v1/collections", {"json": {"plan": plan.document()}}),
        ("POST", f"{address}/reports?request={os.urandom(16).hex()}", {"content": body}),
        ("POST", f"{address}/seal", {}),
    ):
        answer = httpx.request(method, path, headers=headers, timeout=60, **options)
        assert answer.is_success, answer.text


def settings(folder: Path, plan: Plan) -> Path:
    """Write settings under which every request names the collection that there is."""
    path = folder / "schemathesis.toml"
    path.write_text(f'[parameters]\n"path.digest" = "{plan.digest.hex()}"\n')
    return path


def fuzz(folder: Path, url: str, plan: Plan, *options: str) -> tuple[bool, int, str]:
    """Return whether schemathesis found nothing, how many cases it tried, and what it said.

    Everything is asked but to delete and to close, after which little else would be answered.
    The number of examples bounds the time: with a limit in seconds it would stop half-way on a
    slow machine, and fill the time on a quick one.
    """
    command = [sys.executable, "-m", "schemathesis.cli"]
    command += ["--config-file", str(settings(folder, plan)), "run"]
    command += [
        f"{url}/openapi.json",
        "--checks",
        CHECKS,
        "--seed",
        "1",
        "--max-examples",
        "5",
        "--phases",
        "coverage,fuzzing",
        "--generation-database",
        "none",
        "--exclude-method",
        "DELETE",
        "--exclude-path-regex",
        "/close$",
        *options,
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    cases = re.search(r"(\d+) generated", done.stdout)
    words = done.stdout[-6000:] + done.stderr[-2000:]
    return done.returncode == 0, int(cases[1]) if cases else 0, words


def finds_nothing(folder: Path, url: str, plan: Plan, *options: str) -> None:
    """Check that a whole run finds nothing."""
    passed, cases, words = fuzz(folder, url, plan, *options)
    assert passed, words
    assert cases >= LEAST_CASES, words


def test_open_to_this_machine(tmp_path: Path) -> None:
    plan = samples.one_cell_plan(1000, 64)  # its keys can be listed
    with serving(tmp_path / "data") as url:
        fill(url, plan, {})
        finds_nothing(tmp_path, url, plan)
        assert httpx.get(f"{url}/readyz", timeout=60).status_code == 200


def test_with_credentials(tmp_path: Path) -> None:
    plan = samples.open_plan(1000)  # any text is a key of it
    with Store.open(tmp_path / "data") as store:
        secrets = {role: store.credentials.add(role, role) for role in ("read", "admin")}
    with serving(tmp_path / "data") as url:
        fill(url, plan, {"authorization": f"Bearer {secrets['admin']}"})
        finds_nothing(tmp_path, url, plan, "-H", f"Authorization: Bearer {secrets['admin']}")
        finds_nothing(tmp_path, url, plan, "--phases", "coverage")  # and as a stranger
        assert httpx.get(f"{url}/readyz", timeout=60).status_code == 200
        assert httpx.get(f"{url}/v1/collections", timeout=60).status_code == 401


@pytest.mark.parametrize(
    ("mutant", "seen"),
    [(FAILS, "[500]"), (UNDECLARED, "Received: 202")],
    ids=["fails", "undeclared"],
)
def test_a_broken_route_is_noticed(tmp_path: Path, mutant: str, seen: str) -> None:
    plan = samples.one_cell_plan(1000, 64)
    with serving(tmp_path / "data", mutant) as url:
        fill(url, plan, {})
        only = ["--include-path-regex", "/segments$"]
        passed, cases, words = fuzz(tmp_path, url, plan, *only)
    assert cases, words
    assert not passed
    assert seen in words, words
