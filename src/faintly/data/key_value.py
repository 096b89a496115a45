"""Rows of (client, key, value) as key-value data: two coordinates for each row."""

from dataclasses import replace
from typing import Any

import numpy as np

from faintly.core import Plan, VectorBatch
from faintly.core.arguments import instance
from faintly.core.key_value import coordinates
from faintly.data.inputs import records_of
from faintly.data.naming import Columns
from faintly.data.records import Records, as_indices, to_vectors


def entries_from(
    data: Any,
    plan: Plan,
    *,
    strict: bool = True,
    pad: bool = True,
    columns: Columns | None = None,
) -> VectorBatch:
    """Return one vector per client, in which each entry is two coordinates.

    Args:
        data: any shape that `vectors_from` takes, of the clients' entries.
        plan: one that `key_value_plan` made.
        strict: as for `vectors_from`.
        pad: as for `vectors_from`.
        columns: as for `vectors_from`.

    Raises:
        InvalidData: the data break a rule; the message names the row or client, from 1.

    Privacy: errors never show keys, values or client labels.
    """
    instance(plan, Plan, "plan", "as key_value_plan returns it")
    made = to_vectors(_paired(records_of(data, strict=strict, columns=columns), plan), plan)
    return made.padded(plan.clients) if pad and len(made) < plan.clients else made


def _paired(records: Records, plan: Plan) -> Records:
    """Return the records of coordinates: held and value of each row, in turn."""
    held = np.where(np.isnan(records.values), np.nan, 1.0)  # without a value, no entry
    return replace(
        records,
        clients=np.repeat(records.clients, 2),
        codes=np.stack([2 * records.codes, 2 * records.codes + 1], axis=1).ravel(),
        keys=coordinates(as_indices(records.keys, plan.universe)),
        values=np.stack([held, records.values], axis=1).ravel(),
        source=records.source.each_twice(len(records)),
    )
