"""Fuzz one target: python fuzz/run.py TARGET SECONDS [FOLDER].

FOLDER keeps what was found interesting from one run to the next. Ends with a status that is not 0
when anything but a FaintlyError comes out, and leaves the input in crash-*.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["faintly", "targets"]):
    sys.path.insert(0, str(Path(__file__).parent))
    import targets

from faintly.errors import FaintlyError


def main() -> None:
    """Set the fuzzer up; it ends the process by itself."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    target = targets.planted if name == "planted" else targets.TARGETS[name]
    corpus = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(targets.examples(name)):
        (corpus / f"example-{number}").write_bytes(example)

    def once(data: bytes) -> None:
        try:
            target(data)
        except FaintlyError:
            return

    # Whether the planted mistake is found must not depend on the day.
    limits = ["-seed=1"] if name == "planted" else []
    limits += ["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", *limits, str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
