"""What mechanisms without a hash share: a report names keys by their index.

There is one outcome of the hash to enumerate; privacy rests on the report's own coins alone.
"""

from collections.abc import Callable, Iterator, Sequence

from faintly.core import FloatArray, IdArray
from faintly.mechanisms.law import Law, joint

FAMILY = "prf"  # a plan must name one, though nothing is hashed


class CoordinatesLaw(Law):
    """A law where nothing is hashed: an outcome only numbers the items."""

    def outcomes(self, items: int) -> Iterator[tuple[int, ...]]:
        yield tuple(range(items))

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[int, ...]:  # noqa: ARG002
        return tuple(ids.tolist())


def joint_law(
    law: Callable[[float], FloatArray], keys: int, values: Sequence[float], outcome: Sequence[int]
) -> FloatArray:
    """Return the law of a report whose keys are perturbed one by one, each by `law`."""
    held = dict(zip(outcome, values, strict=True))
    return joint(law(held.get(key, 0.0)) for key in range(keys))
