"""Small cases of retrieval for l1, and how one row of a report is answered."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly.core import Budget, Universe, WithinL1
from faintly.core.arrays import FloatArray, IdArray
from faintly.mechanisms import parameters as require
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.retrieval_l1 import forms
from faintly.mechanisms.symbols import SymbolLaw
from faintly.primitives import hashing

if TYPE_CHECKING:
    from faintly.mechanisms.retrieval_l1 import RetrievalL1


SMALL_REPORTS = 2**8  # possible reports of an enumerated case


class RetrievalL1Law(SymbolLaw):
    """The law of symbols whose channel takes values as they are."""

    mechanism: "RetrievalL1"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield one item over many rows, where delta is small, and two over few rows.

        The channel is the plan's own; epsilon shrinks with the distance, so that it is tight.
        """
        mechanism = self.mechanism
        reach = require.l1_distance(self.plan.unit)
        step = min(1.0, reach) / 2  # a move that is always small enough
        few, ends = (0.0, step, 1.0), (-1.0, step - 1, 1 - step)
        if mechanism.pointed:
            changes = {"unit": WithinL1(min(2.0, reach)), "universe": Universe.indexed(4)}
            for bits, items in ((2, 2), (3, 1)):
                options = {"form": mechanism.form, "symbol_bits": bits}
                case = self.small(sparsity=items, options=options, **changes)
                yield SmallCase(case, few + ends, items=items)
            return
        long = hashing.digits_within(mechanism.order, SMALL_REPORTS)
        yield SmallCase(self._shrunk(1, long), few + ends + (-0.5, -0.25, 0.25, 0.5), items=1)
        if mechanism.order <= 4:
            short = 3 if mechanism.order == 2 else 2
            yield SmallCase(self._shrunk(2, short), few, items=2)

    def _shrunk(self, sparsity: int, symbols: int) -> "RetrievalL1":
        """Return this channel with few enough symbols to enumerate, and the delta of these."""
        distance = require.l1_distance(self.plan.unit)
        near = min(2.0 * sparsity, distance)
        delta = min(0.999, float(forms.failure(self.mechanism.order, sparsity, symbols)))
        epsilon = self.plan.budget.epsilon * near / distance
        plan = replace(
            self.plan,
            unit=WithinL1(near),
            budget=Budget(epsilon, max(self.plan.budget.delta, delta)),
            sparsity=sparsity,
            parameters={**self.plan.parameters, "symbols": symbols},
        )
        return replace(self.mechanism, plan=plan, symbols=symbols)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[Any, ...]:
        """Return the row or point and the sign of each id under a seed."""
        mechanism = self.mechanism
        if mechanism.pointed:
            return tuple((point, 1) for point in ids.tolist())
        hashed, signs = mechanism.hashed(np.full(len(ids), seed, dtype=np.uint64), ids)
        rows = hashing.base_digits(hashed, mechanism.order, mechanism.symbols).tolist()
        return tuple(zip(map(tuple, rows), signs.tolist(), strict=True))

    def _factors(self, values: list[float]) -> FloatArray:
        (value,) = values  # no two keys share a point
        return self.mechanism.channel.factors(value)
