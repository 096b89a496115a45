"""Reports over HTTP: one collector and one sender on the same cores, every answer durable.

python -m benchmarks.collector [--quick] [--json FILE]

It alternates with a bare handler under stock uvicorn that reads the body and answers 200. The
last row says how much time other guests of the host took from the cores.
"""

import http.client
import json
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import document
from benchmarks.result import Row
from benchmarks.script import finish, options, started
from faintly.core import Plan, ReportBatch, Universe
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.wire import report_v1

HERE = Path(__file__).resolve().parent
SHARE = 0.45  # target for single reports, as a share of the bare handler's rate
BATCHED = 4_000_000  # target for batches, in reports a second
BATCH = 10_000
BATCH_LOAD = BATCHED / 2  # for latency, in reports a second; singles have half of their own rate
WAIT_S = 0.1  # target for the 99th percentile of latency
BODIES = 16  # different ones, sent in rotation
WARM, LONG = 10_000_000, 50_000_000  # reports before and while memory is watched
GROWTH_MIB = 64  # growth of a process of some hundred MiB that still counts as flat
ASKED_KEYS, REFUSED_BYTES = 100_000, 5 << 20  # of queries during sending
LEAST, MOST = 1 / 3, 10.0  # targets during queries: share of the rate kept, multiple of the latency
# A connection has one request at a time, and requests share a commit: the disk bounds few of them.
SINGLE_CONNECTIONS, BATCH_CONNECTIONS = 512, 16


def bodies(plan: Plan, reports: int) -> list[str]:
    """Return batches of random reports in hexadecimal."""
    layout = mechanism_of(plan).layout
    rng = np.random.default_rng(1)
    made = []
    for _ in range(BODIES):
        fields = [rng.integers(0, limit, reports, dtype=np.uint32) for limit in layout.limits]
        seeds = rng.integers(0, 256**layout.seed_bytes, reports, dtype=np.uint64)
        batch = ReportBatch(plan.digest, seeds, np.stack(fields, axis=1))
        made.append(report_v1.encode_batch(batch, layout).hex())
    return made


def path_of(plan: Plan) -> str:
    """Return where the plan's reports go."""
    return f"/v1/collections/{plan.digest.hex()}/reports"


