"""The two kernels of table decoding, beside the memory that they cannot do without.

python benchmarks/tables.py [--quick] [--json FILE]
"""

import sys

from faintly.bench.script import main

if __name__ == "__main__":
    sys.exit(main("Tables", ["scatter", "transform"]))
