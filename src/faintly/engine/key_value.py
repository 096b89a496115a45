"""Key-value answers: how many hold a key, and the mean of its value among them.

F and V are the estimated means of the coordinates held and value of a key; m = V/F. With
σ_F², σ_V² and γ for their variances and covariance,

stderr     √(σ_V² - 2mγ + m²σ_F²) / F, the delta method
interval   all m with (V - mF)² ≤ z²·(σ_V² - 2mγ + m²σ_F²), by Fieller: V - mF has the mean 0
           at the true m, whatever F is. Where F is far above its noise, it is m ± z·stderr.

Where F itself could be noise, nothing is known about m: it is NaN, in the interval [-1, 1].
γ is n⁻¹ times V times the mechanism's `pair_covariance`, since held·value = value; where a
mechanism does not know that, the worst correlation is assumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faintly.core import AnyArray, Estimates, FloatArray, Key
from faintly.core.arguments import instance
from faintly.core.estimate import normal_quantile
from faintly.core.key_value import sides
from faintly.engine.answers import Reader
from faintly.engine.keys import key_list
from faintly.errors import InvalidInput


@dataclass(frozen=True, slots=True, eq=False)
class ConditionalMeans:
    """Frequency of each key and mean of its value among those who hold it, as columns."""

    keys: Sequence[Key]
    frequency: Estimates  # of the coordinates held
    totals: Estimates  # of the coordinates value: mean over all clients, 0 where not held
    covariance: FloatArray  # of the two, key by key

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def mean(self) -> FloatArray:
        """Return the mean value among holders; NaN where the frequency could be noise."""
        known = self._known(normal_quantile(self.frequency.level))
        out = np.full(len(self), np.nan)
        np.divide(self.totals.mean, self.frequency.mean, out=out, where=known)
        return out

    @property
    def stderr(self) -> FloatArray:
        """Return the standard error of the mean, by the delta method."""
        mean = self.mean
        spread = self.totals.stderr**2 - 2 * mean * self.covariance
        spread += (mean * self.frequency.stderr) ** 2
        out = np.full(len(self), np.nan)
        # Only rounding can make it negative, where the two estimates are one.
        np.divide(
            np.sqrt(np.maximum(spread, 0.0)), self.frequency.mean, out=out, where=~np.isnan(mean)
        )
        return out

    @property
    def low(self) -> FloatArray:
        """Return the lower ends of the pointwise intervals of the mean."""
        return self._interval(normal_quantile(self.frequency.level))[0]

    @property
    def high(self) -> FloatArray:
        """Return the upper ends of the pointwise intervals of the mean."""
        return self._interval(normal_quantile(self.frequency.level))[1]

    @property
    def low_all(self) -> FloatArray:
        """Return the lower ends of the simultaneous intervals over all keys asked."""
        return self._interval(normal_quantile(self.frequency.level, len(self)))[0]

    @property
    def high_all(self) -> FloatArray:
        """Return the upper ends of the simultaneous intervals over all keys asked."""
        return self._interval(normal_quantile(self.frequency.level, len(self)))[1]

    def _known(self, z: float) -> np.ndarray:
        return np.asarray(self.frequency.mean > z * self.frequency.stderr)

    def _interval(self, z: float) -> tuple[FloatArray, FloatArray]:
        """Return where a·m² - 2b·m + c ≤ 0, within [-1, 1]."""
        held, total, known = self.frequency, self.totals, self._known(z)
        a = np.where(known, held.mean**2 - (z * held.stderr) ** 2, 1.0)
        b = held.mean * total.mean - z**2 * self.covariance
        c = total.mean**2 - (z * total.stderr) ** 2
        # V/F is always in the set, so only rounding can make the square negative.
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        low = np.where(known, (b - root) / a, -1.0)
        high = np.where(known, (b + root) / a, 1.0)
        return low.clip(-1, 1), high.clip(-1, 1)

    def columns(self) -> dict[str, object]:
        """Return the answers as a dictionary of columns, `key` first."""
        return {
            "key": list(self.keys),
            "frequency": self.frequency.mean,
            "frequency_stderr": self.frequency.stderr,
            "mean": self.mean,
            "stderr": self.stderr,
            "low": self.low,
            "high": self.high,
        }


def conditional_means(reader: Reader, keys: Sequence[Key] | AnyArray) -> ConditionalMeans:
    """Return frequency and conditional mean of each key of a key-value plan.

    Args:
        reader: of a sketch whose plan `key_value_plan` made.
        keys: of entries, as clients hold them.
    """
    instance(reader, Reader, "reader", "made of a sketch")
    keys = key_list(keys)
    size = reader.sketch.plan.universe.size
    if size is not None and size % 2:
        raise InvalidInput("the plan is not one for key-value data; make it by key_value_plan")
    held, value = (reader.estimate(side) for side in sides(keys))
    return ConditionalMeans(list(keys), held, value, _covariance(reader, held, value))


def _covariance(reader: Reader, held: Estimates, value: Estimates) -> FloatArray:
    most = held.stderr * value.stderr
    factor = reader.mechanism.forecast.pair_covariance()
    if factor is None:
        return -np.sign(value.mean) * most
    return np.clip(factor * value.mean / held.reports, -most, most)
