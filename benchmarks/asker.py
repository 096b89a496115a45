"""Query a collector in several loops, from a process of its own, until told to stop.

Reads {"port", "path", "body", "loops"} as a line of JSON from standard input, and queries until the
input ends. Prints a line after the first answer and, at the end, the number of answers by status.
"""

import http.client
import json
import sys
import threading
from collections import Counter
from typing import Any

PIECE = 1 << 20


def ask(job: dict[str, Any], body: bytes, seen: Counter[int], first: threading.Event) -> None:
    """Send the same query over and over, and discard the answers."""
    connection = http.client.HTTPConnection("127.0.0.1", job["port"])
    while True:
        connection.request("POST", job["path"], body, {"content-type": "application/json"})
        answer = connection.getresponse()
        while answer.read(PIECE):
            pass
        seen[answer.status] += 1
        first.set()


def main() -> None:
    """Run the loops of one job."""
    job = json.loads(sys.stdin.readline())
    body, seen, first = job["body"].encode(), Counter[int](), threading.Event()
    for _ in range(job["loops"]):
        threading.Thread(target=ask, args=(job, body, seen, first), daemon=True).start()
    first.wait()
    print("answered", flush=True)
    sys.stdin.read()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
