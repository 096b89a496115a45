"""Predictions for noisy bins, from noise, collisions with other keys, and rounding."""

import math
from typing import TYPE_CHECKING

import numpy as np

from faintly.core import VectorBatch
from faintly.core.arrays import FloatArray, IdArray
from faintly.mechanisms import simulation
from faintly.mechanisms.forecast import Forecast

if TYPE_CHECKING:
    from faintly.mechanisms.signed_binning import SignedBinning


class BinForecast(Forecast):
    """Variance and loss of noisy bins; collisions are spread over all of them."""

    mechanism: "SignedBinning"

    def pair_covariance(self) -> float:
        """Return 1/b: in one bin, with chance 1/b, s·s'·y² has the mean 2v·v' and not v·v'."""
        return 1 / self.mechanism.bins

    def variance(self, mean_square: float) -> float:
        """Return noise plus collisions: `mean_square` spread over b bins."""
        return self.mechanism.noise_variance + mean_square / self.mechanism.bins

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return noise, collisions with all other keys, and rounding."""
        mechanism = self.mechanism
        rounding = simulation.rounding_variance(vectors, mechanism.steps)
        own = simulation.means_at(vectors, rounding, ids)
        others = simulation.mean_square(vectors) + float(rounding.sum()) / max(1, len(vectors))
        mine = simulation.means_at(vectors, simulation.by_value(np.square, vectors), ids) + own
        return mechanism.noise_variance + own + (others - mine) / mechanism.bins

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return the chance that the items of a client fill a bin up to its bound.

        Further items no longer show there. The signed sum is taken as normal.
        """
        mechanism = self.mechanism
        reach = (mechanism.range if mechanism.clip is None else mechanism.clip) / mechanism.steps
        out, over = np.zeros(len(vectors)), simulation.sums_of(vectors, np.abs) > reach
        spread = np.sqrt(simulation.sums_of(vectors, np.square)[over] / mechanism.bins)
        out[over] = [math.erfc(reach / (math.sqrt(2) * one)) for one in spread.tolist()]
        return out

    def influence(self) -> float:
        return self.mechanism.range / self.mechanism.steps
