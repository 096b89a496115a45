"""The auditor passes sound plans and catches every mutant, by the check that should.

Each audit is wrong about a sound plan with probability about 1e-6 per check. What runs in this
process draws from the seed of this run, so that it is wrong again or never.
"""

from contextlib import suppress
from dataclasses import fields, replace
from functools import cached_property

import numpy as np
import pytest

from faintly.audit import audit
from faintly.audit.run import encode_one, make_mechanism
from faintly.core import Budget, VectorBatch
from faintly.errors import InvalidPlan, UnsupportedUnit
from faintly.mechanisms import mechanism_names, mechanism_of
from faintly.planner import make_plan
from faintly.primitives import noise

SAMPLES = 2_000
PLAN = make_plan(
    protect="event",
    epsilon=2.0,
    sparsity=3,
    clients=1_000,
    universe=64,
    mechanism="signed-binning",
    salt=bytes(16),
)


@pytest.fixture(autouse=True)
def _seeded(rng_of, monkeypatch):
    source = rng_of("audit")
    for module in ("run", "blackbox"):
        monkeypatch.setattr(f"faintly.audit.{module}.secure", lambda: source)


def broken(samples=SAMPLES, **kwargs):
    found = audit(PLAN, samples=samples, **kwargs)
    return {finding.check for finding in found.findings if not finding.holds}


def halved(plan):
    """Mutant: the noise of twice the epsilon."""
    sound = make_mechanism(plan)
    bound = noise.exp_at_least(-2 * noise.exact(plan.budget.epsilon) / (2 * sound.steps))
    return replace(sound, noise=tuple(noise.laplace_thresholds(bound)))


def with_randomize(change):
    """Mutant: a client whose code, not whose plan, is wrong; its small cases are wrong too."""

    def make(plan):
        sound = make_mechanism(plan)

        class Mutant(type(sound)):
            def randomize(self, vectors, hash_seeds, rng):
                return change(self, super().randomize, vectors, hash_seeds, rng)

        given = {each.name: getattr(sound, each.name) for each in fields(sound) if each.init}
        return Mutant(**given)

    return make


def stuck_bit(self, sound, vectors, seeds, rng):
    return sound(vectors, seeds, rng) | np.uint32(1)


def biased_coin(self, sound, vectors, seeds, rng):
    class Biased:
        def words(self, count):
            return rng.words(count) >> np.uint32(1)

    return sound(vectors, seeds, Biased())


def no_noise(self, sound, vectors, seeds, rng):
    class Still:
        def words(self, count):
            return np.full(count, 2**32 - 1, dtype=np.uint32)

    return sound(vectors, seeds, Still())


def test_a_sound_plan_passes():
    found = audit(PLAN, samples=SAMPLES)
    assert found.passed, found
    assert {finding.check for finding in found.findings} == {
        "statement",
        "law",
        "client",
        "length",
        "sampler",
    }


def test_half_the_noise_is_caught_by_integers_and_by_samples():
    assert {"statement", "client"} <= broken(make=halved)


@pytest.mark.parametrize(
    ("change", "checks"),
    [
        pytest.param(stuck_bit, {"sampler"}, marks=pytest.mark.long),
        (biased_coin, {"sampler"}),
        (no_noise, {"sampler", "client"}),
    ],
)
def test_a_client_that_draws_wrongly_is_caught(change, checks):
    assert checks <= broken(samples=500, make=with_randomize(change))


def test_a_length_leak_is_caught():
    def leaking(mechanism, vector):
        return encode_one(mechanism, vector) + bytes(len(vector))

    assert broken(samples=200, encode=leaking) == {"length"}


def test_a_lying_plan_is_caught(faintly, tmp_path):
    """Mutant: a plan that promises half of what its thresholds keep."""
    lying = replace(PLAN, budget=Budget(1.0))
    (tmp_path / "lie.json").write_text(lying.to_json())
    done = faintly("audit", "--plan", "lie.json", "--samples", 200, "--json", status=1)
    assert done.json["digest"] == lying.digest.hex()
    verdicts = {row["check"]: row["holds"] for row in done.json["findings"]}
    assert verdicts["statement"] is False
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(lying)


def test_the_command_ends_well_on_a_sound_plan(faintly, tmp_path):
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    out = faintly("audit", "--plan", "plan.json", "--samples", 200).out
    assert "The promise holds." in out


