"""Real processes on one ledger: killed at random, and racing each other.

Whatever happens, the ledger's spending covers every distinct report that was ever returned,
and one epoch has one report.
"""

import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest

from faintly import make_plan
from faintly.client import Ledger

ROUNDS = 20
EPSILON = Fraction(1, 10)

# Reports epoch after epoch and writes down what it got, which stands for sending it.
REPORTER = """
import os, sys
from faintly import Client, Ledger, Plan, Policy

plan, ledger, sent, first, count = sys.argv[1:]
read = Plan.from_json(open(plan).read())
budget = Ledger(ledger, {"event": 1_000_000})
client = Client(read, policy=Policy.pinned(read.digest), ledger=budget)
log = os.open(sent, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
print("ready", flush=True)
sys.stdin.readline()
for epoch in range(int(first), int(first) + int(count)):
    payload = client.encode(client.report({epoch % 7: 1.0}, epoch=epoch))
    os.write(log, f"{epoch} {payload.hex()}\\n".encode())
"""


class Field:
    """A plan, a ledger, and the reports that were sent."""

    def __init__(self, folder: Path) -> None:
        self.plan, self.ledger, self.sent = (folder / name for name in ("plan", "ledger", "sent"))
        plan = make_plan(
            protect="event",
            epsilon=float(EPSILON),
            sparsity=4,
            clients=100,
            universe=16,
            mechanism="signed-binning",
        )
        self.plan.write_text(plan.to_json())

    def start(self, first: int, count: int) -> subprocess.Popen:
        command = [sys.executable, "-c", REPORTER, self.plan, self.ledger, self.sent]
        return subprocess.Popen(
            [*map(str, command), str(first), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def count(self) -> int:
        """Return how many reports were sent, by whomever."""
        return self.sent.read_bytes().count(b"\n") if self.sent.exists() else 0

    def reports(self) -> dict[int, set[str]]:
        seen = defaultdict(set)
        if self.sent.exists():
            for line in self.sent.read_text().splitlines():
                epoch, payload = line.split()
                seen[int(epoch)].add(payload)
        return seen

    def spent(self) -> Fraction:
        return Ledger(self.ledger, {"event": 1}).spent("event").epsilon


def together(processes: list[subprocess.Popen]) -> None:
    """Let the processes begin at the same moment."""
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


@pytest.mark.long
def test_processes_killed_at_random_never_report_unpaid(tmp_path):
    field, odds, first = Field(tmp_path), random.Random(1), 0
    interrupted = 0
    for number in range(ROUNDS):
        processes = [field.start(first, 10_000) for _ in range(2)]
        before = field.count()
        together(processes)
        # Every second time they get to a new epoch first: both may report the last one again.
        while number % 2 and field.count() < before + 3:
            assert [process.poll() for process in processes] == [None, None]
            time.sleep(0.001)
        for process in processes:
            time.sleep(odds.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
        for process in processes:
            process.communicate()
        reports = field.reports()
        assert all(len(payloads) == 1 for payloads in reports.values())
        assert field.spent() >= EPSILON * len(reports)
        first = max(reports, default=0)  # the last epoch is asked for again, by both
        interrupted += field.spent() > EPSILON * len(reports)
    assert len(field.reports()) > ROUNDS // 2, "they got somewhere before they were killed"
    assert interrupted, "some kill came between a charge and its report, or this tests nothing"
    # What the kills left is still a ledger: the next process goes on with it.
    process = field.start(first, 3)
    together([process])
    process.communicate()
    assert process.returncode == 0
    assert all(len(payloads) == 1 for payloads in field.reports().values())


def test_two_processes_share_every_report(tmp_path):
    field, count = Field(tmp_path), 30
    processes = [field.start(0, count) for _ in range(2)]
    together(processes)
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0]
    lines = field.sent.read_text().splitlines()
    assert len(lines) == 2 * count
    assert [len(payloads) for payloads in field.reports().values()] == [1] * count
    assert field.spent() == EPSILON * count
