"""JSON objects that name each field once; the standard parser keeps the last of several."""

from typing import Any


class RepeatedField(ValueError):
    """A JSON object names a field twice."""


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object from its fields: for `json.loads(text, object_pairs_hook=no_repeats)`.

    Raises:
        RepeatedField: a field appears twice.
    """
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise RepeatedField("a field appears twice")
    return fields