REQUESTS = [
    {"protect": "event", "epsilon": 1.0},
    {"protect": "event", "epsilon": 1.0, "values": "set"},
    {"protect": "user", "epsilon": 1.0},
    {"protect": "l1:2", "epsilon": 1.0, "delta": 1e-4, "decode": "direct"},
]


def plan_of(name, **changes):
    """Return a plan of the mechanism for the first wanted that it can serve."""
    common = {"sparsity": 3, "clients": 1_000, "universe": 16, "salt": bytes(16)}
    for wanted in REQUESTS:
        with suppress(UnsupportedUnit, InvalidPlan):
            return make_plan(mechanism=name, **{**common, **wanted, **changes})
    raise AssertionError(f"{name} serves none of the requests")


@pytest.mark.long
@pytest.mark.parametrize("name", mechanism_names())
def test_sound_plans_of_every_mechanism_pass(name):
    found = audit(plan_of(name), samples=400)
    assert found.passed, found


CHOICE = {"protect": "user", "mechanism": "projection-choice"}
SETS = {"protect": "event", "mechanism": "orthogonal"}
FORMS = {
    "sets in bins": {**CHOICE, "values": "set", "form": "unsigned", "decode": "table"},
    "signed bins": {**CHOICE, "form": "bins", "decode": "table"},
    "orthogonal, direct": {**SETS, "values": "set", "decode": "direct"},
    "orthogonal, table": {**SETS, "values": "nonnegative", "decode": "table"},
}


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_forms_for_sets_and_rare_keys_are_audited(form):
    """Each passes, and its mutant with a biased coin does not."""
    common = {"epsilon": 2.0, "sparsity": 3, "clients": 1_000, "universe": 16, "salt": bytes(16)}
    plan = make_plan(**common, **form)
    found = audit(plan, samples=400)
    assert found.passed, found
    wrong = audit(plan, samples=200, make=with_randomize(biased_coin))
    assert "sampler" in {one.check for one in wrong.findings if not one.holds}


def cut_to_k(self, sound, vectors, seeds, rng):
    """Keep each client's first k items, which retrieval must never do."""
    kept = np.concatenate([np.arange(n) < self.plan.sparsity for n in vectors.lengths])
    lengths = np.minimum(vectors.lengths, self.plan.sparsity)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return sound(VectorBatch(offsets, vectors.indices[kept], vectors.values[kept]), seeds, rng)


# A report under a seed of its own is read at once; one of a table, in every map.
RETRIEVAL = plan_of("retrieval", decode="direct")


@pytest.mark.long
def test_a_cut_to_k_added_to_the_client_of_retrieval_is_caught():
    """The client then no longer follows the law that was enumerated."""
    found = audit(RETRIEVAL, samples=SAMPLES, make=with_randomize(cut_to_k))
    assert "sampler" in {finding.check for finding in found.findings if not finding.holds}


@pytest.mark.long
def test_a_cut_to_k_added_to_the_design_of_retrieval_is_caught():
    """The enumerated law then loses more than epsilon."""

    def make(plan):
        sound = make_mechanism(plan)

        class Cut(type(sound.law)):
            def probabilities(self, values, outcome):
                k = self.plan.sparsity
                return super().probabilities(values[:k], outcome[:k])

        class Mutant(type(sound)):
            law = cached_property(Cut)

        return Mutant(**{name: getattr(sound, name) for name in sound.__dataclass_fields__})

    found = audit(RETRIEVAL, samples=500, make=make)
    assert "law" in {finding.check for finding in found.findings if not finding.holds}


@pytest.mark.long
def test_a_biased_coin_in_retrieval_is_caught_by_the_black_box():
    found = audit(RETRIEVAL, samples=SAMPLES, make=with_randomize(biased_coin))
    assert {"client", "sampler"} & {one.check for one in found.findings if not one.holds}


def doubled(name, epsilon):
    """Mutant: the client of a plan with the epsilon of twice the promise."""

    def make(plan):
        loud = make_mechanism(plan_of(name, epsilon=2 * epsilon, decode="direct"))
        object.__setattr__(loud, "plan", replace(loud.plan, budget=plan.budget))
        return loud

    return make


@pytest.mark.long
@pytest.mark.parametrize(("name", "epsilon"), [("retrieval", 1.0), ("retrieval-gf", 3.0)])
def test_a_client_of_twice_the_epsilon_is_caught_by_integers_and_by_samples(name, epsilon):
    plan = plan_of(name, epsilon=epsilon, decode="direct")
    found = audit(plan, samples=SAMPLES, make=doubled(name, epsilon))
    assert {"statement", "client"} <= {one.check for one in found.findings if not one.holds}
