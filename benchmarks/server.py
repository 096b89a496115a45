"""What a server does besides decoding: take bytes in, answer text keys, merge.

python benchmarks/server.py [--quick] [--json FILE]
"""

import sys

from faintly.bench.script import main

if __name__ == "__main__":
    sys.exit(main("Server", ["ingest", "text-keys", "merge"]))
