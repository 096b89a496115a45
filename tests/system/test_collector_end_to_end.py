"""From a plan on a server to estimates from it: 20,000 people in another process."""

import json
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faintly import Policy, make_plan
from faintly.cli import app
from faintly.client.transport import Connection
from faintly.errors import PlanRefused

CLIENTS, SINGLES, KEYS = 20_000, 400, 24
FAINTLY = [sys.executable, "-c", "from faintly.cli import main; main()"]
LEVEL = 1 - 1e-9  # the promise that is tested: all intervals hold, but for one time in 10^9

# The people. Person p holds key j if p mod (j + 2) is 0, up to four of them, with value 1 or -1/2.
PEOPLE = """
import json, sys
from pathlib import Path
import numpy as np
from faintly import Client, Policy, VectorBatch, randomize_all
from faintly.client.transport import Connection
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import secure
from faintly.wire.report_v1 import encode_batch

url, digest, clients, singles, keys, out = sys.argv[1:]
policy = Policy.within(epsilon=2, units=["event"])
with Connection(url) as connection:
    plan = connection.plan(digest, policy)

def held(person):
    found = [key for key in range(int(keys)) if person % (key + 2) == 0][:4]
    return {f"key {key}": 1.0 if key % 3 else -0.5 for key in found}

people = [held(person) for person in range(int(clients))]
with Connection(url) as connection:
    client = Client(plan, policy=policy)
    for items in people[: int(singles)]:
        connection.send(plan.digest, client.encode(client.report(items)))
vectors = VectorBatch.of([plan.vector(items) for items in people[int(singles) :]])
with Path(out).open("wb") as file:
    for batch in randomize_all(plan, vectors, secure(), secure()):
        file.write(encode_batch(batch, mechanism_of(plan).layout))
truth = {f"key {key}": 0.0 for key in range(int(keys))}
for items in people:
    for key, value in items.items():
        truth[key] += value / len(people)
print(json.dumps(truth))
"""


@pytest.fixture
def server(collector, tmp_path):
    """A collector that was forked, which is several times as quick."""
    return collector(tmp_path / "data").start().url


