"""A top list: the largest means, and which of them stand out from the noise."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from faintly.core import Estimates
from faintly.core.arrays import FloatArray
from faintly.core.estimate import largest_score
from faintly.errors import InvalidInput

CONTROLS = ("family", "fdr")


@dataclass(frozen=True, slots=True, repr=False)
class TopList:
    """The largest means, and which of them stand out from the noise."""

    estimates: Estimates
    significant: np.ndarray
    threshold: float  # the mean below which nothing is significant
    every: Estimates  # of all keys that the list was chosen from
    control: str  # family: 5 % chance of any false one; fdr: 5 % of the significant ones
    false_rate: float

    @property
    def compared(self) -> int:
        """Return how many keys the list was chosen from."""
        return len(self.every)

    @property
    def verdicts(self) -> list[str]:
        """Return for each row yes, or why it is not significant.

        no: its mean is too small. one map: without one of its maps it would not stand out.
        """
        above = self.estimates.mean >= self.threshold
        return [
            "yes" if significant else "one map" if stands_out else "no"
            for significant, stands_out in zip(self.significant, above, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.estimates)

    def __repr__(self) -> str:
        found = int(self.significant.sum())
        return f"TopList({len(self)} of {self.compared:,} keys, {found} of them stand out)"

    def columns(self) -> dict[str, Any]:
        """Return the list as a dictionary of numpy columns, `key` first."""
        return self.estimates.columns() | {"significant": self.significant}

    def to_pandas(self) -> Any:
        """Return the list as a pandas DataFrame."""
        return self.estimates.to_pandas().assign(significant=self.significant)


def check_control(control: str, false_rate: float) -> None:
    """Refuse an unknown way to control false rows, or a rate that is no share."""
    if control not in CONTROLS:
        raise InvalidInput(f"control must be family or fdr, got {control!r}")
    if not 0 < false_rate < 1:
        raise InvalidInput(f"the false rate must be above 0 and below 1, got {false_rate:g}")


def threshold_score(score: FloatArray, control: str, false_rate: float) -> float:
    """Return the score from which a key is significant among all of these."""
    compared = max(1, len(score))
    if control == "family":
        return largest_score(compared, false_rate)
    # No score below this one can pass, whatever its rank.
    hopeful = score[score >= -NormalDist().inv_cdf(false_rate)]
    hopeful = np.sort(hopeful)[::-1]
    tails = np.array([math.erfc(one / math.sqrt(2)) / 2 for one in hopeful.tolist()])
    passing = np.nonzero(tails <= false_rate * np.arange(1, len(tails) + 1) / compared)[0]
    return float(hopeful[passing[-1]]) if len(passing) else math.inf
