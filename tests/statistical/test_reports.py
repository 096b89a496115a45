"""What clients send follows the enumerated law, and what servers read centers on the truth.

FALSE_ALARM: 1e-9 per assertion; a mutant stands beside each check.
"""

from dataclasses import replace

import numpy as np
import pytest

from faintly import kernels
from faintly.client import randomize_all
from faintly.core import ReportBatch, SparseVector, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.kernels import reference
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives import hashing, noise

SAMPLES = 60_000
SMALL = {"clients": 2, "universe": 16, "failure": 0.5, "salt": bytes(range(16))}
PRF = {"decode": "direct", "family": "prf"}
TABLE = {"decode": "table"}
ROWS = {
    "event prf": {"protect": "event", "epsilon": 1.0, "sparsity": 3, "steps": 2, **PRF},
    "event prf bins": {"protect": "event", "epsilon": 3.0, "sparsity": 3, "steps": 1, "bins": 2}
    | PRF,
    "event linear": {"protect": "event", "epsilon": 2.0, "sparsity": 3, "steps": 1, "bins": 2}
    | TABLE,
    "event blake2s": {"protect": "event", "epsilon": 1.0, "sparsity": 3, "steps": 2, "bins": 1}
    | {"decode": "direct", "family": "blake2s"},
    "l1 prf": {"protect": "l1:1", "epsilon": 1.0, "sparsity": 3, "steps": 2, "bins": 1, **PRF},
    "l1 linear": {"protect": "l1:2", "epsilon": 1.0, "sparsity": 3, "steps": 1, "bins": 1, **TABLE},
    "user prf": {"protect": "user", "epsilon": 1.0, "sparsity": 3, "steps": 2, "cap": 2, **PRF},
    "user linear": {"protect": "user", "epsilon": 3.0, "sparsity": 3, "steps": 1, **TABLE},
}
HERE = SparseVector([1, 4, 6], [1.0, -0.3, 0.6])


def cells_of(mechanism, fields):
    """The position of each report in the list of all reports, last field fastest."""
    return np.ravel_multi_index(fields.T.astype(np.int64), mechanism.layout.limits)


def sample(mechanism, vector, seed, rng):
    """How often each possible report is sent under one public seed."""
    vectors = VectorBatch(
        np.arange(SAMPLES + 1) * len(vector),
        np.tile(vector.indices, SAMPLES),
        np.tile(vector.values, SAMPLES),
    )
    fields = mechanism.randomize(vectors, np.full(SAMPLES, seed, dtype=np.uint64), rng)
    return np.bincount(cells_of(mechanism, fields), minlength=np.prod(mechanism.layout.limits))


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("vector", [HERE, SparseVector([])], ids=["held", "empty"])
def test_reports_follow_the_enumerated_law(name, vector, odds, seed, rng_of):
    mechanism = mechanism_of(make_plan(mechanism="signed-binning", **SMALL, **ROWS[name]))
    for public in (7 * seed, 7 * seed + 1):
        outcome = mechanism.law.outcome_of(public, vector.indices)
        law = mechanism.law.probabilities(vector.values.tolist(), outcome)
        counts = sample(mechanism, vector, public, rng_of(f"noise {public}"))
        assert odds.misfit(counts, law) < 1
    # Mutant: the client draws half the noise that the plan says.
    halved = [*noise.laplace_thresholds(noise.carry_ratios(list(mechanism.noise))[0] ** 2)]
    leaky = replace(mechanism, noise=tuple(halved))
    assert odds.misfit(sample(leaky, vector, public, rng_of("leaky")), law) > 1


def test_the_law_depends_on_where_the_hash_puts_items(odds, rng_of):
    """Mutant: the law of another outcome does not fit, so the check sees bins and signs."""
    mechanism = mechanism_of(
        make_plan(mechanism="signed-binning", **SMALL, **ROWS["event prf bins"])
    )
    outcome = mechanism.law.outcome_of(3, HERE.indices)
    counts = sample(mechanism, HERE, 3, rng_of("noise"))
    for other in [((1 - b, s), *outcome[1:]) for b, s in outcome[:1]]:
        assert odds.misfit(counts, mechanism.law.probabilities(HERE.values.tolist(), other)) > 1
    for other in [((b, -s), *outcome[1:]) for b, s in outcome[:1]]:
        assert odds.misfit(counts, mechanism.law.probabilities(HERE.values.tolist(), other)) > 1


