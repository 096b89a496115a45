"""A process that forks commands, on request: everything is imported once, each is its own.

Each line on standard input is a JSON object: the arguments of `faintly`, its folder, environment
and output files. Prints the status of the command when it has ended.
"""

import gc
import json
import os
import signal
import sys

# ruff: noqa: F401 — these take long to import
import pydantic
import rich.console

import faintly.collector.storage.store
import faintly.data
import faintly.engine
import faintly.evaluation
import faintly.planner
from faintly.cli import main

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
    sys.argv = ["faintly", *command["arguments"]]
    signal.alarm(LONGEST_S)


def answer_requests() -> bool:
    """Fork for each line on standard input, and return True in the forks."""
    gc.freeze()  # or collecting garbage would copy every page to each fork
    _say("ready")
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            become(json.loads(line))
            return True
        _say(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    return False


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__" and answer_requests():
    main()
