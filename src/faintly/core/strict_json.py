"""JSON with one meaning and one spelling.

Each field is named once, where the standard parser would keep the last of several.
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
    """Return the one spelling of a document that digests are taken of: sorted, without spaces."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")
