"""packaging/nginx.conf in a real nginx, in front of a real collector."""

import os
import shutil
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SHIPPED = (Path(__file__).parents[2] / "packaging" / "nginx.conf").read_text("utf-8")
# Debian keeps it where only root looks.
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
AROUND = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/start.log emerg;
events {{}}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxied;
    fastcgi_temp_path {folder}/unused;
    uwsgi_temp_path {folder}/unused;
    scgi_temp_path {folder}/unused;
    {server}
}}
"""


class Proxy:
    """A running nginx that forwards to a collector."""

    def __init__(self, folder: Path, server: str, port: int, trusted: Path) -> None:
        folder.mkdir()
        conf = folder / "nginx.conf"
        conf.write_text(AROUND.format(folder=folder, server=server))
        self.process = subprocess.Popen([NGINX, "-p", folder, "-c", conf, "-e", folder / "first"])
        self.url, self.log = f"https://localhost:{port}", folder / "faintly.log"
        self._context = ssl.create_default_context(cafile=str(trusted))
        give_up = time.monotonic() + 20
        while True:
            try:
                self.status("/healthz")
                return
            except urllib.error.URLError:
                assert self.process.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.02)

    def status(self, path: str, body: bytes | None = None) -> int:
        request = urllib.request.Request(self.url + path, body)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code


Forward = Callable[..., Proxy]


@pytest.fixture
def forward(port: int, certificate: tuple[Path, Path], tmp_path: Path) -> Iterator[Forward]:
    """Return a function that starts nginx as we ship it, but for names that differ here."""
    if NGINX is None:
        pytest.skip("nginx is not installed; scripts/system_packages.sh installs it")
    folder, running = tmp_path / "nginx", []

    def run(upstream: int, **changes: str) -> Proxy:
        here = {
            "listen 443": f"listen 127.0.0.1:{port}",
            "collector.example;": "localhost;",
            "/etc/ssl/collector.example.pem": str(certificate[0]),
            "/etc/ssl/private/collector.example.key": str(certificate[1]),
            "/var/log/nginx": str(folder),
            "127.0.0.1:8790": f"127.0.0.1:{upstream}",
        }
        server = SHIPPED
        for shipped, local in (here | changes).items():
            assert server.count(shipped) == 1, shipped
            server = server.replace(shipped, local)
        running.append(Proxy(folder, server, port, certificate[0]))
        return running[-1]

    yield run
    for proxy in running:
        proxy.process.terminate()
        proxy.process.wait(30)


@pytest.fixture
def guarded(faintly, collector, tmp_path):
    """A collector for a proxy, and the file of a secret that opens it."""
    made = collector(proxy="true")
    added = faintly(
        "credential", "add", "operator", "--role", "admin", "--data", made.folder, "--json"
    )
    secret = tmp_path / "secret"
    secret.write_text(added.json["secret"])
    return made.start(), secret


def test_commands_work_through_the_proxy(faintly, guarded, forward, certificate, tmp_path):
    collector, secret = guarded
    proxy = forward(collector.port)
    clients = 30_000
    limits = ["--sparsity", 2, "--universe", 16, "--clients", clients]
    faintly("plan", "--protect", "event", "--epsilon", 1, *limits, "-o", "plan.json")
    rows = [f"{client},{client % 16},1" for client in range(clients)]
    (tmp_path / "data.csv").write_text("\n".join(["client,item,value", *rows]))
    faintly("encode", "--plan", "plan.json", "data.csv", "-o", "reports.fnt")
    trusted = ["--server", proxy.url, "--ca-file", certificate[0]]
    asked = [*trusted, "--credential-file", secret, "--json"]
    assert "credential" in faintly("collection", "list", *trusted, status=1).err
    made = faintly("collection", "create", "plan.json", *asked).json
    assert faintly("push", "reports.fnt", *trusted, "--json").json["sent"] == clients
    shown = faintly("collection", "show", made["digest"], *asked).json
    assert shown["reports"] + shown["pending"] == clients
    assert proxy.status(f"/v1/collections/{made['digest']}/reports", bytes(9 << 20)) == 413


@pytest.mark.parametrize(("level", "clean"), [("emerg", True), ("error", False)])
def test_no_log_joins_an_address_and_a_request(guarded, forward, level, clean):
    """Not even where the collector is away; the usual level of the log, as a mutant, does."""
    collector, _ = guarded
    proxy = forward(collector.port, **{"faintly.log emerg": f"faintly.log {level}"})
    collector.kill()
    request = os.urandom(16).hex()
    path = f"/v1/collections/{'0' * 32}/reports?request={request}"
    assert proxy.status(path, b"report") == 502
    log = proxy.log.read_text()
    assert (request not in log and "127.0.0.1" not in log) == clean


def test_a_sender_that_is_too_fast_is_asked_to_wait(guarded, forward):
    proxy = forward(guarded[0].port, **{"rate=50r/s": "rate=1r/m", "burst=200": "burst=2"})
    assert [proxy.status("/healthz") for _ in range(4)][-1] == 429


class Answering(BaseHTTPRequestHandler):
    """Answers everything, and counts connections."""

    protocol_version, connections = "HTTP/1.1", 0

    def setup(self):
        type(self).connections += 1
        super().setup()

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("kept", [True, False])
def test_the_proxy_keeps_its_connections(forward, monkeypatch, kept):
    """Without that line, as a mutant, each request takes one of its own."""
    monkeypatch.setattr(Answering, "connections", 0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        changes = {} if kept else {"keepalive 32;": "", "keepalive_timeout 10s;": ""}
        proxy = forward(upstream.server_port, **changes)
        before = Answering.connections
        assert [proxy.status("/x") for _ in range(9)] == [200] * 9
        assert (Answering.connections - before < 9) == kept
        proxy.process.terminate()
        proxy.process.wait(30)
        upstream.shutdown()
