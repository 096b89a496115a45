"""Ask a collector in loops until told to stop; a process beside the server.

Reads {"port", "path", "body", "loops"} as a line of JSON from standard input, and asks until the
input ends. Prints a line once the first answer has come, and then how many came with each status.
"""

import http.client
import json
import sys
import threading
from collections import Counter
from typing import Any

PIECE = 1 << 20


def ask(job: dict[str, Any], body: bytes, seen: Counter[int], first: threading.Event) -> None:
    """Ask the same question again and again, and throw the answers away."""
    connection = http.client.HTTPConnection("127.0.0.1", job["port"])
    while True:
        connection.request("POST", job["path"], body, {"content-type": "application/json"})
        answer = connection.getresponse()
        while answer.read(PIECE):
            pass
        seen[answer.status] += 1
        first.set()


def main() -> None:
    """Ask in as many loops as wanted."""
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
