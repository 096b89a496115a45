"""Small cases of retrieval over GF(q), and how one row of a report is answered."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly.core import Budget, Universe
from faintly.core.arrays import FloatArray, IdArray
from faintly.mechanisms.law import SmallCase, kept_law, rounded_sum_law
from faintly.mechanisms.symbols import SymbolLaw
from faintly.primitives import hashing

if TYPE_CHECKING:
    from faintly.mechanisms.retrieval_gf import RetrievalGf


class RetrievalGfLaw(SymbolLaw):
    """The law of symbols whose channel takes values rounded to -1, 0 or 1."""

    mechanism: "RetrievalGf"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield cases with few symbols and reports, some with dependent rows."""
        mechanism = self.mechanism
        signs = (-1.0, 0.0, 1.0)
        if mechanism.pointed:
            options = {
                "form": mechanism.form,
                "symbol_bits": 2,
                "symbols": 2 if mechanism.seed_size else 3,
                "seed_bytes": mechanism.seed_size,
            }
            small = self.small(sparsity=2, universe=Universe.indexed(4), options=options)
            yield SmallCase(small, items=2)
            return
        options = {"form": mechanism.form, "symbol_bits": 2, "symbols": 2}
        if mechanism.form == "span-safe":
            own = {"form": mechanism.form, "symbol_bits": mechanism.bits, "symbols": 1}
            yield SmallCase(self.small(sparsity=1, options=own), items=2)
            yield SmallCase(self.small(sparsity=1, options=options), signs, items=2)
            yield SmallCase(self.small(sparsity=1, options=options | {"symbols": 1}), items=3)
            return
        # Two symbols for two items are dependent so often that delta must be a third.
        budget = Budget(self.plan.budget.epsilon, max(0.34, self.plan.budget.delta))
        small = self.small(sparsity=2, budget=budget, options=options)
        plan = replace(small.plan, budget=budget)
        yield SmallCase(type(mechanism).from_plan(plan), signs, items=2)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[Any, ...]:
        """Return the point or row, the sign and the rank of each id under a seed."""
        mechanism = self.mechanism
        seeds = np.full(len(ids), seed, dtype=np.uint64)
        if mechanism.pointed:
            points, signs = mechanism.points(seeds, ids)
            return tuple(zip(points.tolist(), signs.tolist(), strict=True))
        ranks = mechanism.hash(seeds, ids, hashing.ORDER, 1)[:, 0].tolist()
        words = hashing.symbol_words(mechanism.symbols, mechanism.bits)
        hashed = mechanism.hash(seeds, ids, hashing.SYMBOL, words)
        rows = hashing.unpack_symbols(hashed, mechanism.symbols, mechanism.bits).tolist()
        signs = mechanism.signs(seeds, ids).tolist()
        return tuple(zip(map(tuple, rows), signs, ranks, strict=True))

    def _factors(self, values: list[float]) -> FloatArray:
        # The sum of the values, each rounded to -1, 0 or 1, is clipped to -1, 0 or 1.
        shares = kept_law(rounded_sum_law(values, 1), len(values), 1)
        mixed = np.zeros(self.mechanism.order)
        for content, share in zip((-1, 0, 1), shares, strict=True):
            mixed += share * self.mechanism.channel.factors(content)
        return mixed
