"""A process that forks commands, on request: everything is imported once, each is its own.

Each line on standard input is a JSON object: the program, which is `faintly` or `evaluation`, its
arguments, folder, environment and output files. Prints the status of the command when it has ended.
"""

import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # where `evaluation` is

# ruff: noqa: F401 — these take long to import
import pydantic
import rich.console

import faintly.collector.storage.store
import faintly.data
import faintly.engine
import faintly.planner
import faintly.simulate
from evaluation.command import main as evaluation
from faintly.cli import main as faintly_main

PROGRAMS = {"faintly": faintly_main, "evaluation": evaluation}
LONGEST_S = 120  # no command of the tests takes that long


def become(command: dict) -> None:
    """Take the place of a process that was started with this command."""
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    for number, name in enumerate((os.devnull, command["out"], command["err"])):
        file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.argv = [command["program"], *command["arguments"]]
    signal.alarm(LONGEST_S)


def answer_requests() -> Callable[[], None] | None:
    """Fork for each line on standard input, and return the program to run in the forks."""
    gc.freeze()  # or collecting garbage would copy every page to each fork
    _say("ready")
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            command = json.loads(line)
            become(command)
            return PROGRAMS[command["program"]]
        _say(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    return None


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__" and (program := answer_requests()):
    program()
