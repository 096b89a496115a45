"""The installed command, run as a real process."""

import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]
SERVER = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def commands() -> Iterator[subprocess.Popen]:
    """A process that has imported the command line and forks a command on request."""
    yield from _ready("commands.py")


@pytest.fixture
def faintly(commands: subprocess.Popen, tmp_path: Path, tmp_path_factory) -> Run:
    """Return a function that runs `faintly ARGUMENTS` in a fresh folder, as a process."""
    return _runner("faintly", commands, tmp_path, tmp_path_factory)


@pytest.fixture
def evaluation(commands: subprocess.Popen, tmp_path: Path, tmp_path_factory) -> Run:
    """Return a function that runs `python -m evaluation ARGUMENTS`, in the same way."""
    return _runner("evaluation", commands, tmp_path, tmp_path_factory)


def _runner(program: str, commands: subprocess.Popen, tmp_path: Path, tmp_path_factory) -> Run:
    out, err = (tmp_path_factory.mktemp("said") / name for name in ("out", "err"))

    def run(*arguments: object, status: int = 0) -> Result:
        out.write_bytes(b"")
        err.write_bytes(b"")
        ended = _ask(commands, _command(program, arguments, tmp_path, out, err, {}))
        done = Result(ended, out.read_text(), err.read_text())
        assert ended == status, done.err + done.out
        return done

    return run


def _command(
    program: str,
    arguments: Sequence[object],
    folder: Path,
    out: Path,
    err: Path,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Return the command as commands.py takes it."""
    return {
        "program": program,
        "arguments": [str(argument) for argument in arguments],
        "folder": str(folder),
        "environment": dict(os.environ) | dict(environment),
        "out": str(out),
        "err": str(err),
    }


def _ask(commands: subprocess.Popen, command: object) -> Any:
    commands.stdin.write(json.dumps(command) + "\n")
    commands.stdin.flush()
    return json.loads(commands.stdout.readline())


class Forked:
    """`faintly ARGUMENTS` that runs on its own, as a process of Popen does."""

    def __init__(
        self,
        commands: subprocess.Popen,
        arguments: Sequence[str],
        folder: Path,
        log: Path,
        files: int | None = None,
        **environment: str,
    ) -> None:
        self._commands, self._status = commands, None
        self._out = folder / f"out-{time.monotonic_ns()}"
        self._out.touch()
        command = _command("faintly", arguments, folder, self._out, log, environment)
        # So many files at a time: half of them by default, which it may raise.
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        command["files"] = limits if files is None else (files // 2, files)
        self.pid = _ask(commands, command)

    def first_line(self) -> str:
        """Return the first line that it prints, or "" if it ends before."""
        while not (line := self._out.read_text()).endswith("\n") and self.poll() is None:
            time.sleep(0.005)
        return line

    def poll(self) -> int | None:
        """Return its status once it has ended."""
        if self._status is None:
            self._status = _ask(self._commands, self.pid)
        return self._status

    def wait(self, patience_s: float) -> int:
        """Return its status, which it must have by then."""
        give_up = time.monotonic() + patience_s
        while (status := self.poll()) is None:
            assert time.monotonic() < give_up, "it does not end"
            time.sleep(0.005)
        return status

    def send_signal(self, sign: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sign)


def _ready(program: str) -> Iterator[subprocess.Popen]:
    """Yield a program of this folder, once it says that it is ready for requests."""
    command, pipe = [sys.executable, str(Path(__file__).parent / program)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def _free_port() -> int:
    """Return a port that nobody listens on, nor is given by the system before it is used."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    draw = random.SystemRandom()
    while True:
        # Other workers take other ports, and who names none is given one from 32,768 on by Linux.
        port = draw.randrange(10_000 + worker, 32_000, workers)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Collector:
    """`faintly serve` on one folder and one port: started, killed and started again."""

    def __init__(self, forks: subprocess.Popen, folder: Path, **settings: object) -> None:
        self._forks, self.folder = forks, folder
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = folder.with_suffix(".toml")
        self.settings.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        self.pid = 0

    def start(self, mutant: str = "") -> "Collector":
        where = ["serve", "--data", str(self.folder), "--port", str(self.port)]
        how = ["--config", str(self.settings), "--log-level", "warning", "--json"]
        self._forks.stdin.write(json.dumps([mutant, *where, *how]) + "\n")
        self._forks.stdin.flush()
        self.pid = json.loads(self._forks.stdout.readline())["pid"]
        assert json.loads(self._forks.stdout.readline())["port"] == self.port
        return self

    def has_ended(self) -> bool:
        """Return whether the process has ended by itself."""
        return not _lives(self.pid)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, which seals what is pending."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        pid, self.pid = self.pid, 0
        if not pid:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, how)
        give_up = time.monotonic() + 30
        while _lives(pid):
            assert time.monotonic() < give_up, "the collector does not end"
            time.sleep(0.005)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="session")
def forks() -> Iterator[subprocess.Popen]:
    """A process that has imported the collector and forks it on request."""
    yield from _ready("serving.py")


@pytest.fixture
def collector(forks: subprocess.Popen, tmp_path: Path) -> Iterator[Callable[..., Collector]]:
    """Return a maker of collectors, all of which end with the test."""
    made: list[Collector] = []

    def make(folder: Path | None = None, **settings: object) -> Collector:
        made.append(Collector(forks, folder or tmp_path / "collected", **settings))
        return made[-1]

    yield make
    for each in made:
        each.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip(
            "mounting a small disk needs root; unit tests and that of the file limit run anyway"
        )
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def port() -> int:
    """Return a port that nobody listens on."""
    return _free_port()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for localhost and of the key that signed it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """Return the options of an S3 server on the loopback address, with an empty bucket."""
    boto3 = pytest.importorskip("boto3")
    # A process of its own: deltalake keeps Python's lock while it waits for an answer.
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    address = f"http://127.0.0.1:{int(server.stdout.readline())}"
    options = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    client = boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    client.create_bucket(Bucket="lake")
    yield options
    server.kill()
    server.wait()
