"""Answers as documents: what the command line prints and the collector sends."""

import io
import json
import math
from collections.abc import Mapping
from typing import Any

from faintly.core import Estimates
from faintly.engine.top_list import TopList
from faintly.errors import InvalidInput


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


def _finite(value: Any) -> Any:
    """Return a value with None for numbers that JSON lacks, as a posterior where maps disagree."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return value


def encode_json(document: Mapping[str, Any]) -> bytes:
    """Return JSON in plain ASCII, with null for numbers that JSON lacks."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
    except ValueError:
        return json.dumps(_finite(document), allow_nan=False).encode("ascii")


def encode_arrow(document: Mapping[str, Any], found: Estimates | TopList) -> bytes:
    """Return an Arrow stream; everything but the columns is JSON in the schema's metadata."""
    import pyarrow

    table, stream = _table(document, found), io.BytesIO()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def encode_parquet(document: Mapping[str, Any], found: Estimates | TopList) -> bytes:
    """Return the same as a Parquet file."""
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(_table(document, found), stream)
    return stream.getvalue()


def _table(document: Mapping[str, Any], found: Estimates | TopList) -> Any:
    import pyarrow

    columns = found.columns()
    if isinstance(found, TopList):
        columns["verdict"] = found.verdicts
    kinds = set(map(type, columns["key"]))
    if len(kinds) > 1:
        raise InvalidInput("a column has keys of one type; ask for JSON")
    columns["key"] = pyarrow.array(
        columns["key"], pyarrow.string() if kinds == {str} else pyarrow.uint64()
    )
    rest = {name: value for name, value in document.items() if name != "estimates"}
    return pyarrow.table(columns).replace_schema_metadata({"faintly": encode_json(rest)})


def _about_posterior(estimates: Estimates) -> dict[str, Any]:
    """Return the field about all posteriors together; nothing without posteriors."""
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
    """Return a top list as JSON: its estimates, each with its verdict."""
    document = estimate_document(found.estimates)
    for row, significant, verdict in zip(
        document["estimates"], found.significant, found.verdicts, strict=True
    ):
        row |= {"significant": bool(significant), "verdict": verdict}
    return document | {
        # JSON has no infinity: where nothing can be significant there is no threshold.
        "threshold": _finite(found.threshold),
        "compared": found.compared,
        "control": found.control,
        "false_rate": found.false_rate,
    }