@pytest.fixture
def real_server(tmp_path):
    """`faintly serve`, as a user starts it."""
    command = [*FAINTLY, "serve", "--data", str(tmp_path / "data"), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield json.loads(process.stdout.readline())["url"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


def call(method: str, url: str, document: object = None) -> dict:
    body = None if document is None else json.dumps(document).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def eventually_refused(url: str) -> int:
    """Return the status that ends the time in which everybody may ask, which is a moment."""
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        try:
            call("GET", url)
        except urllib.error.HTTPError as refused:
            return refused.code
        time.sleep(0.05)
    return 200


def created(server: str, **options: object) -> tuple[str, str]:
    """Return the digest and the address of a new collection."""
    plan = make_plan(
        protect="event",
        epsilon=2.0,
        sparsity=4,
        clients=CLIENTS,
        universe=[f"key {key}" for key in range(KEYS)],
    )
    call("POST", f"{server}/v1/collections", {"plan": plan.document(), **options})
    return plan.digest.hex(), f"{server}/v1/collections/{plan.digest.hex()}"


def outside(rows: list[dict], truth: dict[str, float], scale: float = 1.0) -> list[str]:
    """Return the keys whose true mean is not in the interval for all keys, moved by a scale."""
    missed = []
    for row in rows:
        shift = (scale - 1) * row["mean"]
        if not row["low_all"] + shift <= truth[row["key"]] <= row["high_all"] + shift:
            missed.append(row["key"])
    return missed


def test_from_a_plan_to_estimates(real_server, tmp_path, faintly):
    digest, collection = created(real_server)
    with Connection(real_server) as made, pytest.raises(PlanRefused, match="policy allows"):
        made.plan(digest, Policy.within(epsilon=1, units=["event"]))

    file = tmp_path / "reports.fnt"
    people = [
        sys.executable,
        "-c",
        PEOPLE,
        real_server,
        digest,
        str(CLIENTS),
        str(SINGLES),
        str(KEYS),
    ]
    done = subprocess.run([*people, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)
    pushed = faintly("push", file, "--server", real_server, "--batch", 3000, "--json").json
    assert (pushed["sent"], pushed["reports"]) == (CLIENTS - SINGLES, CLIENTS - SINGLES)
    again = faintly("push", file, "--server", real_server, "--batch", 3000, "--json").json
    assert (again["sent"], again["skipped"]) == (0, CLIENTS - SINGLES)

    call("POST", f"{collection}/seal")
    asked = {"keys": list(truth), "level": LEVEL}
    found = call("POST", f"{collection}/estimates", asked)
    assert (found["reports"], found["pending"]) == (CLIENTS, 0)
    rows = found["estimates"]
    widest = max(row["high_all"] - row["low_all"] for row in rows)
    # Chance of a false alarm: 1e-9, by what the intervals promise.
    assert outside(rows, truth) == []
    # The mutant is a scale that is wrong by a half; the same check must see it.
    assert outside(rows, truth, scale=1.5)
    assert widest < 0.25, f"{widest}: intervals that hold everything would show nothing"
    top = call("GET", f"{collection}/top?count=3")
    # The largest of what was estimated; the third of the truth is too close to the fourth.
    largest = sorted(rows, key=lambda row: row["mean"], reverse=True)[:3]
    assert [row["key"] for row in top["estimates"]] == [row["key"] for row in largest]


@pytest.mark.long
def test_a_push_that_is_killed_counts_nothing_twice(server, tmp_path, faintly):
    digest, collection = created(server, name="killed")
    file = tmp_path / "reports.fnt"
    people = [sys.executable, "-c", PEOPLE, server, digest, "3000", "0", str(KEYS), str(file)]
    subprocess.run(people, capture_output=True, check=True)
    push = [*FAINTLY, "push", str(file), "--server", server, "--batch", "10"]
    odds, state, killed = random.Random(1), Path(f"{file}.push"), 0
    for _ in range(5):
        process = subprocess.Popen(push, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = state.stat().st_size if state.exists() else 0
        while process.poll() is None and (not state.exists() or state.stat().st_size == before):
            time.sleep(0.002)  # until it sends
        time.sleep(odds.uniform(0, 0.03))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
    assert killed >= 2, "the push was over before it could be killed"
    done = faintly("push", file, "--server", server, "--batch", 10, "--json").json
    assert done["sent"] + done["replayed"] + done["skipped"] == 3000
    call("POST", f"{collection}/seal")
    status = call("GET", collection)
    assert (status["reports"], status["pending"]) == (3000, 0)


def test_a_file_of_tokens_is_its_owners_alone(server, tmp_path, faintly):
    digest, _ = created(server, tokens=True)
    file = tmp_path / "tokens.txt"
    file.write_text("left from before\n")
    file.chmod(0o644)
    command = ["token", "--server", server, "--digest", digest, "--count", 3, "-o"]
    assert "3 tokens in" in faintly(*command, file).out
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(set(file.read_text().splitlines())) == 3
    assert "before" not in file.read_text()
    assert "there is no folder" in faintly(*command, tmp_path / "none" / "tokens.txt", status=1).err


def test_the_commands_of_a_folder(server, tmp_path, faintly):
    """Tokens, load, export, backup, restore and fsck, one after another on one folder."""
    digest, collection = created(server, tokens=True)
    data = tmp_path / "data"
    issued = faintly("token", "--server", server, "--digest", digest, "--count", 50).out.split()
    assert len(set(issued)) == 50
    file = tmp_path / "tokens.txt"
    file.write_text("\n".join(issued))
    options = ["--server", server, "--singles", "--connections", 4, "--seconds", 60, "--json"]
    loaded = faintly("load", *options, "--digest", digest, "--token-file", file).json
    assert (loaded["requests"], loaded["errors"]) == (50, {}), "it ends with the last token"

    own = faintly("load", "--server", server, "--seconds", 0.5, "--batch", 100, "--json").json
    assert own["reports"] == 100 * own["requests"] > 0
    assert own["errors"] == {}
    listed = call("GET", f"{server}/v1/collections")["collections"]
    assert [each["digest"] for each in listed] == [digest], "what it made is gone"

    call("POST", f"{collection}/seal")
    export = ["export", data, "--digest", digest, "--json", "-o"]
    assert faintly(*export, tmp_path / "out.parquet").json["reports"] == 50
    assert faintly(*export, tmp_path / "out.fnt").json["reports"] == 50
    faintly("backup", data, tmp_path / "copy", "--json")
    faintly("restore", tmp_path / "copy", tmp_path / "new", "--json")
    checked = faintly("fsck", tmp_path / "new", "--json").json
    assert (checked["sound"], checked["sealed"]) == (True, 50)
    faintly("fsck", data, status=1)  # a collector uses it
    segment = next((tmp_path / "new" / "segments").rglob("*.parquet"))
    damaged = bytearray(segment.read_bytes())
    damaged[40] ^= 1
    segment.write_bytes(damaged)
    assert not faintly("fsck", tmp_path / "new", "--json", status=1).json["sound"]


def test_a_collection_from_the_command_line(server, tmp_path):
    plan = make_plan(protect="event", epsilon=1, sparsity=2, clients=50, universe=16)
    file, digest = tmp_path / "plan.json", plan.digest.hex()
    file.write_bytes(plan.canonical)

    def collection(*words: object, status: int = 0) -> str:
        """Run the command in this process, which is quicker, and return what it says."""
        done = CliRunner().invoke(app, ["collection", *map(str, words), "--server", server])
        assert done.exit_code == status, done.output
        return done.stdout if status == 0 else str(done.exception)

    def document(*words: object) -> dict:
        return json.loads(collection(*words, "--json"))

    assert "no collections" in collection("list")
    made = document("create", file, "--name", "teas", "--epoch", 1, "--epoch", 2)
    assert (made["digest"], made["name"], made["state"]) == (digest, "teas", "open")
    assert [each["epoch"] for each in made["epochs"]] == [1, 2]
    refused = collection("create", file, "--name", "other", status=1)
    assert "CONFLICT: this plan already has a collection with other settings" in refused
    collection("close", digest, "--epoch", 1)
    assert "epoch 1 was closed" in collection("open", digest, "--epoch", 1, status=1)
    opened = document("open", digest, "--epoch", 3)["epochs"]
    assert {each["epoch"]: each["state"] for each in opened} == {1: "closed", 2: "open", 3: "open"}
    assert document("seal", digest) == {"sealed": 0}
    assert digest in collection("list")
    assert document("close", digest)["state"] == "closed"
    collection("delete", digest, status=1)  # nobody there to say yes
    assert "teas" in collection("show", digest)
    assert document("delete", digest, "--yes") == {"deleted": digest}
    assert "UNKNOWN_COLLECTION" in collection("show", digest, status=1)
    assert document("create", file, "--period-s", 3600)["epochs"] == []
    wanted = {"plan": json.loads(file.read_text()), "period_s": 3600}
    assert call("POST", f"{server}/v1/collections", wanted)["epochs"] == []
    assert "a name without slashes" in collection("show", "../x", status=1)


def test_credentials_are_asked_for_once_there_are_any(server, tmp_path, faintly):
    _, collection = created(server)
    data = ["--data", tmp_path / "data"]
    assert call("GET", collection)["reports"] == 0
    secret = faintly("credential", "add", "me", "--role", "admin", *data).out.strip()
    assert eventually_refused(collection) == 401
    file = tmp_path / "secret"
    file.write_text(secret + "\n")
    digest = collection.rpartition("/")[2]
    tokens = ["token", "--server", server, "--digest", digest]
    refused = faintly(*tokens, status=1)
    assert "NOT_AUTHORISED" in refused.err
    assert "CONFLICT" in faintly(*tokens, "--credential-file", file, status=1).err  # without tokens
    assert secret not in refused.err
    listed = faintly("credential", "list", *data, "--json").json
    assert listed == {"credentials": [{"label": "me", "role": "admin"}]}
    faintly("credential", "remove", "me", *data)
    faintly("credential", "remove", "me", *data, status=1)
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
