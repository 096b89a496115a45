"""What clients hold beyond the plan's sparsity k, and what that does to means.

A mechanism's `forecast.lost` is the share of a client's values that reports leave out. The rest,

    carried mean of x = Σ over clients of v[x]·(1 - lost) / clients,

is what answers are about, whatever the number of clients; the rest is bias.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from faintly.core import FloatArray, IdArray, VectorBatch
from faintly.mechanisms import Mechanism
from faintly.mechanisms.simulation import means_at

SLIGHT = 0.0005  # of all weight: a smaller loss would be shown as 0.0 %


@dataclass(frozen=True, kw_only=True, slots=True)
class Excess:
    """How many clients hold more than k items, and what that costs.

    Privacy: computed from raw data, where that data already is; never sent.
    """

    sparsity: int
    clients: int
    over: int  # clients of more than k items
    most: int  # items of the longest vector
    lost: float  # share of the sum of all |v| that reports leave out
    mean: float  # the true mean that loses most
    carried: float  # what reports carry of it

    @property
    def bias(self) -> float:
        """Return by how much answers miss the mean that loses most."""
        return abs(self.mean - self.carried)

    def describe(self) -> str:
        """Return the excess in a few sentences."""
        planned = "1 item" if self.sparsity == 1 else f"{self.sparsity:,} items"
        if not self.over:
            return f"No client holds more than {planned}."
        held = (
            f"{self.over:,} of {self.clients:,} clients ({self.over / self.clients:.1%}) hold more "
            f"than {planned}, up to {self.most:,}."
        )
        if self.lost < SLIGHT:
            return f"{held} Their reports still carry all of them."
        return (
            f"{held} Their reports leave out {self.lost:.1%} of all weight. The mean that loses "
            f"most is {self.mean:.3f}, and answers are about {self.carried:.3f}."
        )

    def document(self) -> dict[str, Any]:
        """Return the excess as JSON."""
        return asdict(self)


def excess(mechanism: Mechanism, vectors: VectorBatch) -> Excess:
    """Return what the clients hold beyond k, empty vectors counting as clients too."""
    ids, lengths = np.unique(vectors.indices), vectors.lengths
    truth, carried = means_at(vectors, vectors.values, ids), carried_means(mechanism, vectors, ids)
    weights = np.abs(vectors.values)
    lost = float((weights * mechanism.forecast.lost(vectors)[vectors.owners]).sum())
    worst = int(np.abs(truth - carried).argmax()) if len(ids) else None
    return Excess(
        sparsity=mechanism.plan.sparsity,
        clients=len(vectors),
        over=int((lengths > mechanism.plan.sparsity).sum()),
        most=int(lengths.max(initial=0)),
        lost=lost / float(weights.sum()) if len(weights) else 0.0,
        mean=0.0 if worst is None else float(truth[worst]),
        carried=0.0 if worst is None else float(carried[worst]),
    )


def carried_means(mechanism: Mechanism, vectors: VectorBatch, ids: IdArray) -> FloatArray:
    """Return the mean at each id, over all clients, of what their reports carry."""
    kept = 1 - mechanism.forecast.lost(vectors)[vectors.owners]
    return means_at(vectors, vectors.values * kept, ids)
