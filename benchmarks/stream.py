"""Stream reports of one cell through ingestion; memory must stay flat.

python -m benchmarks.stream [--reports 1e8] [--json FILE]
"""

import sys
from pathlib import Path

from benchmarks import FULL, document
from benchmarks.script import finish, options
from benchmarks.server import stream


def main() -> int:
    """Stream as many reports as asked for."""
    parser = options("Streaming")
    parser.add_argument("--reports", type=float, default=1e8, help="how many; 1e8 by default")
    given = parser.parse_args()
    path: Path | None = given.json
    finish("Streaming", document(stream(FULL, reports=int(given.reports))), path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
