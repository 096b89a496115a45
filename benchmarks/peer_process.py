"""Run the peers, installed in .venv-peers, to time their local-hashing decode."""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
HOW_TO = "the peers have no environment yet; run: make peers"


class Case(NamedTuple):
    """One decode to time."""

    peer: str
    reports: int
    keys: int


def available() -> bool:
    """Return whether the peers' environment is there."""
    return PYTHON.exists()


def ask(cases: list[Case]) -> tuple[list[float], dict[str, str]]:
    """Return the seconds of each case, and the peers' versions."""
    done = subprocess.run(
        [str(PYTHON), "-W", "ignore", str(Path(__file__).with_name("peer_worker.py"))],
        input=json.dumps([case._asdict() for case in cases]),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the peers failed: {done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer["seconds"], answer["versions"]
