"""The installed command, run as a real process."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def faintly(tmp_path: Path) -> Run:
    """Return a function that runs `faintly ARGUMENTS` in a fresh folder."""

    def run(*arguments: object, status: int = 0) -> Result:
        command = [sys.executable, "-c", "from faintly.cli import main; main()"]
        done = subprocess.run(
            [*command, *(str(argument) for argument in arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stderr + done.stdout
        return Result(done.returncode, done.stdout, done.stderr)

    return run