def send(port: int, path: str, bodies: list[str], **job: Any) -> dict[str, Any]:
    """Return what the sender saw."""
    told = {"rate": None, "port": port, "path": path, "bodies": bodies} | job
    done = subprocess.run(
        [sys.executable, HERE / "sender.py"],
        input=json.dumps(told),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seen: dict[str, Any] = json.loads(done.stdout)
    if seen["others"]:
        raise SystemExit(f"answers other than 200: {seen['others']}")
    return seen


@contextmanager
def process(*command: object) -> Iterator[tuple[str, int]]:
    """Run a server, and yield the line that it prints once it listens, and its process id."""
    running = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        yield running.stdout.readline(), running.pid
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()


@contextmanager
def collector(plan: Plan) -> Iterator[tuple[int, int]]:
    """Run a collector of one plan in a temporary folder, and yield its port and process id."""
    with tempfile.TemporaryDirectory() as folder:
        serve = "from faintly.cli import main; main()", "serve", "--data", folder, "--port", "0"
        command = (sys.executable, "-c", *serve, "--json", "--log-level", "warning")
        with process(*command) as (line, number):
            port = json.loads(line)["port"]
            create(port, plan)
            yield port, number


def create(port: int, plan: Plan) -> None:
    """Create the collection."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    text = json.dumps({"plan": plan.document()})
    connection.request("POST", "/v1/collections", text, {"content-type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 201:
        raise SystemExit(f"creating the collection: {answer.read().decode()}")


class Turns:
    """Collector and bare handler, sent the same reports alternately."""

    def __init__(self, ports: tuple[int, int], plan: Plan, reports: int) -> None:
        self._ports, self._path, self._reports = ports, path_of(plan), reports
        self._bodies = bodies(plan, reports)
        self._connections = SINGLE_CONNECTIONS if reports == 1 else BATCH_CONNECTIONS

    def take(self, rounds: int, **job: Any) -> tuple[list[dict[str, Any]], ...]:
        """Return what the sender saw of each in every round."""
        seen: tuple[list[dict[str, Any]], ...] = ([], [])
        for _ in range(rounds):
            for port, into in zip(self._ports, seen, strict=True):
                into.append(
                    send(port, self._path, self._bodies, connections=self._connections, **job)
                )
        return seen

    def rate_row(
        self,
        name: str,
        what: str,
        rounds: int,
        seconds: float,
        *,
        rate: float | None = None,
        share: float | None = None,
    ) -> Row:
        """Return reports a second, as fast as they are answered; `rate` or `share` is wanted."""
        seen = self.take(rounds, seconds=seconds)
        ours, theirs = (
            median(each["good"] * self._reports / each["seconds"] for each in every)
            for every in seen
        )
        return Row(
            name=name,
            what=what,
            ours=ours,
            theirs=theirs,
            unit="/s",
            ratio=ours / theirs,
            target=f"≥ {share}x" if rate is None else f"≥ {rate:,.0f}/s",
            met=ours >= (rate or 0.0) and ours / theirs >= (share or 0.0),
            note="theirs: a bare ASGI handler under stock uvicorn that reads the body and "
            "answers; medians of turns; a sender on the same cores; no two heads are alike",
        )

    def wait_row(self, name: str, rate: float, rounds: int, seconds: float) -> Row:
        """Return the 99th percentile of latency at a rate, counted from when a request was due."""
        seen = self.take(rounds, rate=rate / self._reports, seconds=seconds)
        ours, theirs = ([each["p99"] for each in every] for every in seen)
        return Row(
            name=name,
            what=f"99 % of these wait at most, at {rate:,.0f}/s",
            ours=median(ours),
            theirs=median(theirs),
            unit="s",
            ratio=median(ours) / median(theirs),
            target=f"≤ {WAIT_S:g} s",
            met=median(ours) <= WAIT_S,
            note=f"worst turn {max(ours):.3f} s, and {max(theirs):.3f} s for the bare handler",
        )


def steady_rows(port: int, number: int, plan: Plan) -> Iterator[Row]:
    """Yield how memory and the inbox grow while many reports arrive at the target rate."""
    sent = bodies(plan, BATCH)
    job: dict[str, Any] = {"connections": BATCH_CONNECTIONS, "rate": BATCHED / BATCH}
    send(port, path_of(plan), sent, seconds=WARM / BATCHED, **job)
    before = memory(number)
    done = threading.Event()
    peaks = [before]
    watcher = threading.Thread(target=watch, args=(number, peaks, done))
    watcher.start()
    seen = send(port, path_of(plan), sent, seconds=LONG / BATCHED, **job)
    waiting = pending(port, plan)
    done.set()
    watcher.join()
    grown = max(peaks) - before
    taken = seen["good"] * BATCH
    yield Row(
        name="collector-memory",
        what=f"growth of memory over {taken / 1e6:.0f} million reports at {BATCHED / 1e6:g} M/s",
        ours=grown,
        unit="MiB",
        target=f"≤ {GROWTH_MIB} MiB",
        met=grown <= GROWTH_MIB and taken >= 0.95 * LONG,
        note=f"from {before:.0f} MiB after the {WARM / 1e6:.0f} million before them",
    )
    yield Row(
        name="collector-pending",
        what="of these not sealed yet when the last one was answered",
        ours=waiting,
        unit="reports",
        target=f"≤ {LONG // 10:,}",
        met=waiting <= LONG // 10,
    )


@contextmanager
def askers(port: int, path: str, body: str, loops: int) -> Iterator[dict[str, int]]:
    """Run loops of queries; yields, after the first answer, a dictionary of answers by status."""
    with subprocess.Popen(
        [sys.executable, HERE / "asker.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None and running.stdout is not None
        job = {"port": port, "path": path, "body": body, "loops": loops}
        running.stdin.write(json.dumps(job) + "\n")
        running.stdin.flush()
        running.stdout.readline()
        seen: dict[str, int] = {}
        yield seen
        running.stdin.close()
        seen.update(json.loads(running.stdout.readline()))


def asked_rows(port: int, plan: Plan, rounds: int, seconds: float) -> Iterator[Row]:
    """Yield what one sender loses while others query, and how long `readyz` takes meanwhile."""
    size = plan.universe.size or 1
    keys = json.dumps({"keys": [number % size for number in range(ASKED_KEYS)]})
    refused = json.dumps({"keys": ["x" * 1024] * (REFUSED_BYTES >> 10), "unknown": 1})
    what = f"four loops ask {ASKED_KEYS:,} keys"
    yield from beside_rows(port, plan, ("collector-asked", what, keys, 4, 200), rounds, seconds)
    what = f"two loops post {REFUSED_BYTES >> 20} MiB of JSON to be refused"
    yield from beside_rows(
        port, plan, ("collector-refused", what, refused, 2, 422), rounds, seconds
    )


def beside_rows(
    port: int, plan: Plan, case: tuple[str, str, str, int, int], rounds: int, seconds: float
) -> Iterator[Row]:
    """Yield the rate and latency of one sender during loops of queries, against it alone."""
    name, what, question, loops, status = case
    sent, path = bodies(plan, 1), path_of(plan)
    job: dict[str, Any] = {"connections": 1, "seconds": seconds}
    alone, beside, waits, answers = [], [], [], Counter[str]()
    for _ in range(rounds):
        alone.append(send(port, path, sent, **job))
        settle(port, plan)
        with (
            askers(port, path.replace("reports", "estimates"), question, loops) as seen,
            probed(port) as took,
        ):
            beside.append(send(port, path, sent, **job))
        answers.update(seen)
        waits += took
    if not answers[str(status)]:
        raise SystemExit(f"no answers of status {status}: {answers}")
    turns, meanwhile = (beside, alone), dict(answers)
    rates = [median(each["good"] / each["seconds"] for each in every) for every in turns]
    p99 = [median(each["p99"] for each in every) for every in turns]
    rows = (
        (name, f"one sender's rate while {what}", rates, "/s", f"≥ {LEAST:.2f}x"),
        (f"{name}-p99", "99 % of its requests wait at most", p99, "s", f"≤ {MOST:g}x"),
    )
    for row, words, (ours, theirs), unit, target in rows:
        ratio = ours / theirs
        yield Row(
            name=row,
            what=words,
            ours=ours,
            theirs=theirs,
            unit=unit,
            ratio=ratio,
            # Refused requests have no target: only those that are answered must cost little.
            target=target if status == 200 else "",
            met=(ratio >= LEAST if unit == "/s" else ratio <= MOST) if status == 200 else None,
            note=f"theirs: the same sender alone; medians of turns; answers: {meanwhile}",
        )
    yield Row(
        name=f"{name}-readyz",
        what="99 % of the answers of readyz take at most, meanwhile",
        ours=float(np.quantile(waits, 0.99)),
        unit="s",
        target=f"≤ {WAIT_S:g} s",
        met=bool(np.quantile(waits, 0.99) <= WAIT_S),
        note=f"of {len(waits)}, the slowest {max(waits):.3f} s",
    )


@contextmanager
def probed(port: int) -> Iterator[list[float]]:
    """Ask `readyz` ten times a second, and yield how long each answer takes."""
    done, waits = threading.Event(), []

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while not done.wait(0.1):
            begun = time.perf_counter()
            connection.request("GET", "/readyz")
            connection.getresponse().read()
            waits.append(time.perf_counter() - begun)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield waits
    finally:
        done.set()
        asking.join()


def memory(number: int) -> float:
    """Return the MiB that a process holds."""
    pages = int(Path(f"/proc/{number}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def watch(number: int, peaks: list[float], done: threading.Event) -> None:
    """Record the peak memory of a process until `done` is set."""
    while not done.wait(0.05):
        peaks.append(memory(number))


def settle(port: int, plan: Plan) -> None:
    """Wait until everything is sealed."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", f"/v1/collections/{plan.digest.hex()}/seal")
    if connection.getresponse().status != 200:
        raise SystemExit("the collector could not seal")


