"""Names for the array types that modules exchange."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
NarrowArray = NDArray[np.int32]
TableArray = NDArray[np.signedinteger[Any]]  # of 32 or 64 bits, whichever its mass needs
WordArray = NDArray[np.uint32]
IdArray = NDArray[np.uint64]
FloatArray = NDArray[np.float64]
AnyArray = NDArray[Any]
ArrayOrScalar = NDArray[Any] | np.generic | int  # what elementwise functions accept
