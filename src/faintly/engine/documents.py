"""Answers as JSON documents: what the command line prints and the collector sends."""

import math
from typing import Any

from faintly.core import Estimates
from faintly.engine.answers import TopList


def estimate_document(estimates: Estimates) -> dict[str, Any]:
    """Return estimates as JSON."""
    rows: list[dict[str, Any]] = [
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
    for row, more in zip(rows, _posterior_rows(estimates), strict=False):
        row["posterior"] = more
    return {
        "estimates": rows,
        "reports": estimates.reports,
        "level": estimates.level,
        "noise_floor": estimates.noise_floor,
        "noise_floor_all": estimates.noise_floor_all,
        "notes": list(estimates.notes),
        "guarantee": estimates.guarantee.describe(),
    } | _about_posterior(estimates)


def _posterior_rows(estimates: Estimates) -> list[dict[str, float] | None]:
    """Return what each row says of its posterior, which is nothing where maps disagree."""
    if estimates.posterior is None:
        return []
    columns = estimates.posterior.columns()
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [None if math.isnan(row[0]) else dict(zip(columns, row, strict=True)) for row in rows]


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
