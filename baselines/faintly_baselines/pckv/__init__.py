"""PCKV: pad the items to ℓ, sample one, and randomize its key and sign together.

Client  one of max(m, ℓ) places at random: an item, or one of ℓ dummies; a sign of mean v
  grr   send the key with odds a, else another of all d + ℓ; the sign with odds p, else flipped
  ue    send for each of d keys absent, plus or minus: the sampled one shows with odds a, and then
        its sign with odds p; every other shows with odds b, and then a fair sign
Server  mean[x] = ℓ/(a·(2p-1))/n · (plus signs of x - minus signs of x)
Gu, Li, Cheng, Xiong and Cao 2020 (arXiv:1911.12834), with their odds. They estimate frequencies and
conditional means with cut-offs; their product without these is the mean over all clients.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from faintly.core import (
    Budget,
    FloatArray,
    Guarantee,
    IdArray,
    IntArray,
    Layout,
    Plan,
    ReportBatch,
    Sketch,
    Universe,
    VectorBatch,
    WordArray,
)
from faintly.core.plan import MAX_SPARSITY
from faintly.core.report import fields_below
from faintly.errors import InvalidPlan
from faintly.mechanisms import parameters as require
from faintly.mechanisms.coordinates import CoordinatesLaw
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.simulation import Simulation, means_at, sums_at
from faintly.primitives import noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly_baselines import unhashed
from faintly_baselines.pckv import odds
from faintly_baselines.pckv.odds import Odds
from faintly_baselines.unhashed import Unhashed

THEOREMS = {
    "grr": "pckv.proof.md, Theorem 1 (no key is sampled more often than one in ℓ)",
    "ue": "pckv.proof.md, Theorem 2 (only the sampled key answers with other odds)",
}
NAMES = ("form", "padding", "keep", "other", "sign")
MAX_UE_KEYS = 2**20  # a report of two bits per key: 256 KiB
COINS = 2**22  # of a block of ue reports


class Sampled(NamedTuple):
    """What each client samples: a key (dummies come after the d real ones) and a sign."""

    keys: IntArray
    signs: IntArray


class PckvForecast(Forecast):
    """The variance by how often a key shows, under the odds of the form."""

    mechanism: "Pckv"

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        return self.mechanism.odds.shown[0] * self.mechanism.scale**2

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return n·Var at keys that some hold, which show more often."""
        mechanism = self.mechanism
        padding = mechanism.odds.padding
        kept = np.repeat(padding / np.maximum(vectors.lengths, padding), vectors.lengths)
        absent, held = mechanism.odds.shown
        shown = absent + means_at(vectors, kept * (held - absent), ids)
        return shown * mechanism.scale**2 - means_at(vectors, (kept * vectors.values) ** 2, ids)

    def worst_variance(self) -> float:
        """Return n·Var at a key that everyone holds with a tiny value."""
        return max(self.mechanism.odds.shown) * self.mechanism.scale**2

    def relative_bias(self) -> float:
        """Return 1 - ℓ/k: with fewer places than items, an item is sampled too rarely."""
        return max(0.0, 1 - self.mechanism.odds.padding / self.plan.sparsity)

    def influence(self) -> float:
        return self.mechanism.scale


class PckvLaw(CoordinatesLaw):
    """The law of reports, averaged over all places that may be sampled."""

    mechanism: "Pckv"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield four keys, with up to two items more than planned."""
        few, options = Universe.indexed(4), {"form": self.mechanism.odds.form}
        yield SmallCase(self.small(sparsity=1, universe=few, options=options), items=3)
        yield SmallCase(
            self.small(sparsity=2, universe=few, options=options), (-1.0, 0.0, 0.5, 1.0), 4
        )

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report, over all samples."""
        mechanism = self.mechanism
        padding = mechanism.odds.padding
        places = max(len(values), padding)
        single = self.grr_law if mechanism.odds.form == "grr" else self.ue_law
        padded = [(mechanism.keys + dummy, 0.0) for dummy in range(padding)]
        spare = (places - len(values)) / places / padding
        law = sum(
            (single(key, value) / places for key, value in zip(outcome, values, strict=True)),
            start=np.zeros(1),
        )
        return law + sum((single(key, value) * spare for key, value in padded), start=np.zeros(1))

    def grr_law(self, key: int, value: float) -> FloatArray:
        """Return the law of (key, sign) where this pair was sampled."""
        mechanism = self.mechanism
        a, b = float(mechanism.odds.a), float(mechanism.odds.b)
        attenuation = float(2 * mechanism.odds.p - 1)
        law = np.full((mechanism.keys + mechanism.odds.padding, 2), b / 2)
        law[key] = a * (1 + value * attenuation) / 2, a * (1 - value * attenuation) / 2
        return law.ravel()

    def ue_law(self, key: int, value: float) -> FloatArray:
        """Return the law of all answers where this pair was sampled."""
        mechanism = self.mechanism
        a, b = float(mechanism.odds.a), float(mechanism.odds.b)
        attenuation = float(2 * mechanism.odds.p - 1)
        joint = np.ones(1)
        for other in range(mechanism.keys):
            one = np.array([1 - b, b / 2, b / 2])
            if other == key:
                one = np.array(
                    [1 - a, a * (1 + value * attenuation) / 2, a * (1 - value * attenuation) / 2]
                )
            joint = np.outer(joint, one).ravel()
        return joint


