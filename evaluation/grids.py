"""The sizes of experiments.

quick    few points, 20,000 clients: checks the order of the methods within minutes
default  the paper's sizes up to k = 256
full     all of the paper's points, k up to 1024
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The sizes that experiments are made of."""

    name: str
    runs: int
    clients: int
    sparsities: tuple[int, ...]
    epsilons: tuple[float, ...]
    universes: tuple[int, ...]
    distances: tuple[int, ...]
    crowds: tuple[int, ...]
    wide: int = 100_000  # universe of the panels that ask about the top 100
    sparsity: int = 64  # of the panels that vary something else
    held: int = 100  # sparsity at which event level is compared with the paper
    stored_epsilons: tuple[float, ...] = (1.0, 2.0, 4.0)


QUICK = Grid(
    name="quick",
    runs=3,
    clients=20_000,
    sparsities=(4, 32),
    epsilons=(1.0, 3.0),
    universes=(512, 4096),
    distances=(1, 4, 32),
    crowds=(5_000, 20_000),
    wide=10_000,
    sparsity=16,
    held=16,
    stored_epsilons=(1.0, 3.0),
)
DEFAULT = Grid(
    name="default",
    runs=10,
    clients=100_000,
    sparsities=(1, 4, 16, 64, 256),
    epsilons=(0.5, 1.0, 1.5, 2.5, 3.5),
    universes=(64, 512, 4096, 100_000),
    distances=(1, 4, 16, 64, 128),
    crowds=(10_000, 30_000, 100_000, 300_000),
)
FULL = Grid(
    name="full",
    runs=10,
    clients=100_000,
    sparsities=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    epsilons=(0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5),
    universes=(64, 128, 256, 512, 1024, 4096, 16_384, 65_536, 100_000),
    distances=(1, 2, 4, 8, 16, 32, 64, 128),
    crowds=(10_000, 30_000, 100_000, 300_000, 1_000_000),
)
