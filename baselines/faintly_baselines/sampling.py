"""Sampling: one of k items, dummies included, under a 1-sparse scheme with the whole epsilon.

A report depends on its vector through one symbol alone, so any change of the vector is hidden; the
price is the factor k of the estimate. Qin et al. 2016, Wang et al. 2018, and baseline of Zhou
et al. 2022; `one_sparse` has the client and the server, sampling.proof.md the arguments. The
paper sends 8 bytes.
"""

from dataclasses import dataclass
from typing import ClassVar

from faintly.core import Unit, UserLevel
from faintly.mechanisms.registry import register
from faintly_baselines.one_sparse import OneSparse


@register("sampling")
@dataclass(frozen=True, kw_only=True)
class Sampling(OneSparse):
    """One slot, for one of k items."""

    protects: ClassVar[Unit] = UserLevel()
    theorem: ClassVar[str] = "sampling.proof.md, Theorem 1 (a report is one randomized symbol)"

    @property
    def slots(self) -> int:
        """Return 1: a report is about a single item."""
        return 1
