"""Projection choice in tables of the linear family's 256 rows, few enough to list."""

import numpy as np

from faintly.core.arrays import IntArray
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.projection_choice import ProjectionChoice
from faintly.planner import make_plan

EXACT = 1e-12
ROWS = 2**8
EVERY_ROW = np.arange(ROWS, dtype=np.uint32)


def small(sparsity: int, bins: int, groups: int = 1, **options: object) -> ProjectionChoice:
    """Return a mechanism whose groups have 256 rows each."""
    wanted = {"protect": "user", "epsilon": 1.0, "clients": 1000, "universe": 200}
    wanted |= {"mechanism": "projection-choice", "bits": 8 + bins.bit_length() - 1}
    sizes = {"sparsity": sparsity, "bins": bins, "groups": groups}
    return mechanism_of(make_plan(salt=bytes(16), **wanted, **sizes, **options))


def places(mechanism: ProjectionChoice, codes: list[int]) -> IntArray:
    """Return the place of each code (rows) in every row of the family (columns)."""
    found = [mechanism.linear_bins.places(EVERY_ROW, np.uint32(code)) for code in codes]
    return np.array(found, dtype=np.int64).reshape(len(codes), ROWS)


def independent(mechanism: ProjectionChoice, codes: list[int]) -> bool:
    """Return whether the places of these codes are jointly uniform over all rows."""
    kinds = mechanism.bins * (1 + mechanism.linear_bins.signed)
    numbers = kinds ** np.arange(len(codes)) @ places(mechanism, codes)
    return len(set(np.bincount(numbers, minlength=kinds ** len(codes)).tolist())) == 1
