"""Local hashing as other libraries decode it, against our decode of as many reports and keys.

python -m benchmarks.peers [--json FILE]      after `make peers`

The peers take hours at this size, so they run on labelled subsets and are scaled linearly. Three
subsets check that: doubling the reports, or the keys, must double the time.
"""

import sys

import numpy as np

from benchmarks import QUICK, Row, Timing, document, measure, peer_process, samples
from benchmarks.decode import all_totals
from benchmarks.measure import one_core
from benchmarks.peer_process import Case
from benchmarks.result import gain
from benchmarks.script import finish, options, started

REPORTS = KEYS = 100_000
SUBSETS = ((2_000, 200), (4_000, 200), (2_000, 400))
EXACT = ("pure-ldp OLH", "pure-ldp BLH", "multi-freq-ldpy OLH", "multi-freq-ldpy BLH")
FAST = "pure-ldp fast OLH"
TARGET = 1_000_000


def timed_with(peer: str) -> tuple[Timing, list[float], dict[str, str]]:
    """Return the time of our full decode, the peer's times on the subsets, and its versions.

    Ours runs before and after the peer, so that both see the machine as it is then.
    """
    plan = samples.one_cell_plan(REPORTS, KEYS)
    batches = list(samples.batches(plan, REPORTS, REPORTS))
    ids = np.arange(KEYS, dtype=np.uint64)

    def ours() -> Timing:
        with one_core():
            return measure(lambda: all_totals(plan, batches, ids), QUICK)

    before = ours()
    seconds, versions = peer_process.ask([Case(peer, *subset) for subset in SUBSETS])
    after = ours()
    both = Timing(min(before.best, after.best), (before.median + after.median) / 2)
    return both, seconds, versions


def exact_row(peer: str, ours: Timing, seconds: list[float]) -> Row:
    """Return the row of a peer that looks at every pair of report and key."""
    each = [time / (reports * keys) for time, (reports, keys) in zip(seconds, SUBSETS, strict=True)]
    parts = ", ".join(
        f"{reports:,} x {keys:,}: {1e9 * pair:.0f} ns/pair"
        for pair, (reports, keys) in zip(each, SUBSETS, strict=True)
    )
    whole = min(each) * REPORTS * KEYS  # the best of the subsets, in the peer's favour
    return gain(
        f"peer_{peer.replace(' ', '_').replace('-', '_')}",
        f"decode {KEYS:,} keys from {REPORTS:,} reports, against {peer}",
        (ours, Timing(whole, whole)),
        at_least=TARGET,
        note=f"{peer} is scaled linearly from subsets ({parts})",
    )


def fast_row(ours: Timing, seconds: list[float]) -> Row:
    """Return the row of the variant with few hash functions, whose time is linear in both sizes."""
    (small, keys), (large, _) = SUBSETS[:2]
    a_report = max(0.0, (seconds[1] - seconds[0]) / (large - small))
    a_key = max(0.0, (seconds[0] - small * a_report) / keys)
    whole = REPORTS * a_report + KEYS * a_key
    return gain(
        "peer_pure_ldp_fast_OLH",
        f"decode {KEYS:,} keys from {REPORTS:,} reports, against {FAST}",
        (ours, Timing(whole, whole)),
        note=f"{FAST} is another protocol: 1,000 shared hash functions, less accurate; "
        "its matrix of hashes is made outside the clock",
    )


def main() -> int:
    """Time ours against each peer, and print one table."""
    given = options("Peers").parse_args()
    if not peer_process.available():
        print(peer_process.HOW_TO, file=sys.stderr)
        return 2
    rows, versions = [], dict[str, str]()
    for peer in (*EXACT, FAST):
        started(peer)
        ours, seconds, versions = timed_with(peer)
        rows.append(fast_row(ours, seconds) if peer == FAST else exact_row(peer, ours, seconds))
    made = document(rows)
    made["versions"] |= {f"{name} (peers)": version for name, version in versions.items()}
    finish("Peers", made, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
