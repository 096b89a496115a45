"""Time the peers' local-hashing decode; runs in their environment, not in ours.

Reads a list of {"peer", "reports", "keys"} as JSON from standard input, and prints for each the
processor seconds (best of three) and the versions. Their own clients make the reports, which is
not timed.
"""

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xxhash
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
from pure_ldp.frequency_oracles.local_hashing import (
    FastLHClient,
    FastLHServer,
    LHClient,
    LHServer,
)

EPSILON = 1.0
FUNCTIONS = 1000  # hash functions of the fast variant, which trades accuracy for time
Decode = Callable[[], object]


def pure_ldp(reports: int, keys: int, optimal: bool) -> Decode:
    """Return the decode of pure-ldp: aggregate each report, then estimate every key."""
    client = LHClient(EPSILON, keys, use_olh=optimal)
    sent = [client.privatise(1 + number % keys) for number in range(reports)]
    return lambda: _serve(LHServer(EPSILON, keys, use_olh=optimal), sent, keys)


def pure_ldp_fast(reports: int, keys: int) -> Decode:
    """Return the decode of the fast variant; making its matrix of hashes is not timed."""
    client = FastLHClient(EPSILON, keys, FUNCTIONS, use_olh=True)
    sent = [client.privatise(1 + number % keys) for number in range(reports)]
    hashed = [
        [xxhash.xxh32(str(key), seed=function).intdigest() % client.g for key in range(keys)]
        for function in range(FUNCTIONS)
    ]
    matrix = np.array(hashed, dtype=np.float64)
    return lambda: _serve(
        FastLHServer(EPSILON, keys, FUNCTIONS, use_olh=True, hash_matrix=matrix), sent, keys
    )


def _serve(server: Any, sent: list[Any], keys: int) -> object:
    for report in sent:
        server.aggregate(report)
    return server.estimate_all(range(1, keys + 1), suppress_warnings=True)


def multi_freq(reports: int, keys: int, optimal: bool) -> Decode:
    """Return the decode of multi-freq-ldpy."""
    sent = [LH_Client(number % keys, keys, EPSILON, optimal) for number in range(reports)]
    return lambda: LH_Aggregator_MI(sent, keys, EPSILON, optimal)


PEERS: dict[str, Callable[[int, int], Decode]] = {
    "pure-ldp OLH": lambda reports, keys: pure_ldp(reports, keys, optimal=True),
    "pure-ldp BLH": lambda reports, keys: pure_ldp(reports, keys, optimal=False),
    "pure-ldp fast OLH": pure_ldp_fast,
    "multi-freq-ldpy OLH": lambda reports, keys: multi_freq(reports, keys, optimal=True),
    "multi-freq-ldpy BLH": lambda reports, keys: multi_freq(reports, keys, optimal=False),
}


def seconds(decode: Decode) -> float:
    """Return the best time of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        decode()
        times.append(time.process_time() - start)
    return min(times)


def main() -> int:
    """Answer the cases on standard input."""
    cases = json.load(sys.stdin)
    timed = [seconds(PEERS[case["peer"]](case["reports"], case["keys"])) for case in cases]
    packages = ("pure-ldp", "multi-freq-ldpy", "xxhash", "numpy")
    versions = {name: importlib.metadata.version(name) for name in packages}
    json.dump({"seconds": timed, "versions": versions}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
