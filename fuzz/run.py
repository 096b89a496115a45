"""Fuzz targets one after another: python fuzz/run.py SECONDS FOLDER TARGET...

Each is a fork of one process, because instrumenting the code takes as long as a short run.
FOLDER/TARGET keeps interesting inputs from one run to the next, TARGET.log what the fuzzer says.
Prints each target with its status, which is not 0 when anything but a FaintlyError comes out; the
input is then left in crash-*.
"""

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["faintly", "targets"]):
    sys.path.insert(0, str(Path(__file__).parent))
    import targets

from faintly.errors import FaintlyError


def main() -> None:
    """Fork for each target, and wait for it."""
    seconds, folder = int(sys.argv[1]), Path(sys.argv[2])
    for name in sys.argv[3:]:
        pid = os.fork()
        if not pid:
            fuzz(name, seconds, folder / name)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(name, status, flush=True)  # noqa: T201


def fuzz(name: str, seconds: int, corpus: Path) -> None:
    """Set the fuzzer up; it ends the process by itself."""
    log = os.open(f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    target = targets.planted if name == "planted" else targets.TARGETS[name]
    corpus.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(targets.examples(name)):
        (corpus / f"example-{number}").write_bytes(example)

    def once(data: bytes) -> None:
        try:
            target(data)
        except FaintlyError:
            return

    # Whether the planted mistake is found must not depend on the day.
    planted = ["-seed=1", "-max_total_time=60"]
    limits = planted if name == "planted" else [f"-max_total_time={seconds}"]
    limits += ["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
