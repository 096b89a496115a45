"""JSON with one meaning and one spelling.

A field that is named twice is refused; the standard parser would keep the last one.
"""

import json
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


def canonical_json(document: Any) -> bytes:
    """Return the one spelling of a document, for its digest: sorted, without spaces."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")
