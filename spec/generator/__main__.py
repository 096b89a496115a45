"""python -m spec.generator: what `make vectors` calls."""

import sys

from spec.generator.vectors import main

if __name__ == "__main__":
    sys.exit(main())
