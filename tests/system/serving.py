"""A process that forks collectors, on request: everything is imported once, each is its own.

Each line on standard input is a JSON list: the name of a mutant, how to die or "", then the
arguments of `faintly`. Prints the process id of the fork, which then says the rest. The mutants
break what the crash test must notice; they live here, so that the product has no switch for them.
"""

import ctypes
import gc
import inspect
import json
import os
import signal
import sys
import threading
from concurrent.futures import Future

from pydantic import TypeAdapter  # noqa: F401  this and the next take long to import
from typer.main import get_command

import faintly_collector.http.serve  # noqa: F401
from faintly.cli import app, main
from faintly_collector.storage.manifest import Manifest
from faintly_collector.storage.seal import Sealer
from faintly_collector.storage.sketches import Sketches
from faintly_collector.storage.store import Store

take = Store.take
SIGNATURE = inspect.signature(take)
PROGRAM = get_command(app)
STEPS = {  # of a seal: the call that ends it or, once written, comes next, as a seal makes it
    "read": (Sealer, "read_oldest", 3),
    "written": (Manifest, "change", 5),
    "committed": (Manifest, "change", 5),
    "done": (Sketches, "refresh", 3),
}
LATE_S = 0.1  # a quick disk would close the gap before a kill falls into it


def answers_early(*given, **named):
    """Say "counted" a moment before the reports are on the disk."""
    call = SIGNATURE.bind(*given, **named)
    waiter, call.arguments["waiter"] = call.arguments["waiter"], Future()
    threading.Timer(LATE_S, take, call.args, call.kwargs).start()
    waiter.get_loop().call_soon_threadsafe(waiter.set_result, "counted")
    return 1


def forgets_requests(*given, **named):
    """Take every retry for a request of its own."""
    call = SIGNATURE.bind(*given, **named)
    call.arguments["request"] = os.urandom(16)
    return take(*call.args, **call.kwargs)


def die_sealing(step, seals):
    """Kill this process after a step of a seal, once that step was reached so many times.

    Seals count from the first request on, when the tests know that the process serves.
    """
    left, serving = int(seals), threading.Event()
    owner, name, arguments = STEPS[step]
    original = getattr(owner, name)

    def take_and_serve(*given, **named):
        serving.set()
        return take(*given, **named)

    def reached():
        nonlocal left
        left -= serving.is_set()
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def mortal(*given, **named):
        seals = len(given) == arguments
        if seals and step == "written":
            reached()
        made = original(*given, **named)
        if seals and step != "written" and (step != "read" or len(made[0])):
            reached()
        return made

    setattr(owner, name, mortal)
    Store.take = take_and_serve


def end_with_parent():
    """Let a collector die with the process that forked it, whatever ends the tests."""
    if sys.platform == "linux":
        die_with_parent = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(die_with_parent, signal.SIGKILL)


MUTANTS = {"": take, "answers_early": answers_early, "forgets_requests": forgets_requests}


def serve_on_request():
    """Fork a collector for each line on standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that are killed
    gc.freeze()  # or collecting garbage would copy every page to each fork
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        mutant, *arguments = json.loads(line)
        if os.fork():
            continue
        os.setpgid(0, 0)
        end_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        name, *how = mutant.split(" ")
        if name == "dies_sealing":
            die_sealing(*how)
        else:
            Store.take = MUTANTS[name]
        sys.argv = ["faintly", *arguments]
        main(PROGRAM)
        os._exit(0)


if __name__ == "__main__":
    serve_on_request()
