"""The page in a real browser, before a real collector: it shows what the interface answers."""

import csv
import json
import math
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet
import pytest

from tests.javascript import node
from tests.system import pages

PAGE = Path(__file__).parents[2] / "page"
LEFT_OUT = "left out, no Chromium or playwright-core: run scripts/install_js.sh"
PICTURE = b"\x89PNG\r\n"
SLOWEST_S = 60.0  # of a first view, however busy the machine; the benchmark has the real number


def run(program: str, *arguments: object) -> Any:
    """Return what a program of page/test saw; where FAINTLY_NEED_JS is set it must run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium or not (PAGE / "node_modules" / "playwright-core").is_dir():
        if os.environ.get("FAINTLY_NEED_JS"):
            pytest.fail(LEFT_OUT)
        pytest.skip(LEFT_OUT)
    command = [node(), str(PAGE / "test" / program), *map(str, arguments)]
    environment = {**os.environ, "CHROMIUM": chromium}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def below() -> Iterator[Any]:
    """Return a function that serves a collector below a path, as a proxy does."""
    servers: list[ThreadingHTTPServer] = []

    def serve(upstream: str, path: str) -> str:
        client = httpx.Client(base_url=upstream, timeout=300)

        class Forward(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                if not self.path.startswith(path):
                    self.send_error(404)
                    return
                length = int(self.headers.get("content-length", 0))
                # The proxy's own name is not passed on: the collector sees another host.
                headers = {name.lower(): each for name, each in self.headers.items()}
                del headers["host"]
                answer = client.request(
                    self.command,
                    "/" + self.path[len(path) :],
                    headers=headers | {"accept-encoding": "identity"},
                    content=self.rfile.read(length),
                )
                self.send_response(answer.status_code)
                for name, each in answer.headers.multi_items():
                    if name not in {"content-length", "connection", "transfer-encoding"}:
                        self.send_header(name, each)
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = do_DELETE = forward  # noqa: N815  as the base class calls them

            def log_message(self, *_: object) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Forward))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}{path}"

    yield serve
    for each in servers:
        each.shutdown()
        each.server_close()


def close(shown: list[float], *wanted: float) -> bool:
    return all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(shown, wanted, strict=True))


def check_rows(shown: list[dict[str, Any]], answer: dict[str, Any], posterior: bool) -> None:
    """Check the numbers of rows, and that lines and shades stand where these numbers are."""
    rows, floor = answer["estimates"], answer["noise_floor_all"]
    assert [each["key"] for each in shown] == [str(row["key"]) for row in rows]
    low = min([-floor, *(row["low"] for row in rows)])
    high = max([floor, *(row["high"] for row in rows)])

    def at(value: float) -> float:
        return 100 * (value - low) / (high - low)

    for each, row in zip(shown, rows, strict=True):
        plain = each["behind"] if posterior else each["front"]
        assert close(plain, row["mean"], row["low"], row["high"])
        assert close(each["lines"]["back"], at(row["low"]), at(row["high"]))
        assert close(each["floor"], at(-floor), at(floor) - at(-floor))
        if posterior:
            names = ("posterior_mean", "posterior_low", "posterior_high")
            assert close(each["front"], *(row[name] for name in names))
            ends = (row["posterior_low"], row["posterior_high"])
            assert close(each["lines"]["front"], *map(at, ends))


@pytest.mark.long
def test_the_page_shows_what_the_interface_answers(collector, below, tmp_path):
    serving = collector(seal_s=3600).start()
    with httpx.Client(base_url=serving.url, timeout=300) as web:
        plan, hostile = pages.fill_packages(web), pages.fill_hostile(web)
        digest = plan.digest.hex()
        where = f"/v1/collections/{digest}"
        top = web.get(f"{where}/top", params={"count": 20, "posterior": "true"}).json()
        asked = {"keys": ["lodash", "react"]}
        keys = web.post(f"{where}/estimates", json=asked).json()
        few = web.post(
            f"{where}/top", json={"candidates": ["lodash", "react", "express"], "posterior": True}
        ).json()
        base = below(serving.url, "/below/a/path/")
        seen = run("page.mjs", base, digest, hostile.digest.hex(), tmp_path)
    assert seen["errors"] == []
    assert seen["hosts"] == [base.split("/")[2]]
    assert sorted(seen["list"]) == sorted([pages.HOSTILE[0], "npm packages"])
    assert seen["counted"] == "60,000"
    check_rows(seen["top"], top, posterior=True)
    assert seen["threshold"] == top["threshold"]
    check_rows(seen["compared"], keys, posterior=False)
    assert seen["sent"] == seen["compared"]
    check_rows(seen["candidates"], few, posterior="posterior" in few)
    assert seen["history"].startswith("2 keys over 6 epochs")
    odds = math.exp(2.0)
    assert close(seen["belief"], 0.2 / (0.2 + 0.8 * odds), 0.2 * odds / (0.2 * odds + 0.8))
    made = bytes.fromhex(seen["bytes"].replace(" ", ""))
    assert made[5:21] == plan.digest
    with httpx.Client(base_url=serving.url) as web:  # even the example is a valid report
        sent = web.post(f"{where}/reports", params={"request": os.urandom(16).hex()}, content=made)
        assert sent.json() == {"status": "counted", "reports": 1}
    told = {"Reports a second", "p99 of sending", "Queue", "To be sealed", "Last seal", "Disk free"}
    assert set(seen["health"]) == told
    assert "Every error is {code, message, hint}" in seen["docs"]
    assert "`" not in seen["docs"]
    assert "shows nothing" in seen["nowhere"]
    assert "UNKNOWN_COLLECTION" in seen["missing"]
    assert "UNKNOWN_KEY" in seen["unknown"]
    assert "does not answer" in seen["offline"]
    assert seen["phone"] == {"width": 360, "background": "rgb(17, 21, 28)"}
    assert set(seen["axe"]) == {"list", "collection", "plan", "health", "phone"}
    assert not any(seen["axe"].values()), seen["axe"]
    check_files([Path(each) for each in seen["saved"]], top, keys)
    assert seen["hostile"]["title"] == pages.HOSTILE[0]
    for name in ("list", "collection", "compare", "plan", "phone"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PICTURE)


def check_files(saved: list[Path], top: dict[str, Any], keys: dict[str, Any]) -> None:
    table, parquet, picture, compared = saved
    rows = list(csv.DictReader(table.open(encoding="utf-8", newline="")))
    assert [row["key"] for row in rows] == [row["key"] for row in top["estimates"]]
    for row, wanted in zip(rows, top["estimates"], strict=True):
        assert {name: str(wanted[name]) for name in ("mean", "low", "posterior_mean")}.items() <= (
            row.items()
        )
    kept = pyarrow.parquet.read_table(parquet).to_pylist()
    assert [row["mean"] for row in kept] == [row["mean"] for row in top["estimates"]]
    assert picture.read_bytes().startswith(PICTURE)
    assert pyarrow.parquet.read_table(compared).column("key").to_pylist() == ["lodash", "react"]
    assert (
        json.loads(pyarrow.parquet.read_schema(compared).metadata[b"faintly"])["epoch"]
        == (keys["epoch"])
    )


@pytest.mark.long
def test_hostile_keys_are_text(collector, tmp_path):
    serving = collector().start()
    with httpx.Client(base_url=serving.url, timeout=300) as web:
        plan = pages.fill_hostile(web)
        keys = tmp_path / "keys.json"
        keys.write_text(json.dumps(pages.HOSTILE))
        seen = run("hostile.mjs", f"{serving.url}/", plan.digest.hex(), keys)
        lines = [each for each in pages.HOSTILE if "\n" not in each]
        asked = {"candidates": lines, "count": 20}
        top = web.post(f"/v1/collections/{plan.digest.hex()}/top", json=asked).json()
    assert seen["errors"] == []
    assert seen["dialogs"] == 0
    assert seen["added"] == {"img": 0, "script": 1}  # that of the page
    assert sorted(seen["keys"]) == sorted(lines)
    check_rows(seen["rows"], top, posterior=False)
    assert seen["width"] <= 1100
    shown = "\n".join(seen["shown"])
    assert pages.HOSTILE[0] in shown
    assert "\\u202egnp.exe\\u202c" in shown
    assert "(10,240 characters)" in shown
    assert "tab\\u0009here, bell\\u0007, null\\u0000, line\\u000afeed" in shown
    assert "\u202e" not in shown
    assert "share" in seen["collisions"]


@pytest.mark.long
def test_signing_in_and_reports_that_arrive(collector, faintly, tmp_path):
    serving = collector(seal_s=3600)
    secrets = {}
    for role in ("admin", "read", "submit"):
        command = ["credential", "add", role, "--role", role, "--data", serving.folder, "--json"]
        secrets[role] = faintly(*command).json["secret"]
    serving.start()
    plan = pages.small_plan(0)
    bearers = {role: {"authorization": f"Bearer {secret}"} for role, secret in secrets.items()}
    with httpx.Client(base_url=serving.url, timeout=300) as web:
        web.headers = bearers["admin"]
        pages.create(web, plan, "live")
        body = tmp_path / "body"
        body.write_bytes(pages.batch(plan, [[person % 4] for person in range(300)]))
        seen = run(
            "live.mjs",
            f"{serving.url}/",
            plan.digest.hex(),
            body,
            *(secrets[role] for role in ("submit", "read", "admin")),
        )
    assert seen["wrong"].startswith("There is no such credential")
    assert "to read" in seen["submit"]
    assert seen["empty"] == "No report yet."
    assert seen["first"] == "The first reports have arrived."
    assert seen["pending"] == "300"
    assert seen["sealed"] == "300"
    assert seen["readable"] == {"cookie": "", "stored": 0}
    (cookie,) = seen["cookies"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert secrets["read"] not in json.dumps(cookie)
    assert seen["statuses"] == {"delete": 401, "seal": 401, "foreign": 401, "list": 200, "out": 401}
    assert seen["form"] == 1
    # Besides what the test provokes: refusals, before and after.
    assert all("status of 40" in each for each in seen["errors"])


@pytest.mark.long
def test_many_collections_and_keys_stay_usable(collector, tmp_path):
    serving = collector().start()
    with httpx.Client(base_url=serving.url, timeout=300) as web:
        big = pages.small_plan(0, 10_000)
        pages.create(web, big, "ten thousand keys")
        pages.send(web, big, [[person % 100] for person in range(2_000)])
        web.post(f"/v1/collections/{big.digest.hex()}/seal")
        for number in range(1, 200):
            pages.create(web, pages.small_plan(number), f"collection {number}")
        seen = run("many.mjs", f"{serving.url}/", big.digest.hex())
    assert seen["collections"] == 200
    assert seen["rows"] == {"first": 100, "all": 10_000}
    assert max(seen["list_s"], seen["top_s"]) < SLOWEST_S
