"""A real page in Chromium and a real collector: no report is lost, and none is counted twice."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from faintly.planner import make_plan
from tests.javascript import CLIENT, node

REPORTS = 500
PAGE = CLIENT.parents[1] / "docs" / "how-to" / "javascript.md"
EXAMPLE = CLIENT.parents[1] / "examples" / "web"
LIMIT = 5.5  # standard errors: one estimate is this far off once in 26 million runs
LEFT_OUT = "left out, no Chromium or playwright-core: run scripts/install_js.sh"


def chromium() -> str:
    """Return the browser, or leave the test out; where FAINTLY_NEED_JS is set, as in CI, fail."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found and (CLIENT / "node_modules" / "playwright-core").is_dir():
        return found
    if os.environ.get("FAINTLY_NEED_JS"):
        pytest.fail(LEFT_OUT)
    pytest.skip(LEFT_OUT)


def run(program: str, *arguments: str) -> dict:
    done = subprocess.run(
        [node(), str(CLIENT / "test" / program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "CHROMIUM": chromium()},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def page(tmp_path: Path, collector):
    """Return a collector that serves the client's bundles as a page."""
    folder = tmp_path / "page"
    folder.mkdir()
    for bundle in (CLIENT / "dist").glob("*.js"):
        shutil.copy(bundle, folder)
    (folder / "index.html").write_text("<!doctype html><title>page</title>")
    scripts = "".join(
        f'<script src="{name}.min.js"></script>'
        for name in ("faintly", "faintly-sender", "faintly-retrieval-gf")
    )
    (folder / "script.html").write_text(f"<!doctype html><title>page</title>{scripts}")
    return collector(tmp_path / "page-data", demo=json.dumps(str(folder))).start()


@pytest.mark.long
def test_500_reports_from_a_page_arrive_once_each(collector, page, tmp_path):
    plan = make_plan(
        protect="event", epsilon=1.0, sparsity=16, clients=500, universe=64, mechanism="retrieval"
    )
    serving = collector(tmp_path / "collected", cors=json.dumps([page.url])).start()
    with httpx.Client(base_url=serving.url, timeout=60) as web:
        made = web.post("/v1/collections", json={"plan": plan.document(), "epochs": [0, 9]})
        assert made.status_code == 201, made.text
        where = f"/v1/collections/{plan.digest.hex()}"
        seen = run("browser.mjs", page.url, serving.url, plan.digest.hex())
        unreachable = "UNREACHABLE"
        assert seen["failures"] == [
            *(None, None),  # two pages at once
            *(unreachable, None),  # without a network, and after a reload
            *(unreachable, unreachable, None),  # answers that are lost
            None,  # what pages left behind
        ]
        assert seen["pending"] == [0, 130, 0]
        assert seen["spent"] == [{"reports": 1, "epsilon": 1}] * 2
        assert seen["script"] == ["function", True]
        assert seen["full"] == [
            [["LedgerFailed", "cannot write the ledger: QuotaExceededError"], [0, 0], 0],
            [None, [1, 0], 1],
        ]
        assert all(blocked < 16 for _, blocked in seen["blocked_ms"]), seen["blocked_ms"]
        assert all(max(parts) < 16 for _, *parts in seen["first_ms"]), seen["first_ms"]
        web.post(f"{where}/seal")
        status = web.get(where).json()
        assert status["reports"] + status["pending"] == REPORTS
        assert 'method="OPTIONS"' not in web.get("/metrics").text  # there was no preflight
        answer = web.post(f"{where}/estimates", json={"keys": [0, 1, 2, 3], "epoch": 0}).json()
    assert answer["reports"] == REPORTS
    for estimate, truth in zip(answer["estimates"], (1.0, 1.0, 0.5, 0.0), strict=True):
        assert abs(estimate["mean"] - truth) < LIMIT * estimate["stderr"], answer


def test_the_code_for_node_on_the_page_sends_a_report(collector, faintly, tmp_path):
    plan = make_plan(
        protect="event", epsilon=1.0, sparsity=16, clients=500, universe="open", values="set"
    )
    digest = plan.digest.hex()
    (tmp_path / "plan.json").write_text(plan.to_json())
    serving = collector().start()
    page = PAGE.read_text("utf-8").replace("https://collect.example", serving.url)
    page = page.replace("00112233445566778899aabbccddeeff", digest)
    command = re.search(r"^\$ faintly (collection create .*)$", page, re.MULTILINE)
    code = re.search(r"^## In Node\n+```js\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert command
    assert code
    faintly(*shlex.split(command[1]))
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "faintly").symlink_to(CLIENT)
    (tmp_path / "quickstart.mjs").write_text(code[1])
    done = subprocess.run(
        [node(), "quickstart.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    status = httpx.get(f"{serving.url}/v1/collections/{digest}", timeout=60).json()
    assert status["reports"] + status["pending"] == 1


@pytest.mark.long
def test_the_example_page_works_without_a_network(collector):
    serving = collector(demo=json.dumps(str(EXAMPLE))).start()
    seen = run("example.mjs", serving.url)
    assert seen["errors"] == []
    assert seen["names"] == len(seen["vector"]) == 24
    assert seen["bars"] == [24, 24]
    assert seen["before"] != seen["after"]  # other noise, without a network
    assert {*seen["lengths"], seen["reloaded"]} == {2 * 39}
    assert seen["vector"] == "1" * 24
    assert seen["width"] == 360
    assert {request.split()[0] for request in seen["requests"]} == {"GET"}  # nothing is sent
