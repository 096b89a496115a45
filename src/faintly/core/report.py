"""Reports: the only thing that leaves a client.

A report is a public seed and a few unsigned fields of fixed width; the mechanism says
what they mean, the layout says how many bits each has. Length never depends on data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from faintly.core.arguments import listed
from faintly.core.arrays import IdArray, WordArray
from faintly.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The bits of one report: seed bytes, then fields packed low bit first.

    Field f is an unsigned integer below limits[f] in widths[f] bits (1 to 32).
    """

    seed_bytes: int
    widths: tuple[int, ...]
    limits: tuple[int, ...]

    @property
    def payload_bits(self) -> int:
        """Return the bits of all fields together."""
        return sum(self.widths)

    @property
    def record_bytes(self) -> int:
        """Return the bytes of one report."""
        return self.seed_bytes + (self.payload_bits + 7) // 8


def fields_below(limit: int, count: int, seed_bytes: int) -> Layout:
    """Return the layout of `count` equal fields, each below `limit`."""
    width = max(1, (limit - 1).bit_length())
    return Layout(seed_bytes=seed_bytes, widths=(width,) * count, limits=(limit,) * count)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """One randomized report, ready to send."""

    plan_digest: bytes
    hash_seed: int
    fields: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Report({len(self.fields)} noisy numbers for plan {self.plan_digest.hex()})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReportBatch:
    """Many reports of one plan as columns, which is what kernels read."""

    plan_digest: bytes
    hash_seeds: IdArray  # (reports,)
    fields: WordArray  # (reports, fields)

    @classmethod
    def of(cls, reports: Sequence[Report]) -> Self:
        """Return reports of one plan as a batch."""
        reports = listed(reports, "reports")
        if not reports or not all(isinstance(report, Report) for report in reports):
            raise InvalidInput(
                "a batch needs a list of one or more reports, as Client.report returns them"
            )
        return cls(
            reports[0].plan_digest,
            np.array([report.hash_seed for report in reports], dtype=np.uint64),
            np.array([report.fields for report in reports], dtype=np.uint32),
        )

    def __len__(self) -> int:
        return len(self.hash_seeds)

    def __repr__(self) -> str:
        return f"ReportBatch({len(self):,} reports of plan {self.plan_digest.hex()})"

    def __getitem__(self, position: int) -> Report:
        return Report(
            self.plan_digest,
            int(self.hash_seeds[position]),
            tuple(int(field) for field in self.fields[position]),
        )

    def take(self, chosen: slice | np.ndarray) -> "ReportBatch":
        """Return the chosen reports as a batch of their own."""
        return ReportBatch(self.plan_digest, self.hash_seeds[chosen], self.fields[chosen])
