"""`faintly serve` as a real process, asked over real sockets."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks import samples
from faintly.core import Plan
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly_collector.http.limits import DRAIN_S, OWN_FILES
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.store import Store
from tests.system.conftest import Forked

FAINTLY = [sys.executable, "-c", "from faintly.cli import main; main()"]
PATIENCE_S = 600  # a busy machine is no failure


class Server:
    """A running collector."""

    def __init__(self, commands: Any, folder: Path, *options: str, **settings: Any) -> None:
        self.folder, log = folder, folder.parent / "log"
        command = ["serve", "--data", str(folder), "--port", "0", "--json", *options]
        self.process = Forked(commands, command, folder.parent, log, **settings)
        line = self.process.first_line()
        assert line, log.read_text()
        self.ready = json.loads(line)

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder.parent / "log").read_text().splitlines()]

    @property
    def routes(self) -> set[str]:
        return {line["route"] for line in self.log if line["event"] == "request"}

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.ready["port"], timeout=PATIENCE_S)

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = self.connect()
        headers = dict(headers or {})
        if isinstance(body, dict):
            body, headers["content-type"] = json.dumps(body), "application/json"
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        json_like = answer.getheader("content-type") == "application/json"
        return answer.status, json.loads(data) if json_like else data

    def stop(self, sign: int = signal.SIGTERM) -> int:
        self.process.send_signal(sign)
        return self.process.wait(PATIENCE_S)


Start = Callable[..., Server]


@pytest.fixture
def start(commands: Any, tmp_path: Path) -> Iterator[Start]:
    running: list[Server] = []

    def run(*options: str, **settings: Any) -> Server:
        running.append(Server(commands, tmp_path / "data", *options, **settings))
        return running[-1]

    yield run
    for server in running:
        server.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return samples.one_cell_plan(1000, 64)


@pytest.fixture(scope="module")
def bodies(plan: Plan) -> list[bytes]:
    layout = mechanism_of(plan).layout
    return [report_v1.encode_batch(each, layout) for each in samples.batches(plan, 600, 1)]


@pytest.fixture
def refuses(faintly) -> Callable[..., str]:
    """Return a function that gives what the command says when it refuses to start."""

    def run(*arguments: object) -> str:
        said = faintly("serve", *arguments, status=1).err
        assert len(said.splitlines()) == 1
        return said

    return run


@pytest.mark.parametrize(
    "sign", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_a_signal_seals_everything_and_ends_with_zero(start, plan, bodies, sign):
    server = start()
    assert server.ask("GET", "/healthz") == (200, {"status": "alive"})
    assert server.ask("GET", "/readyz") == (200, {"status": "ready", "warnings": []})
    assert server.ask("POST", "/v1/collections", {"plan": plan.document()})[0] == 201
    address = f"/v1/collections/{plan.digest.hex()}"
    for body in bodies[:20]:
        path = f"{address}/reports?request={os.urandom(16).hex()}"
        assert server.ask("POST", path, body) == (200, {"status": "counted", "reports": 1})
    assert server.ask("GET", address)[1]["pending"] == 20
    assert server.stop(sign) == 0
    again = start()
    status = again.ask("GET", address)[1]
    assert (status["reports"], status["pending"]) == (20, 0)
    assert again.ask("POST", f"{address}/estimates", {"keys": [1]})[1]["reports"] == 20
    assert again.stop(sign) == 0


@pytest.mark.long
def test_a_query_that_nobody_waits_for_holds_up_no_end(start):
    """It would take minutes: 200,000 reports are read one by one for each of 100,000 keys."""
    plan = samples.retrieval_plan(200_000, 2**17, 8, "direct")
    server, address = start(), f"/v1/collections/{plan.digest.hex()}"
    assert server.ask("POST", "/v1/collections", {"plan": plan.document()})[0] == 201
    layout = mechanism_of(plan).layout
    for batch in samples.batches(plan, 200_000, 20_000):
        path = f"{address}/reports?request={os.urandom(16).hex()}"
        assert server.ask("POST", path, report_v1.encode_batch(batch, layout))[0] == 200
    assert server.ask("POST", f"{address}/seal")[0] == 200
    query = json.dumps({"keys": list(range(100_000))})
    asker = server.connect()
    asker.request("POST", f"{address}/estimates", query, {"content-type": "application/json"})
    asker.sock.settimeout(2)
    with pytest.raises(TimeoutError):
        asker.sock.recv(1)
    asker.close()
    started = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - started < DRAIN_S
    answered = [line for line in server.log if line["event"] == "request"]
    assert [line["status"] for line in answered if line["route"].endswith("/estimates")] == [499]
    assert server.log[-1]["event"] == "stopping"


def test_many_senders_at_once_are_all_counted(start, plan, bodies):
    server = start()
    server.ask("POST", "/v1/collections", {"plan": plan.document()})
    address = f"/v1/collections/{plan.digest.hex()}"
    bad: list[object] = []

    def send(mine: list[bytes]) -> None:
        connection = server.connect()
        for body in mine:
            connection.request("POST", f"{address}/reports?request={os.urandom(16).hex()}", body)
            answer = connection.getresponse()
            seen = answer.read()
            if answer.status != 200:
                bad.append(seen)
        connection.close()

    threads = [threading.Thread(target=send, args=(bodies[n::20],)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad
    assert server.ask("POST", f"{address}/seal") == (200, {"sealed": len(bodies)})
    page = server.ask("GET", "/metrics")[1].decode()
    assert f"faintly_reports_total {len(bodies)}.0" in page
    wanted = {"/v1/collections", "/v1/collections/{digest}/seal", "/metrics"}
    give_up = time.monotonic() + 30  # a line is written after its answer
    while server.routes < wanted and time.monotonic() < give_up:
        time.sleep(0.05)
    assert server.routes == wanted


def test_a_request_under_way_is_finished_before_the_end(start, plan, bodies):
    server = start()
    server.ask("POST", "/v1/collections", {"plan": plan.document()})
    path = f"/v1/collections/{plan.digest.hex()}/reports?request={'ab' * 16}"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(bodies[0])}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.ready["port"])) as sender:
        sender.sendall(head.encode() + bodies[0][:5])
        server.ask("GET", "/healthz")  # by now the request has begun
        server.process.send_signal(signal.SIGTERM)
        sender.sendall(bodies[0][5:])
        answer = b""
        while not answer.endswith(b"}") and (part := sender.recv(4096)):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200 ") or b"STOPPING" in answer
    assert server.process.wait(60) == 0
    with Store.open(server.folder) as store:
        counted = status_of(store.registry.collection(plan.digest)).reports
    assert counted == (1 if b"counted" in answer else 0), answer


def test_one_folder_has_one_server(start, refuses, tmp_path):
    start()
    assert "FolderInUse" in refuses("--data", str(tmp_path / "data"), "--port", "0")


def test_a_port_in_use_is_named(refuses, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refuses("--data", str(tmp_path / "d"), "--port", str(port))
    assert f"port {port}" in said
    assert "--port" in said


def test_it_does_not_listen_to_the_world_without_credentials(start, refuses, tmp_path):
    folder = tmp_path / "data"
    for options in (("--host", "0.0.0.0"), ("--proxy",)):
        said = refuses("--data", str(folder), "--port", "0", *options)
        assert "credential" in said
        assert "--allow-anyone" in said
    server = start("--host", "0.0.0.0", "--allow-anyone")
    assert server.ask("GET", "/v1/collections", headers={"host": "example.org"})[0] == 200
    assert server.stop() == 0
    with Store.open(folder) as store:
        secret = store.credentials.add("read", "r")
        store.credentials.add("admin", "a")
    server = start("--host", "0.0.0.0")
    assert server.ask("GET", "/v1/collections")[0] == 401
    header = {"authorization": f"Bearer {secret}"}
    assert server.ask("GET", "/v1/collections", headers=header)[0] == 200
    assert secret not in (tmp_path / "log").read_text()


def test_what_is_not_http_is_refused_in_the_same_shape(start):
    server = start()
    for request in (
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ):
        with socket.create_connection(
            ("127.0.0.1", server.ready["port"]), timeout=PATIENCE_S
        ) as sender:
            sender.sendall(request)
            answer = b"".join(iter(lambda: sender.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), request
        assert set(json.loads(body)) == {"code", "message", "hint"}
        assert server.ask("GET", "/healthz")[0] == 200


def test_headers_without_end_are_cut_off(start):
    server = start()
    with socket.create_connection(
        ("127.0.0.1", server.ready["port"]), timeout=PATIENCE_S
    ) as sender:
        sender.sendall(b"GET / HTTP/1.1\r\nX: ")
        more = iter(lambda: sender.sendall(b"a" * 2**20), "never")
        with pytest.raises(ConnectionError):
            list(more)
    assert server.ask("GET", "/healthz")[0] == 200


def test_a_file_and_the_environment_set_it_up(start, tmp_path):
    file = tmp_path / "faintly.toml"
    file.write_text('body_bytes = 2000\ncors = ["https://a.example"]\nlog_level = "debug"\n')
    server = start("--config", str(file), FAINTLY_SERVE_LOG_LEVEL="error")
    asks = {"origin": "https://a.example", "access-control-request-method": "POST"}
    assert server.ask("OPTIONS", "/v1/collections", headers=asks)[0] == 204
    assert server.ask("POST", "/v1/collections", {"plan": {"x": "y" * 2000}})[0] == 413
    assert server.log == []


def test_a_push_of_batches_that_are_too_large_says_what_to_do(
    start, plan, bodies, faintly, tmp_path
):
    """The answer reaches the sender although the server does not want the rest."""
    server = start(FAINTLY_SERVE_BODY_BYTES="1024")
    assert server.ask("POST", "/v1/collections", {"plan": plan.document()})[0] == 201
    file = tmp_path / "reports.fnt"
    file.write_bytes(b"".join(bodies))
    push = ["push", file, "--server", server.ready["url"]]
    told = faintly(*push, "--batch", 600, status=1).err
    assert "push with a smaller --batch, such as 300" in told
    assert faintly(*push, "--batch", 300, "--json").json["sent"] == 600


def test_tls(start, refuses, faintly, certificate, tmp_path):
    cert, key = certificate
    server = start("--tls-cert", str(cert), "--tls-key", str(key))
    assert server.ready["url"].startswith("https://")
    context = ssl.create_default_context(cafile=str(cert))
    port = server.ready["port"]
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=PATIENCE_S)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    load = ["load", "--server", f"https://localhost:{port}", "--batch", 10, "--json"]
    load += ["--seconds", 0.3, "--connections", 2]
    assert faintly(*load, "--ca-file", cert).json["reports"] > 0
    assert "cannot be verified" in faintly(*load, status=1).err
    assert server.stop() == 0
    options = ["--data", str(tmp_path / "other"), "--port", "0"]
    assert "TLS" in refuses(*options, "--tls-cert", str(key), "--tls-key", str(cert))
    assert "tls_key" in refuses(*options, "--tls-cert", str(cert))


def test_help_stays_quick():
    """What only the collector needs is imported when it starts."""
    code = (
        "import sys; from faintly.cli import app; from typer.testing import CliRunner; "
        "assert CliRunner().invoke(app, ['serve', '--help']).exit_code == 0; "
        "print([name for name in sys.argv[1:] if name in sys.modules])"
    )
    heavy = ["fastapi", "uvicorn", "prometheus_client", "pyarrow"]
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_removing_the_last_credential_is_reported(faintly, tmp_path):
    folder = tmp_path / "data"
    with Store.open(folder) as store:
        for label, role in (("a", "admin"), ("b", "admin"), ("s", "submit")):
            store.credentials.add(role, label)
    said = []
    for label in "abs":
        done = faintly("credential", "remove", label, "--data", folder, "--json")
        assert done.json == {"removed": label}
        said.append(done.err)
    assert said[0] == ""
    assert "no admin credential is left" in said[1]
    assert "no credential is left" in said[2]


def test_idle_connections_take_no_files_from_the_rest(start, plan, bodies):
    """As many as the system allows are taken; the next are told, and reports are sealed."""
    most = 64
    server = start(files=OWN_FILES + most)
    address = f"/v1/collections/{plan.digest.hex()}"
    first = server.connect()
    kind = {"content-type": "application/json"}
    first.request("POST", "/v1/collections", json.dumps({"plan": plan.document()}), kind)
    assert first.getresponse().read()
    idle = [socket.create_connection(("127.0.0.1", server.ready["port"])) for _ in range(300)]
    give_up = time.monotonic() + 60
    while True:  # of those above the limit some are told, the others cut off
        assert time.monotonic() < give_up
        last = server.connect()
        with suppress(http.client.HTTPException, OSError):
            last.request("GET", "/healthz")
            if last.getresponse().status == 429:
                break
        last.close()
        time.sleep(0.1)
    first.request("POST", f"{address}/reports?request={os.urandom(16).hex()}", bodies[0])
    assert json.loads(first.getresponse().read())["reports"] == 1
    first.request("POST", f"{address}/seal")
    assert json.loads(first.getresponse().read()) == {"sealed": 1}
    for each in (*idle, first, last):
        each.close()
