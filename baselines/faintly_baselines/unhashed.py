"""What baselines without a hash share: keys are named in the clear, and reports are added up."""

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from faintly.core import FloatArray, Hashing, IntArray, Layout, Plan, Universe, VectorBatch
from faintly.errors import InvalidPlan
from faintly.mechanisms import Mechanism
from faintly.mechanisms import parameters as require
from faintly.mechanisms.coordinates import FAMILY, CoordinatesLaw
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.request import Request
from faintly.primitives import noise
from faintly.primitives.entropy import Rng
from faintly.primitives.rounding import bernoulli


class Unhashed(Mechanism):
    """A baseline over an indexed or named universe, decoded directly, without seeds."""

    baseline: ClassVar[bool] = True

    @property
    def keys(self) -> int:
        """Return d, the number of keys."""
        assert self.plan.universe.size is not None
        return self.plan.universe.size


class OneKeyForecast(Forecast):
    """The influence of reports about one key."""

    mechanism: "OneKey"

    def influence(self) -> float:
        """Return the most that one report can read at its key."""
        return self.mechanism.scale


class OneKeyLaw(CoordinatesLaw):
    """The small cases of reports about one key."""

    mechanism: "OneKey"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield four keys, with up to two items more than planned."""
        few = Universe.indexed(4)
        yield SmallCase(self.small(sparsity=1, universe=few), items=3)
        yield SmallCase(self.small(sparsity=2, universe=few), (-1.0, 0.0, 0.5), 4)


class OneKey(Unhashed):
    """A baseline whose clients each answer about one key, drawn uniformly from all."""

    forecast = cached_property(OneKeyForecast)
    law = cached_property(OneKeyLaw)

    answers: ClassVar[int]  # how many a client chooses from

    @cached_property
    def layout(self) -> Layout:
        """Return the key and the answer about it; there is no seed."""
        limits = (self.keys, self.answers)
        widths = tuple(max(1, (limit - 1).bit_length()) for limit in limits)
        return Layout(seed_bytes=0, widths=widths, limits=limits)

    @property
    @abstractmethod
    def attenuation(self) -> float:
        """Return the mean of the signs that are sent about a held key of value +1."""

    @property
    def scale(self) -> float:
        """Return d over the attenuation: only one client in d answers for a key."""
        return self.keys / self.attenuation


def check(given: Request | Plan, owner: str) -> Hashing:
    """Return the hash that a plan names, or refuse an open universe, tables or another hash."""
    hashing = require.direct(given, owner, FAMILY)
    if given.universe.size is None:
        raise InvalidPlan(f"{owner} numbers its keys; give a size or a list of names")
    return hashing


def check_response(value: Any, name: str) -> int:
    """Return a threshold for which the truth is likelier than a lie, but not certain."""
    return require.integer(value, name, noise.FULL // 2 + 1, noise.FULL - 1)


def largest_variance(unheld: float, excess: float) -> float:
    """Return the largest n·Var over the value v that everyone has at a key.

    n·Var is unheld + excess·|v| - v², where `unheld` is that of a key nobody holds.
    """
    most = min(1.0, excess / 2)
    return unheld + excess * most - most**2


def simulation_source(secret: Rng) -> np.random.Generator:
    """Return a numpy generator for simulated sums; never for a client."""
    return np.random.Generator(np.random.Philox(secret.words(4).tolist()))


def signs_with_mean(values: FloatArray, rng: Rng) -> IntArray:
    """Return +1 or -1 with exactly the given mean, for each entry in [-1, 1].

    The sign of the value is taken with the chance |value|, and a fair coin otherwise.
    """
    taken = bernoulli(np.abs(values), rng)
    coin = rng.words(len(values)) < noise.FULL // 2
    return np.where(np.where(taken, values > 0, coin), 1, -1)


def respond(signs: IntArray, threshold: int, rng: Rng) -> IntArray:
    """Return each sign, kept with chance threshold/2^32 and flipped otherwise."""
    return np.where(rng.words(len(signs)) < threshold, signs, -signs)


def values_at(vectors: VectorBatch, keys: IntArray, size: int) -> FloatArray:
    """Return the value of client i at keys[i]; 0 where it holds none."""
    rows = vectors.owners * size + vectors.indices.astype(np.int64)
    wanted = np.arange(len(vectors)) * size + keys
    place = np.searchsorted(rows, wanted)
    found = np.zeros(len(vectors))
    inside = place < len(rows)
    held = inside.copy()
    held[inside] = rows[place[inside]] == wanted[inside]
    found[held] = vectors.values[place[held]]
    return found
