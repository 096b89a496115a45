"""Seeds that can be swept, examples that do not change, and datasets that may be missing.

--seed N        the seed of every statistical test, DEFAULT_SEED unless given
--seed-sweep M  run each of them under the M seeds N, N+1, …
--whole         also the cases marked whole, which take hours
FAINTLY_DATA    folder of datasets; what needs one that is not there is skipped and listed
"""

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from faintly.data import find_dataset
from faintly.errors import InvalidData
from faintly.primitives.entropy import SeededRng, seeded

DEFAULT_SEED = 1
LEFT_OUT = "left out, no dataset {}: set FAINTLY_DATA"

# Hypothesis explores the same examples on every machine, and keeps no files. `make test-long` and
# scripts/sanitize.sh name the profile that they use.
settings.register_profile(
    "brief",
    max_examples=20,
    deadline=None,  # a slow machine is no failure
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("full", settings.get_profile("brief"), max_examples=60)
settings.load_profile("brief")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faintly")
    group.addoption("--seed", type=int, default=DEFAULT_SEED, help="seed of statistical tests")
    group.addoption("--whole", action="store_true", help="also cases that take hours")
    group.addoption("--seed-sweep", type=int, default=1, help="how many seeds to try, from --seed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first, count = metafunc.config.option.seed, metafunc.config.option.seed_sweep
        seeds = range(first, first + max(1, count))
        metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds], indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.whole:
        left_out = [item for item in items if item.get_closest_marker("whole")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        for marker in {"statistical", "system"}.intersection(item.path.parts):
            item.add_marker(marker)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what was imported, which stays: it would take seconds."""
    gc.disable()
    found = yield
    gc.enable()
    gc.freeze()
    return found


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Start one worker more than there are cores for the long tests, many of which wait."""
    return 1 + (os.cpu_count() or 1) if config.option.dist == "loadgroup" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Run the tests on Spark by one worker: a second cluster would take cores from the first.

    The mark xdist_group cannot: pytest 9.2 ignores the names that pytest-xdist 3.8 gives tests.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file.endswith("test_spark.py") else nodeid

    return Scheduler(config, log) if config.option.dist == "loadgroup" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    left_out = sorted({reason.removeprefix("Skipped: ") for reason in reasons})
    missing = [reason for reason in left_out if reason.startswith(LEFT_OUT.split("{", 1)[0])]
    if missing:
        terminalreporter.section("datasets")
        for reason in missing:
            terminalreporter.write_line(reason)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run; a test that draws anything draws it from here."""
    return request.param


@pytest.fixture(scope="session")
def default_seed(seed: int) -> bool:
    """Whether this is the one seed of every push, where a check may be as tight as it likes."""
    return seed == DEFAULT_SEED


@pytest.fixture(scope="session")
def rng_of(seed: int) -> Callable[[str], SeededRng]:
    """Return a maker of independent sources: rng_of("noise")."""
    return lambda label: seeded(seed, label)


@pytest.fixture
def generator(seed: int, request: pytest.FixtureRequest) -> np.random.Generator:
    """A numpy generator for making data up, of its own for each test."""
    words = seeded(seed, request.node.originalname).words(4)
    return np.random.Generator(np.random.Philox(words.tolist()))


@pytest.fixture(scope="session")
def dataset() -> Iterator[Callable[[str], Path]]:
    """Return a finder of datasets, which skips the test where one is missing."""

    def find(name: str) -> Path:
        try:
            return find_dataset(name)
        except InvalidData:
            pytest.skip(LEFT_OUT.format(name))

    return find


@pytest.fixture
def deadline() -> Iterator[None]:
    """Fail a test that computes for ten seconds: for inputs that once sent a loop astray."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError("still computing after ten seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 10)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