def pending(port: int, plan: Plan) -> int:
    """Return the reports that wait to be sealed."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"/v1/collections/{plan.digest.hex()}")
    return int(json.loads(connection.getresponse().read())["pending"])


def measure(rounds: int, seconds: float) -> Iterator[Row]:
    """Yield all rows."""
    plan = make_plan(
        protect="user", epsilon=2.0, sparsity=8, clients=100_000, universe=Universe.indexed(1000)
    )
    with (
        process(sys.executable, HERE / "bare_server.py") as (line, _),
        collector(plan) as (port, number),
    ):
        singles, batches = (Turns((port, int(line)), plan, each) for each in (1, BATCH))
        what = f"single reports over HTTP, durable, {SINGLE_CONNECTIONS} connections"
        started(what)
        full = singles.rate_row("collector-single", what, rounds, seconds, share=SHARE)
        yield full
        settle(port, plan)  # empty the inbox after the full load
        yield singles.wait_row("collector-single-p99", round(full.ours / 2, -2), rounds, seconds)
        settle(port, plan)
        started("a sender while others ask")
        yield from asked_rows(port, plan, rounds, seconds)
        what = f"reports in batches of {BATCH:,}, {BATCH_CONNECTIONS} connections"
        started(what)
        yield batches.rate_row("collector-batch", what, rounds, seconds, rate=BATCHED)
        settle(port, plan)
        yield batches.wait_row("collector-batch-p99", BATCH_LOAD, rounds, seconds)
        started("memory")
        yield from steady_rows(port, number, plan)


def cores() -> tuple[int, int]:
    """Return the time of all cores, and how much of it other guests of the host took."""
    times = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(times), times[7]


def stolen_row(before: tuple[int, int]) -> Row:
    """Return the share of the cores' time that was stolen."""
    whole, stolen = (now - then for now, then in zip(cores(), before, strict=True))
    return Row(
        name="collector-stolen",
        what="of the cores' time went to other guests of the host",
        ours=100 * stolen / whole,
        unit="%",
    )


def main() -> int:
    """Measure, print and save."""
    parser = options("Collector")
    parser.add_argument("--quick", action="store_true", help="some seconds in all")
    given = parser.parse_args()
    before = cores()
    rows = list(measure(*((1, 2.0) if given.quick else (5, 5.0))))
    rows.append(stolen_row(before))
    finish("Collector", document(rows), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
