"""`primitives.rounding` with a kernel for the first word of every value."""

import numpy as np

from faintly import kernels
from faintly.core import FloatArray, NarrowArray
from faintly.primitives.entropy import Rng
from faintly.primitives.rounding import settle


def round_values(values: FloatArray, steps: int, rng: Rng) -> NarrowArray:
    """Return the same as `round_unbiased` with the same words, for values in [-1, 1]."""
    rounded, ties = kernels.round_values(values, steps, rng.words(len(values)))
    if len(ties):
        rounded[ties] += settle(values[ties], steps, rng).astype(np.int32)
    return rounded
