"""Answers as JSON documents: what the command line prints and the collector sends."""

import math
from typing import Any

from faintly.core import Estimates
from faintly.engine.answers import TopList


def estimate_document(estimates: Estimates) -> dict[str, Any]:
    """Return estimates as JSON."""
    columns = estimates.columns()
    named = {
        name: map(_finite, column.tolist()) for name, column in columns.items() if name != "key"
    }
    rows = [
        {"key": key} | dict(zip(named, row, strict=True))
        for key, *row in zip(estimates.keys, *named.values(), strict=True)
    ]
    return {
        "estimates": rows,
        "reports": estimates.reports,
        "level": estimates.level,
        "noise_floor": estimates.noise_floor,
        "noise_floor_all": estimates.noise_floor_all,
        "notes": list(estimates.notes),
        "guarantee": estimates.guarantee.describe(),
    } | _about_posterior(estimates)


def _finite(value: float) -> float | None:
    """Return the number, or None for what JSON lacks: a posterior where maps disagree."""
    return value if math.isfinite(value) else None


def _about_posterior(estimates: Estimates) -> dict[str, Any]:
    """Return what an answer says of all posteriors together: nothing without them."""
    found = estimates.posterior
    if found is None:
        return {}
    return {
        "posterior": {
            "population": found.population,
            "keys": found.keys,
            "threshold": found.threshold,
            "notes": list(found.notes),
        }
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
