"""The page: how soon a first view is there, and what it costs senders.

python -m benchmarks.page [--before CLONE] [--json FILE]

First views are measured in Chromium with an empty cache: 200 collections, and a top list of 10,000
keys. Senders then take turns at two collectors, of which one is watched on its page; with
`--before`, also at this collector and at that of another clone.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import document
from benchmarks.collector import SINGLE_CONNECTIONS, bodies, create, path_of, process, send
from benchmarks.result import Row
from benchmarks.script import finish, options, started
from faintly.core import Plan
from faintly.planner import make_plan
from faintly_collector.storage.inbox import Outcome
from faintly_collector.storage.store import Store

HERE = Path(__file__).resolve().parents[1]
COLLECTIONS, KEYS, REPORTS = 200, 10_000, 100_000
FIRST_S = 1.0  # target of a first view
WATCH_S = 2.0  # how often an open page asks
ROUNDS, SECONDS = 5, 4.0
NOISE = 0.9  # turns of one collector differ by as much


def plan_of(number: int, size: int = 64) -> Plan:
    """Return one of many small plans."""
    return make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=4,
        clients=REPORTS + number,
        universe=size,
        values="set",
        mechanism="retrieval",
    )


@contextmanager
def serving(folder: str, clone: Path = HERE) -> Iterator[int]:
    """Run a collector of a clone on a folder, and yield its port."""
    start = f"import sys; sys.path.insert(0, {str(clone / 'src')!r})"
    code = f"{start}; from faintly.cli import main; main()"
    given = ("serve", "--data", folder, "--port", "0", "--json", "--log-level", "warning")
    with process(sys.executable, "-c", code, *given) as (line, _):
        yield json.loads(line)["port"]


def view_rows() -> Iterator[Row]:
    """Yield how soon the first views are there."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no Chromium; run scripts/install_js.sh")
    with tempfile.TemporaryDirectory() as folder:
        large = plan_of(0, KEYS)
        with Store.open(Path(folder)) as store:
            store.registry.create(large, name="large")
            for body in bodies(large, REPORTS // 16):
                request, stored = os.urandom(16), Future[Outcome]()
                store.take(large.digest, 0, request, bytes.fromhex(body), waiter=stored)
                stored.result()
            for number in range(1, COLLECTIONS):
                store.registry.create(plan_of(number), name=f"collection {number}")
        with serving(folder) as port:
            base = f"http://127.0.0.1:{port}/"
            program = ["node", str(HERE / "page/test/many.mjs"), base, large.digest.hex(), "7"]
            done = subprocess.run(
                program,
                env=os.environ | {"CHROMIUM": chromium},
                stdout=subprocess.PIPE,
                check=True,
            )
    seen = json.loads(done.stdout)
    for name, what, took in (
        ("page-list", f"first view of {COLLECTIONS} collections", seen["list_s"]),
        ("page-top", f"first view of a top list of {KEYS:,} keys", seen["top_s"]),
    ):
        yield Row(
            name=name,
            what=what,
            ours=took,
            unit="s",
            target=f"≤ {FIRST_S:g} s",
            met=took <= FIRST_S,
            note="until rows are there, in a browser with an empty cache; medians of seven",
        )


@contextmanager
def watched(port: int, plan: Plan) -> Iterator[None]:
    """Ask a collector what an open page asks."""
    done = threading.Event()

    def watch() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while not done.wait(WATCH_S):
            for path in ("/v1/activity", path_of(plan).removesuffix("/reports")):
                connection.request("GET", path)
                connection.getresponse().read()

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    done.set()
    thread.join()


def sending_row(name: str, what: str, ports: tuple[int, int], plan: Plan, note: str) -> Row:
    """Return single reports a second of two collectors that take turns."""
    made = bodies(plan, 1)
    job: dict[str, Any] = {"connections": SINGLE_CONNECTIONS, "seconds": SECONDS}
    rates: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        for side in (0, 1) if turn % 2 else (1, 0):
            seen = send(ports[side], path_of(plan), made, **job)
            rates[side].append(seen["good"] / seen["seconds"])
    ours, theirs = map(median, rates)
    ratio = float(np.median(np.array(rates[0]) / np.array(rates[1])))  # of turns side by side
    return Row(
        name=name,
        what=what,
        ours=ours,
        theirs=theirs,
        unit="/s",
        ratio=ratio,
        target=f"≥ {NOISE}x",
        met=ratio >= NOISE,
        note=note,
    )


def sending_rows(before: Path | None) -> Iterator[Row]:
    """Yield what senders lose to a page that is open, and to one that exists at all."""
    plan = plan_of(0)
    pairs = [("page-open", "single reports while the page is open", HERE)]
    if before is not None:
        pairs.append(("page-before", "single reports, against another clone", before.resolve()))
    for name, what, clone in pairs:
        with (
            tempfile.TemporaryDirectory() as first,
            tempfile.TemporaryDirectory() as second,
            serving(first) as port,
            serving(second, clone) as other,
        ):
            create(port, plan)
            create(other, plan)
            if clone is HERE:
                with watched(port, plan):
                    yield sending_row(name, what, (port, other), plan, "theirs: nobody watches")
            else:
                yield sending_row(name, what, (port, other), plan, "theirs: the other clone")


def main() -> None:
    """Measure, print a table, save it."""
    parser = options("The page of a collector")
    parser.add_argument("--before", type=Path, metavar="CLONE", help="also compare sending with it")
    chosen = parser.parse_args()
    started("first views")
    rows = list(view_rows())
    started("sending")
    rows += sending_rows(chosen.before)
    finish("The page of a collector", document(rows), chosen.json)


if __name__ == "__main__":
    main()
