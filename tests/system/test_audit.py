"""The auditor passes sound plans and catches every mutant, by the check that should.

Each audit is wrong about a sound plan with probability about 1e-6 per check.
"""

from dataclasses import replace

import numpy as np
import pytest

from faintly.audit import audit
from faintly.audit.run import encode_one, make_mechanism
from faintly.core import Budget
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives import noise

SAMPLES = 4_000
PLAN = make_plan(
    protect="event",
    epsilon=2.0,
    sparsity=3,
    clients=1_000,
    universe=64,
    mechanism="signed-binning",
    salt=bytes(16),
)


def broken(**kwargs):
    found = audit(PLAN, samples=SAMPLES, **kwargs)
    return {finding.check for finding in found.findings if not finding.holds}


def halved(plan):
    """Mutant: the noise of twice the epsilon."""
    sound = make_mechanism(plan)
    bound = noise.exp_at_least(-2 * noise.exact(plan.budget.epsilon) / (2 * sound.steps))
    return replace(sound, noise=tuple(noise.laplace_thresholds(bound)))


def with_randomize(change):
    """Mutant: a client whose code, not whose plan, is wrong; its miniatures are wrong too."""

    def make(plan):
        sound = make_mechanism(plan)

        class Mutant(type(sound)):
            def randomize(self, vectors, hash_seeds, rng):
                return change(self, super().randomize, vectors, hash_seeds, rng)

        fields = {name: getattr(sound, name) for name in sound.__dataclass_fields__}
        return Mutant(**fields)

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


@pytest.mark.parametrize("change", [stuck_bit, biased_coin, no_noise])
def test_a_client_that_draws_wrongly_is_caught(change):
    assert "sampler" in broken(make=with_randomize(change))


def test_missing_noise_is_caught_by_the_black_box_too():
    assert "client" in broken(make=with_randomize(no_noise))


def test_a_length_leak_is_caught():
    def leaking(mechanism, vector):
        return encode_one(mechanism, vector) + bytes(len(vector))

    assert broken(encode=leaking) == {"length"}


def test_a_lying_plan_is_caught(faintly, tmp_path):
    """Mutant: a plan that promises half of what its thresholds keep."""
    lying = replace(PLAN, budget=Budget(1.0))
    (tmp_path / "lie.json").write_text(lying.to_json())
    done = faintly("audit", "--plan", "lie.json", "--samples", 2000, "--json", status=1)
    verdicts = {row["check"]: row["holds"] for row in done.json["findings"]}
    assert verdicts["statement"] is False
    with pytest.raises(Exception, match="only keep"):
        mechanism_of(lying)


def test_the_command_ends_well_on_a_sound_plan(faintly, tmp_path):
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    out = faintly("audit", "--plan", "plan.json", "--samples", 2000).out
    assert "The promise holds." in out
