"""Collections for the tests of the page: npm packages, hostile texts, many small ones."""

import os
from collections import Counter
from functools import cache
from pathlib import Path

import httpx
import numpy as np
import pyarrow.parquet

from faintly.client import randomize_all
from faintly.core import Plan, VectorBatch
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives.entropy import secure
from faintly.wire.report_v1 import encode_batch

SAMPLE = Path(__file__).parents[2] / "src/faintly/demo/npm_deps_sample.parquet"
PACKAGES, EPOCHS = 500, 6
HOSTILE = [
    "<img src=x onerror=alert(1)><script>alert(2)</script>",
    "\u202egnp.exe\u202c and \u05d0\u05d1\u05d2",
    "long " * 2048,
    "🧑‍🚀 emoji 🎉",
    "tab\there, bell\x07, null\x00, line\nfeed",
    '"; alert(3); //',
    "javascript:alert(4)",
    "=cmd|' /C calc'!A0",
]


@cache
def people() -> tuple[list[str], list[list[int]]]:
    """Return the most frequent packages, and which of them each person of the sample holds."""
    table = pyarrow.parquet.read_table(SAMPLE).to_pydict()
    frequent = [name for name, _ in Counter(table["key"]).most_common(PACKAGES)]
    place = {name: i for i, name in enumerate(frequent)}
    held: dict[int, list[int]] = {}
    for client, key in zip(table["client"], table["key"], strict=True):
        if key in place and len(held.setdefault(client, [])) < 16:
            held[client].append(place[key])
    return frequent, list(held.values())


def package_plan() -> Plan:
    return make_plan(
        protect="event",
        epsilon=2.0,
        sparsity=16,
        clients=60_000,
        universe=people()[0],
        values="set",
    )


def open_plan(clients: int = 5_000) -> Plan:
    return make_plan(
        protect="event", epsilon=2.0, sparsity=8, clients=clients, universe="open", values="set"
    )


def small_plan(number: int, size: int = 64) -> Plan:
    """Return one of many plans that differ in nothing but their salt."""
    return make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=4,
        clients=1_000 + number,
        universe=size,
        values="set",
        mechanism="retrieval",
    )


def batch(plan: Plan, held: list[list[int]]) -> bytes:
    """Return the reports of people who hold these ids, as a device sends them."""
    clients = np.repeat(np.arange(len(held)), [len(ids) for ids in held])
    ids = np.array([each for ids in held for each in ids], dtype=np.uint64)
    vectors = VectorBatch.from_rows(clients, ids, np.ones(len(ids)), len(held))
    (made,) = randomize_all(plan, vectors, secure(), secure())
    return encode_batch(made, mechanism_of(plan).layout)


def create(web: httpx.Client, plan: Plan, name: str, epochs: int = 1) -> str:
    settings = {"plan": plan.document(), "name": name, "epochs": list(range(epochs))}
    made = web.post("/v1/collections", json=settings)
    assert made.status_code == 201, made.text
    return f"/v1/collections/{plan.digest.hex()}"


def send(web: httpx.Client, plan: Plan, held: list[list[int]], epoch: int = 0) -> None:
    query = {"request": os.urandom(16).hex(), "epoch": epoch}
    path = f"/v1/collections/{plan.digest.hex()}/reports"
    sent = web.post(path, params=query, content=batch(plan, held))
    assert sent.status_code == 200, sent.text


def fill_packages(web: httpx.Client, reports: int = 60_000) -> Plan:
    """Make a collection of npm packages; the share of the first falls from epoch to epoch."""
    plan, (_, held) = package_plan(), people()
    create(web, plan, "npm packages", EPOCHS)
    part = reports // EPOCHS
    for epoch in range(EPOCHS):
        mine = held[epoch * part : (epoch + 1) * part]
        fading = [
            [i for i in ids if i or person % EPOCHS >= epoch] for person, ids in enumerate(mine)
        ]
        send(web, plan, fading, epoch)
    web.post(f"/v1/collections/{plan.digest.hex()}/seal")
    return plan


def fill_hostile(web: httpx.Client) -> Plan:
    """Make a collection whose name and keys would do harm if they were more than text."""
    plan = open_plan()
    create(web, plan, HOSTILE[0][:200])
    ids = [int(each) for each in plan.ids(HOSTILE)]
    send(web, plan, [ids[: 1 + person % len(ids)] for person in range(5_000)])
    web.post(f"/v1/collections/{plan.digest.hex()}/seal")
    return plan
