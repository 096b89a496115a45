"""Data that people have, turned into vectors: files, tables, matrices, lists.

Errors here name the row and the rule, and never a value, a key or a client.
"""

from faintly.data.files import find_dataset, read_records
from faintly.data.inputs import entries_from, vectors_from
from faintly.data.naming import DUPLICATES, Columns
from faintly.data.records import (
    Records,
    cut,
    projected,
    repeated_rows,
    to_vectors,
    true_means,
    vectors_in,
)

__all__ = [
    "DUPLICATES",
    "Columns",
    "Records",
    "cut",
    "entries_from",
    "find_dataset",
    "projected",
    "read_records",
    "repeated_rows",
    "to_vectors",
    "true_means",
    "vectors_from",
    "vectors_in",
]
