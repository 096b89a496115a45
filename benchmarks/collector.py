"""Reports over HTTP: one collector and one sender on the same cores, every answer durable.

python benchmarks/collector.py [--quick] [--json FILE]

Beside it, in turns, a bare handler under the same server reads the body and answers 200.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from faintly.bench import document
from faintly.bench.result import Row
from faintly.bench.script import finish, options, started
from faintly.core import Plan, ReportBatch, Universe
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.wire import report_v1

HERE = Path(__file__).resolve().parent
SINGLES, BATCHED = 8_000, 4_000_000  # reports a second that are wanted
BATCH = 10_000
BODIES = 16  # different ones, sent in turns
SINGLE_CONNECTIONS, BATCH_CONNECTIONS = 128, 16


def bodies(plan: Plan, reports: int) -> list[str]:
    """Return batches of made-up reports in hexadecimal; noise looks like this."""
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
        [sys.executable, HERE / "_sender.py"],
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
def process(*command: object) -> Iterator[str]:
    """Run a server, and yield the line that it prints once it listens."""
    running = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        yield running.stdout.readline()
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()


@contextmanager
def collector(plan: Plan) -> Iterator[int]:
    """Run a collector of one plan in a folder of its own, and yield its port."""
    with tempfile.TemporaryDirectory() as folder:
        serve = "from faintly.cli import main; main()", "serve", "--data", folder, "--port", "0"
        command = (sys.executable, "-c", *serve, "--json", "--log-level", "warning")
        with process(*command) as line:
            port = json.loads(line)["port"]
            create(port, plan)
            yield port


def create(port: int, plan: Plan) -> None:
    """Create the collection."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port)
    text = json.dumps({"plan": plan.document()})
    connection.request("POST", "/v1/collections", text, {"content-type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 201:
        raise SystemExit(f"creating the collection: {answer.read().decode()}")


def throughput(
    ports: tuple[int, int], plan: Plan, reports: int, *, rounds: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Return reports a second of collector and bare handler, measured in turns."""
    sent = bodies(plan, reports)
    path = path_of(plan)
    connections = SINGLE_CONNECTIONS if reports == 1 else BATCH_CONNECTIONS
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for port, into in zip(ports, rates, strict=True):
            seen = send(port, path, sent, connections=connections, seconds=seconds)
            into.append(seen["good"] * reports / seen["seconds"])
    return rates


def rate_row(name: str, what: str, rates: tuple[list[float], list[float]], wanted: float) -> Row:
    """Return a rate beside that of the bare handler."""
    ours, theirs = map(median, rates)
    return Row(
        name=name,
        what=what,
        ours=ours,
        theirs=theirs,
        unit="/s",
        ratio=ours / theirs,
        target=f"≥ {wanted:,.0f}/s",
        met=ours >= wanted,
        note="theirs: a bare ASGI handler that reads the body and answers 200, in turns; medians",
    )


def measure(rounds: int, seconds: float) -> list[Row]:
    """Return all rows."""
    plan = make_plan(
        protect="user", epsilon=2.0, sparsity=8, clients=100_000, universe=Universe.indexed(1000)
    )
    with process(sys.executable, HERE / "_bare.py") as line, collector(plan) as port:
        ports = port, int(line)
        started("single reports")
        single = throughput(ports, plan, 1, rounds=rounds, seconds=seconds)
        started("batches")
        batched = throughput(ports, plan, BATCH, rounds=rounds, seconds=seconds)
        started("half load")
        halves = [
            send(
                port,
                path_of(plan),
                bodies(plan, reports),
                connections=connections,
                seconds=2 * seconds,
                rate=wanted / 2 / reports,
            )["p99"]
            for reports, connections, wanted in (
                (1, SINGLE_CONNECTIONS, SINGLES),
                (BATCH, BATCH_CONNECTIONS, BATCHED),
            )
        ]
    rows = [
        rate_row("collector-single", "single reports", single, SINGLES),
        rate_row("collector-batch", f"reports in batches of {BATCH:,}", batched, BATCHED),
    ]
    for name, what, p99 in zip(
        ("collector-single-p99", "collector-batch-p99"),
        ("99 % of single reports at half the target", "99 % of batches at half the target"),
        halves,
        strict=True,
    ):
        rows.append(Row(name=name, what=what, ours=p99, unit="s", target="≤ 0.1 s", met=p99 <= 0.1))
    return rows


def main() -> int:
    """Measure, print and save."""
    parser = options("Collector")
    parser.add_argument("--quick", action="store_true", help="some seconds in all")
    given = parser.parse_args()
    rows = measure(*((1, 2.0) if given.quick else (5, 5.0)))
    finish("Collector", document(rows), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