# Enough clients that truncation and clipping cannot show, and a few items of each sign.
GROUPS, GROUP = 100, 300
WIDE = {"clients": GROUPS * GROUP, "universe": 16, "salt": bytes(range(16))}
ESTIMATES = {
    **{name: {**row, "steps": 16} for name, row in ROWS.items() if "cap" not in row},
    "event table, 4 maps": {"protect": "event", "epsilon": 1.0, "sparsity": 16, "maps": 4},
    "event best bins": {"protect": "event", "epsilon": 1.0, "sparsity": 12, "bins": "best", **PRF},
    "user capped": {"protect": "user", "epsilon": 4.0, "sparsity": 3, "cap": None, **PRF},
    "squeeze": {"protect": "l1:12", "epsilon": 8.0, "delta": 0.01, "sparsity": 6, "row": "squeeze"}
    | {"decode": "direct"},
}
TRUTH = np.zeros(16)
TRUTH[[1, 4, 6]] = 1.0, -0.3, 0.6


def worst_t(plan, decoder, rng_of):
    """The worst |t| over all keys of the mean of group estimates against the truth.

    The groups' own spread gives the standard error, so nothing is taken from the formulas
    under test; a group's estimate is a mean of GROUP reports and close to normal.
    """
    vectors = VectorBatch.of([HERE] * (GROUPS * GROUP))
    parts = list(randomize_all(plan, vectors, rng_of("public"), rng_of("secret")))
    seeds = np.concatenate([part.hash_seeds for part in parts])
    fields = np.concatenate([part.fields for part in parts])
    ids = np.arange(16, dtype=np.uint64)
    estimates = np.empty((GROUPS, 16))
    for group in range(GROUPS):
        own = slice(group * GROUP, (group + 1) * GROUP)
        batch = ReportBatch(plan.digest, seeds[own], fields[own])
        if plan.decode == "table":
            reader = Reader(aggregate(plan, [batch]))
            reader.mechanism = decoder
            totals = reader.totals(ids)
        else:
            totals = decoder.read(batch, ids)
        estimates[group] = totals * decoder.scale / GROUP
    error = estimates.mean(axis=0) - TRUTH
    return float((np.abs(error) / (estimates.std(axis=0, ddof=1) / np.sqrt(GROUPS))).max())


@pytest.mark.parametrize("name", ESTIMATES)
def test_estimates_center_on_the_truth(name, odds, rng_of):
    """Over fresh hashes and noise, every coordinate averages to its true value."""
    plan = make_plan(mechanism="signed-binning", **WIDE, **ESTIMATES[name])
    mechanism = mechanism_of(plan)
    limit = odds.t(GROUPS, comparisons=16)
    t = worst_t(plan, mechanism, rng_of)
    assert t < limit, f"{t:.1f} standard errors off, limit {limit:.1f}"


@pytest.mark.parametrize("name", ["event prf", "event linear", "l1 prf", "user linear"])
def test_a_server_that_divides_by_the_wrong_step_is_noticed(name, odds, rng_of):
    plan = make_plan(mechanism="signed-binning", **WIDE, **{**ESTIMATES[name], "epsilon": 8.0})
    mechanism = mechanism_of(plan)
    assert worst_t(plan, mechanism, rng_of) < odds.t(GROUPS, comparisons=16)
    off_grid = replace(mechanism, steps=mechanism.steps * 2)
    assert worst_t(plan, off_grid, rng_of) > odds.t(GROUPS, comparisons=16)


@pytest.mark.parametrize(("name", "tag"), [("event prf", "SIGN"), ("event linear", "ROW")])
def test_a_client_that_hashes_signs_under_another_tag_is_noticed(
    name, tag, odds, rng_of, monkeypatch
):
    """Mutant: the client's signs come from a tag that the server does not use."""
    plan = make_plan(mechanism="signed-binning", **WIDE, **{**ESTIMATES[name], "epsilon": 8.0})
    mechanism = mechanism_of(plan)
    plain = type(mechanism).randomize

    def wrong(self, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(hashing, tag, ord("x"))
            patch.setattr(kernels, "bin_items", reference.bin_items)  # it looks its tags up
            return plain(self, *arguments)

    monkeypatch.setattr(type(mechanism), "randomize", wrong)
    assert worst_t(plan, mechanism, rng_of) > odds.t(GROUPS, comparisons=16)
