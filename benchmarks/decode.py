"""From reports to the totals of every key: by tables, directly, and by the paper's loop.

python benchmarks/decode.py [--quick] [--json FILE]
"""

import sys

from faintly.bench.script import main

if __name__ == "__main__":
    sys.exit(main("Decoding", ["decode", "many-cells", "direct", "hashed"]))
