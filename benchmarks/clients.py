"""What clients do in bulk: randomize, hash, score, pack.

python benchmarks/clients.py [--quick] [--json FILE]
"""

import sys

from faintly.bench.script import main

if __name__ == "__main__":
    sys.exit(main("Clients", ["binning", "others", "scores", "randomness"]))