class PckvSimulation(Simulation):
    """Totals of ue as sums of coins, drawn as binomials."""

    mechanism: "Pckv"

    @property
    def draws_sum(self) -> bool:
        """Return whether a report answers for every key."""
        return self.mechanism.odds.form == "ue"

    def totals(self, vectors: VectorBatch, ids: IdArray, public: Rng, secret: Rng) -> IntArray:
        """Return integers with the law of `read`; for ue, sums of coins drawn as binomials.

        Given what each client sampled, answers to different keys and of different clients are
        independent. So the number of answers of each sign is drawn.
        """
        if self.mechanism.odds.form == "grr":
            return super().totals(vectors, ids, public, secret)
        # A repeated id gets one answer; keys are drawn in the order of the ids.
        places = {key: place for place, key in enumerate(dict.fromkeys(ids.tolist()))}
        keys = np.fromiter(places, dtype=np.uint64, count=len(places))
        sampled = self.mechanism.sample(vectors, secret)
        totals = self._draw_totals(sampled, keys, len(vectors), secret)
        return totals[[places[key] for key in ids.tolist()]]

    def _draw_totals(self, sampled: Sampled, ids: IdArray, clients: int, secret: Rng) -> IntArray:
        """Return the totals of ue at different ids, given what each client has sampled."""
        mechanism = self.mechanism
        source = unhashed.simulation_source(secret)
        totals = np.zeros(len(ids), dtype=np.int64)
        others = np.full(len(ids), clients)
        for sign in (1, -1):
            mine = (sampled.signs == sign).astype(np.int64)
            holders = sums_at(sampled.keys, mine, ids)
            shown = source.binomial(holders, mechanism.odds.keep / noise.FULL)
            true = source.binomial(shown, mechanism.odds.sign / noise.FULL)
            totals += sign * (2 * true - shown)
            others -= holders
        shown = source.binomial(others, mechanism.odds.other / noise.FULL)
        return totals + 2 * source.binomial(shown, 0.5) - shown


