"""Speed on this machine, as ratios to a plain loop, a copy, a bare addition.

python -m benchmarks [--quick] [--suite NAME | --only NAME ...] [--json FILE]

Each ratio comes from one run, in which both sides alternate. The status is 0 even if targets are
missed: machines differ, and may be busy.
"""

import sys

from benchmarks.run import BENCHMARKS, QUICK_BENCHMARKS, SUITES, document, run
from benchmarks.script import finish, options, started


def main() -> int:
    """Measure the chosen benchmarks, print the table, and save it with --json FILE."""
    parser = options("Ratios on this machine.")
    parser.add_argument("--quick", action="store_true", help="the main ratios, within a minute")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--suite", choices=SUITES, help="the benchmarks of one file of results")
    chosen.add_argument(
        "--only", action="append", choices=BENCHMARKS, help="this one alone; repeatable"
    )
    given = parser.parse_args()
    every = tuple(QUICK_BENCHMARKS if given.quick else BENCHMARKS)
    title, names = SUITES[given.suite] if given.suite else ("Ratios", given.only or every)
    made = document(run(names, quick=given.quick, on_start=started))
    finish(title, made, given.json)
    if made["kernel"] == "numpy":
        print("note: these are the numpy kernels; with a C compiler they are much faster")
    return 0


if __name__ == "__main__":
    sys.exit(main())
