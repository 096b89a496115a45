"""The OpenAPI document against a running collector: no 5xx, and every answer as declared.

A bounded run with a fixed seed. A long one is
`schemathesis run URL/openapi.json --max-examples 2000` with `-H "Authorization: Bearer SECRET"`
where there are credentials.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from faintly.bench import samples
from faintly.collector.store import Store
from faintly.core import Plan
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1

pytestmark = pytest.mark.system
SERVE = [sys.executable, "-c", "from faintly.cli import main; main()", "serve", "--port", "0"]
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,unsupported_method"
)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run a collector and yield its address."""
    command = [*SERVE, "--data", str(folder), "--json", "--log-level", "error"]
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


def fuzz(folder: Path, url: str, plan: Plan, *options: str) -> None:
    """Run schemathesis over everything but deletion, which would end the fun."""
    command = [sys.executable, "-m", "schemathesis.cli"]
    command += ["--config-file", str(settings(folder, plan)), "run"]
    command += [
        f"{url}/openapi.json",
        "--checks",
        CHECKS,
        "--seed",
        "1",
        "--max-examples",
        "10",
        "--max-time",
        "20",  # whatever the machine; half of that serves on an idle one
        "--phases",
        "examples,coverage,fuzzing",
        "--generation-database",
        "none",
        "--exclude-method",
        "DELETE",
        *options,
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_open_to_this_machine(tmp_path: Path) -> None:
    plan = samples.one_cell_plan(1000, 64)  # its keys can be listed
    with serving(tmp_path / "data") as url:
        fill(url, plan, {})
        fuzz(tmp_path, url, plan)
        assert httpx.get(f"{url}/readyz").status_code == 200


def test_with_credentials(tmp_path: Path) -> None:
    plan = samples.open_plan(1000)  # any text is a key of it
    with Store.open(tmp_path / "data") as store:
        secrets = {role: store.add_credential(role, role) for role in ("read", "admin")}
    with serving(tmp_path / "data") as url:
        fill(url, plan, {"authorization": f"Bearer {secrets['admin']}"})
        fuzz(tmp_path, url, plan, "-H", f"Authorization: Bearer {secrets['admin']}")
        fuzz(tmp_path, url, plan)  # and as a stranger
        assert httpx.get(f"{url}/readyz").status_code == 200
        assert httpx.get(f"{url}/v1/collections").status_code == 401