@register("pckv")
@dataclass(frozen=True, kw_only=True)
class Pckv(Unhashed):
    """One of the padded items: its key and sign, under the odds of a form."""

    forecast = cached_property(PckvForecast)
    law = cached_property(PckvLaw)
    simulation = cached_property(PckvSimulation)

    plan: Plan
    odds: Odds

    @classmethod
    def variants(cls, request: Request) -> Iterator[dict[str, Any]]:  # noqa: ARG003
        """Yield both forms."""
        yield {"form": "grr"}
        yield {"form": "ue"}

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose the published odds; padding is the sparsity unless an option says otherwise."""
        options = {name: value for name, value in request.options.items() if value is not None}
        form = require.one_of(options.pop("form", "grr"), "form", odds.FORMS)
        padding = options.pop("padding", request.sparsity)
        require.integer(padding, "padding", 1, MAX_SPARSITY)
        require.none_left(options, "pckv", "form and padding")
        hashing = unhashed.check(request, "pckv")
        size = request.universe.size
        assert size is not None
        _check_keys(form, size)
        made = odds.best(form, size, padding, request.budget.epsilon)
        parameters = {
            "form": form,
            "padding": padding,
            "keep": made.keep,
            "other": made.other,
            "sign": made.sign,
        }
        return Calibrated(parameters=parameters, hashing=hashing)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given = require.named(plan, NAMES)
        unhashed.check(plan, "pckv")
        size = plan.universe.size
        assert size is not None
        form = str(require.one_of(given["form"], "form", odds.FORMS))
        _check_keys(form, size)
        padding = require.integer(given["padding"], "padding", 1, MAX_SPARSITY)
        keep = require.integer(given["keep"], "keep", 1, noise.FULL - 1)
        least = 1 if form == "ue" else 0
        other = require.integer(given["other"], "other", least, least * (noise.FULL - 1))
        sign = unhashed.check_response(given["sign"], "sign")
        return cls(plan=plan, odds=Odds(form, size, padding, keep, other, sign))

    @cached_property
    def layout(self) -> Layout:
        """Return key and sign of grr, or an answer for each key of ue; there is no seed."""
        if self.odds.form == "ue":
            return fields_below(3, self.keys, 0)
        known = self.keys + self.odds.padding
        width = max(1, (known - 1).bit_length())
        return Layout(seed_bytes=0, widths=(width, 1), limits=(known, 2))

    @property
    def scale(self) -> float:
        """Return ℓ over the mean sign that a sampled key of value +1 shows."""
        return self.odds.padding / self.odds.attenuation

    def guarantee(self) -> Guarantee:
        """Return the log of the largest ratio of a report's odds, for any two vectors."""
        loss = noise.log_at_least(self.odds.ratio)
        return Guarantee(self.plan.unit, Budget.at_least(loss), THEOREMS[self.odds.form])

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:  # noqa: ARG002
        """Return the fields of one report per vector.

        Privacy: any change of the whole vector, pure, for any number of items.
        """
        sampled = self.sample(vectors, rng)
        if self.odds.form == "grr":
            return self._respond(sampled, rng)
        out = np.empty((len(vectors), self.keys), dtype=np.uint32)
        size = max(1, COINS // self.keys)
        for start in range(0, len(vectors), size):
            part = slice(start, start + size)
            out[part] = self._answer(Sampled(sampled.keys[part], sampled.signs[part]), rng)
        return out

    def sample(self, vectors: VectorBatch, rng: Rng) -> Sampled:
        """Return one place of max(m, ℓ) for each client: an item of its own, or a dummy."""
        lengths, padding = vectors.lengths, self.odds.padding
        place = uniform_below(np.maximum(lengths, padding), rng)
        dummies = self.keys + uniform_below(np.full(len(lengths), padding), rng)
        held = place < lengths
        rows = (vectors.offsets[:-1] + place)[held]
        keys, values = dummies, np.zeros(len(lengths))
        keys[held], values[held] = vectors.indices[rows].astype(np.int64), vectors.values[rows]
        return Sampled(keys, unhashed.signs_with_mean(values, rng))

    def _respond(self, sampled: Sampled, rng: Rng) -> WordArray:
        """Return the key and the sign of grr (1 for minus)."""
        count, known = len(sampled.keys), self.keys + self.odds.padding
        kept = rng.words(count) < self.odds.keep
        # A uniform step of 1 to d'-1 modulo d' makes every other key equally likely.
        step = 1 + uniform_below(np.full(count, max(1, known - 1)), rng)
        keys = np.where(kept, sampled.keys, (sampled.keys + step) % known)
        signs = unhashed.respond(sampled.signs, self.odds.sign, rng)
        coin = rng.words(count) < noise.FULL // 2
        minus = np.where(kept, signs < 0, coin)
        return np.stack([keys, minus], axis=1).astype(np.uint32)

    def _answer(self, sampled: Sampled, rng: Rng) -> WordArray:
        """Return absent, plus or minus (0, 1, 2) for every key of ue."""
        count = len(sampled.keys)
        words = rng.words(count * self.keys).reshape(count, self.keys)
        coins = rng.words(count * self.keys).reshape(count, self.keys) >> np.uint32(31)
        answers = np.where(words < self.odds.other, 1 + coins, np.uint32(0))
        real = np.flatnonzero(sampled.keys < self.keys)
        shown = rng.words(count) < self.odds.keep
        signs = unhashed.respond(sampled.signs, self.odds.sign, rng)
        answers[real, sampled.keys[real]] = np.where(shown, np.where(signs > 0, 1, 2), 0)[real]
        return answers.astype(np.uint32)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return plus signs less minus signs of each id."""
        if self.odds.form == "grr":
            signs = 1 - 2 * batch.fields[:, 1].astype(np.int64)
            return sums_at(batch.fields[:, 0], signs, ids)
        answers = batch.fields[:, ids.astype(np.int64)]
        return (answers == 1).sum(axis=0) - (answers == 2).sum(axis=0)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: how often a key shows, scaled, less the squared mean.

        The share is counted; it is smallest where nobody holds the key.
        """
        least = self.odds.shown[0]
        share = np.full(len(means), least)
        if ids is not None and sketch.fields is not None:
            share = np.maximum(least, self._shown(sketch.fields, ids) / max(1, sketch.count))
        return share * self.scale**2 - np.minimum(means**2, 1.0)

    def _shown(self, fields: WordArray, ids: IdArray) -> IntArray:
        if self.odds.form == "grr":
            return sums_at(fields[:, 0], np.ones(len(fields), dtype=np.int64), ids)
        return np.count_nonzero(fields[:, ids.astype(np.int64)], axis=0)


def _check_keys(form: str, size: int) -> None:
    if form == "ue" and size > MAX_UE_KEYS:
        raise InvalidPlan(
            f"a report of form ue answers for every key, so at most {MAX_UE_KEYS} keys are "
            f"allowed, got {size}; use form grr"
        )
    if form == "grr" and size >= 2**31:
        raise InvalidPlan("form grr counts keys and dummies in 32 bits; use a smaller universe")
