"""What a simulation measures: one run beside the truth, and the means over several."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from faintly.core import FloatArray
from faintly.planner import Excess


@dataclass(frozen=True, slots=True)
class Score:
    """How one run compares with the truth, or with what reports carry of it."""

    linf: float
    mse: float
    n_mse: float
    coverage95: float
    coverage95_top20: float
    top20_recall: float
    bias_top20: float  # mean error at the true top 20
    bias_listed20: float  # mean error at the 20 largest answers


@dataclass(frozen=True, slots=True)
class Run:
    """What one run measured."""

    truth: Score
    after_cut: Score
    posterior: Score | None  # of posterior answers, beside the truth; None: no population
    predicted_n_var: float
    significant: int  # keys that stand out, as top lists judge
    false_significant: int  # and those among them that nobody holds
    top: FloatArray  # mean and standard error of the first of the true top keys


@dataclass(frozen=True, slots=True)
class TopKey:
    """One of the true top keys over all runs."""

    truth: float
    after_cut: float
    answered: float  # mean over runs
    stderr: float  # of that mean, as predicted

    @property
    def bias(self) -> float:
        """Return by how much the answers miss the truth, in the mean over runs."""
        return self.answered - self.truth


@dataclass(frozen=True, slots=True)
class Simulation:
    """Several runs, the plan's report size, and the errors of an all-zero answer."""

    runs: tuple[Run, ...]
    top: tuple[TopKey, ...]
    excess: Excess
    reports: int
    keys: int
    bytes: int
    zero_linf: float
    zero_mse: float

    @property
    def has_posterior(self) -> bool:
        """Return whether the keys were enough for a posterior."""
        return self.runs[0].posterior is not None

    def values(self, name: str, against: str = "truth") -> list[float]:
        """Return one measure of every run: of a score, or of the run itself."""
        whose = [getattr(run, against) if name in SCORES else run for run in self.runs]
        return [getattr(one, name) for one in whose]

    def mean(self, name: str, against: str = "truth") -> float:
        """Return the mean of one measure over the runs."""
        return float(np.mean(self.values(name, against)))

    def stderr(self, name: str, against: str = "truth") -> float:
        """Return the standard error of that mean; NaN for a single run."""
        values = self.values(name, against)
        return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan

    def document(self) -> dict[str, Any]:
        """Return means over runs, and their standard errors under NAME_stderr."""
        return self._means((*SCORES, *COUNTS), "truth") | {
            "after_cut": self._means(SCORES, "after_cut"),
            "posterior": self._means(SCORES, "posterior") if self.has_posterior else None,
            "top": [asdict(key) | {"bias": key.bias} for key in self.top],
            "beyond_sparsity": self.excess.document(),
            "bytes": self.bytes,
            "zero_linf": self.zero_linf,
            "zero_mse": self.zero_mse,
            "runs": len(self.runs),
            "reports": self.reports,
            "keys": self.keys,
        }

    def _means(self, names: Iterable[str], against: str) -> dict[str, float | None]:
        out: dict[str, float | None] = {}
        for name in names:
            spread = self.stderr(name, against)
            out[name] = self.mean(name, against)
            out[f"{name}_stderr"] = None if np.isnan(spread) else spread
        return out


SCORES = tuple(field.name for field in fields(Score))
COUNTS = ("predicted_n_var", "significant", "false_significant")
