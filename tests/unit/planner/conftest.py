"""A crowd of which every fifth client holds far more than the others."""

import numpy as np
import pytest

from faintly.core import VectorBatch

CLIENTS, KEYS, FEW, MANY = 50_000, 500, 8, 60


@pytest.fixture(scope="session")
def crowd() -> VectorBatch:
    """Every fifth of 50,000 holds 60 items, the others 8; 60 % hold item 0."""
    generator = np.random.default_rng(1)
    clients = np.arange(CLIENTS)
    lengths = np.where(clients % 5 == 0, MANY, FEW)
    # Runs of keys from a random start, and item 0 for every long client and half of the others.
    owners = np.repeat(clients, lengths - 1)
    steps = np.arange(len(owners)) - np.repeat(np.cumsum(lengths - 1) - (lengths - 1), lengths - 1)
    rest = 1 + (generator.integers(0, KEYS - 1, CLIENTS)[owners] + 7 * steps) % (KEYS - 1)
    zero = clients[(clients % 5 == 0) | (clients % 2 == 0)]
    return VectorBatch.from_rows(
        np.concatenate([owners, zero]),
        np.concatenate([rest, np.zeros(len(zero), dtype=np.int64)]).astype(np.uint64),
        np.ones(len(owners) + len(zero)),
        CLIENTS,
    )
