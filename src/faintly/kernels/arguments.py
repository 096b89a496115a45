"""Argument checks that kernels of several modules share."""

import re
from functools import cache

import numpy as np

from faintly.core.arrays import AnyArray

NAMES = {"u": "uint", "i": "int", "f": "float"}


def arrays(described: str, *given: AnyArray) -> list[AnyArray]:
    """Return the arrays in C order, or refuse one that is not as described.

    A description names arrays, their types and their sizes, as in "seeds u64[n], fields u32[n,w]".
    A size that is named twice is the same; n+1 is one more than n.
    """
    sizes: dict[str, int] = {}
    out = []
    for (name, dtype, letters), array in zip(_parsed(described), given, strict=True):
        fits = exactly(array, dtype, len(letters), name)
        for letter, size in zip(letters, fits.shape, strict=True):
            own = size - 1 if letter.endswith("+1") else size
            if sizes.setdefault(letter.removesuffix("+1"), own) != own:
                raise TypeError(f"sizes must pair up: {described}")
        out.append(fits)
    return out


@cache
def _parsed(described: str) -> list[tuple[str, type, list[str]]]:
    found = re.findall(r"(\w+) (\w+)\[(.*?)\]", described)
    return [
        (name, getattr(np, NAMES[kind[0]] + kind[1:]), sizes.split(","))
        for name, kind, sizes in found
    ]


def exactly(array: AnyArray, dtype: type, dimensions: int, name: str) -> AnyArray:
    """Return the array in C order, or refuse one of another type or number of dimensions."""
    if array.dtype == np.bool_ and dtype is np.uint8:
        array = array.view(np.uint8)  # the same bytes, 0 and 1
    if array.dtype != dtype or array.ndim != dimensions:
        raise TypeError(f"{name} must be {np.dtype(dtype).name} of {dimensions} dimension(s)")
    return np.ascontiguousarray(array if array.flags.aligned else array.copy())


def unsigned(value: int, bits: int, name: str) -> None:
    """Refuse an integer that does not fit so many bits."""
    if not 0 <= value < 2**bits:
        raise TypeError(f"{name} must fit {bits} bits")


def ascending(offsets: AnyArray, items: int) -> None:
    """Refuse offsets that do not cut `items` items into segments."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != items:
        raise TypeError("offsets must run from 0 to the number of items")
    if (offsets[1:] < offsets[:-1]).any():
        raise TypeError("offsets must ascend")


def segments(
    described: str, seeds: AnyArray, offsets: AnyArray, *items: AnyArray
) -> list[AnyArray]:
    """Return the columns of clients, checked, and those of their items, as described."""
    columns = arrays(f"seeds u64[n], offsets i64[n+1], {described}", seeds, offsets, *items)
    ascending(columns[1], len(columns[2]))
    return columns


def elements(symbols: AnyArray, order: int) -> None:
    """Refuse symbols that are not elements of the field."""
    if symbols.min(initial=0) < 0 or symbols.max(initial=0) >= order:
        raise IndexError(f"a symbol lies outside the field of {order} elements")
