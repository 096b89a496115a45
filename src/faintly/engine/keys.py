"""Ids of many keys at once: those of `Plan.ids`, through a kernel where that is faster."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import AnyArray, IdArray, Key, Plan
from faintly.core.arguments import listed

BULK_KEYS = 256  # below, setting up a batch costs more than it saves


def key_list(keys: Any) -> Sequence[Key] | AnyArray:
    """Return keys that a caller asks about as a list or an array, or say what is wrong."""
    if isinstance(keys, np.ndarray) and keys.ndim == 1:
        return keys
    return keys if isinstance(keys, list | tuple | range) else listed(keys, "keys")


def ids_of(plan: Plan, keys: Iterable[Key] | AnyArray) -> IdArray:
    """Return the id of each key, with the errors of `Plan.ids`, which show public keys."""
    if plan.universe.kind != "open" or (isinstance(keys, np.ndarray) and keys.dtype.kind in "iu"):
        return plan.ids(keys)
    listed = keys.tolist() if isinstance(keys, np.ndarray) else keys
    if not isinstance(listed, list | tuple):
        listed = list(listed)
    joined = _joined(listed) if len(listed) >= BULK_KEYS else None
    if joined is None:
        return plan.ids(listed)
    data, lengths = joined
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return kernels.hash_keys(np.frombuffer(data, dtype=np.uint8), offsets, plan.salt)


def _joined(keys: Sequence[Any]) -> tuple[bytes, list[int]] | None:
    """Return all bytes of keys that are all text or all bytes, and the length of each."""
    kinds = set(map(type, keys))
    if kinds == {bytes}:
        return b"".join(keys), list(map(len, keys))
    if kinds != {str}:
        return None
    whole = "".join(keys)
    if whole.isascii():
        return whole.encode(), list(map(len, keys))
    try:
        parts = [key.encode() for key in keys]
    except UnicodeEncodeError:
        return None  # a lone surrogate: `Plan.ids` names its position
    return b"".join(parts), list(map(len, parts))
