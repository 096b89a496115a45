"""A process that forks commands, on request: everything is imported once, each is its own.

Each line on standard input is a JSON object: the program, which is `faintly` or `evaluation`, its
arguments, folder, environment and output files. Prints the status of the command when it has ended;
of one with a limit of open files, which runs on its own, the process id, and the status, or null,
for each later line with that number.
"""

import gc
import json
import os
import resource
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # where `evaluation` is

# ruff: noqa: F401 — these take long to import
import rich.progress
import rich.table
from pydantic import TypeAdapter
from typer.main import get_command

import faintly.data
import faintly.engine
import faintly.planner
import faintly.simulate
import faintly_collector.admin.fsck
from evaluation.command import app as evaluation
from faintly.cli import app, main, plan_output
from tests.system.serving import end_with_parent

PROGRAMS = {"faintly": get_command(app), "evaluation": get_command(evaluation)}
LONGEST_S = 120  # no command of the tests takes that long


def become(command: dict) -> None:
    """Take the place of a process that was started with this command."""
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    for number, name in enumerate((os.devnull, command["out"], command["err"])):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.argv = [command["program"], *command["arguments"]]
    if "files" in command:
        end_with_parent()
        resource.setrlimit(resource.RLIMIT_NOFILE, command["files"])
    else:
        signal.alarm(LONGEST_S)


def run(program: str) -> None:
    """Run a program and end this process; a traceback takes the usual way."""
    try:
        main(PROGRAMS[program])
        status = 0
    except SystemExit as end:
        status = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(
        status
    )  # taking everything down that was imported would take longer than most commands


def answer_requests() -> str:
    """Fork for each line on standard input, and return the program to run in the forks."""
    gc.freeze()  # or collecting garbage would copy every page to each fork
    _say("ready")
    for line in sys.stdin:
        command = json.loads(line)
        if isinstance(command, int):
            pid, ended = os.waitpid(command, os.WNOHANG)
            _say(json.dumps(os.waitstatus_to_exitcode(ended) if pid else None))
            continue
        pid = os.fork()
        if not pid:
            become(command)
            return command["program"]
        if "files" in command:
            _say(str(pid))
        else:
            _say(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    return ""


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__" and (program := answer_requests()):
    run(program)
