"""The reasons that are published are what the mechanisms themselves predict."""

import pytest

from evaluation import explanations
from evaluation.grids import DEFAULT
from evaluation.methods import METHODS
from faintly.mechanisms import mechanism_of


def noise_of(name: str, unit: str, sparsity: int) -> float:
    """Return n·Var of a method at a key, from clients who hold nothing."""
    plan = METHODS[name].plan(
        unit=unit,
        epsilon=explanations.EPSILON,
        sparsity=sparsity,
        clients=DEFAULT.clients,
        universe=4096,
        decode=None,
        salt=bytes(16),
    )
    assert plan.failure == explanations.FAILURE
    return mechanism_of(plan).forecast.variance(0.0)


@pytest.mark.parametrize("sparsity", [1, 4, 16, 64, 256])
def test_the_proven_clip(sparsity):
    assert explanations.clipped(sparsity) == pytest.approx(
        noise_of("paper", "user", sparsity), rel=5e-3
    )
    uncapped = 16 * sparsity * explanations.LOG  # mutant: the clip of the theorem alone
    assert (uncapped > 1.5 * explanations.clipped(sparsity)) is (sparsity <= 16)


@pytest.mark.parametrize("sparsity", [1, 16])
def test_the_one_sparse_scheme(sparsity):
    sampling = noise_of("sampling", "user", sparsity)
    assert explanations.sampled(sparsity) == pytest.approx(sampling, rel=0.03)


def test_the_bit_of_the_authors_and_the_bins_of_the_paper():
    bit = explanations.tuned_clip(1) ** 2 * explanations.one_bit()
    assert bit == pytest.approx(noise_of("published", "user", 1), rel=1e-3)
    assert bit == pytest.approx(8.63, abs=0.005)
    assert noise_of("paper", "event", 1) == pytest.approx(8, rel=5e-3)
    assert explanations.binned() == pytest.approx(11.2, abs=0.05)  # measured: 11.1 to 11.4


def test_the_numbers_stand_in_the_words():
    assert "is 4.7 at ε = 1. The authors' code sends one bit" in explanations.FIRST_USER
    assert explanations.FIRST_USER.endswith("is 1.36: 8.6")
    assert "8·k² up to k = 31, and 254·k beyond" in explanations.CONSTANT
    assert "less up to k = 54, and only 1.2 times as much at 64" in explanations.CONSTANT
