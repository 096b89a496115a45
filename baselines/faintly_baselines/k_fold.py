"""k-fold repetition: a 1-sparse scheme with the whole epsilon for each of k slots.

Items and dummies are dealt to the k slots by a uniform permutation, so that one item more
changes one slot. In the order of their keys it would shift all slots behind it, and lose
k·epsilon. Baseline of Zhou et al. 2022; `one_sparse` has the client and the server, and
k_fold.proof.md the arguments. The paper sends 4 bytes per slot and 4 more.
"""

from dataclasses import dataclass
from typing import ClassVar

from faintly.core import EventLevel, Unit
from faintly.mechanisms.registry import register
from faintly_baselines.one_sparse import OneSparse


@register("k-fold")
@dataclass(frozen=True, kw_only=True)
class KFold(OneSparse):
    """A slot for each of k items."""

    protects: ClassVar[Unit] = EventLevel()
    theorem: ClassVar[str] = "k_fold.proof.md, Theorem 1 (a change of one item changes one slot)"

    @property
    def slots(self) -> int:
        """Return k: every item of a client has a slot of its own."""
        return self.plan.sparsity
