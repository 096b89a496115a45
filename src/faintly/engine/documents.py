"""Answers as JSON documents: what the command line prints and the collector sends."""

from typing import Any

from faintly.core import Estimates
from faintly.engine.answers import TopList


def estimate_document(estimates: Estimates) -> dict[str, Any]:
    """Return estimates as JSON."""
    rows = [
        {
            "key": row.key,
            "mean": row.mean,
            "stderr": row.stderr,
            "low": row.low,
            "high": row.high,
            "low_all": row.low_all,
            "high_all": row.high_all,
        }
        for row in estimates
    ]
    return {
        "estimates": rows,
        "reports": estimates.reports,
        "level": estimates.level,
        "noise_floor": estimates.noise_floor,
        "noise_floor_all": estimates.noise_floor_all,
        "notes": list(estimates.notes),
        "guarantee": estimates.guarantee.describe(),
    }


def top_document(found: TopList) -> dict[str, Any]:
    """Return a top list as JSON: its estimates, and for each whether it stands out."""
    document = estimate_document(found.estimates)
    for row, significant, verdict in zip(
        document["estimates"], found.significant, found.verdicts, strict=True
    ):
        row |= {"significant": bool(significant), "verdict": verdict}
    # JSON has no infinity: where nothing can be significant there is no threshold.
    threshold = found.threshold if found.threshold < float("inf") else None
    return document | {
        "threshold": threshold,
        "compared": found.compared,
        "control": found.control,
        "false_rate": found.false_rate,
    }
