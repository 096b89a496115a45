"""The same sketches, estimates and reports, made by a Spark cluster.

Executors need faintly installed with the extra `spark`. The integers are those of one machine.
"""

from faintly.spark.aggregate import Aggregated, aggregate, read_segments, rejects
from faintly.spark.encode import encode
from faintly.spark.keys import new_key
from faintly.spark.query import Response, query, query_reports, register
from faintly.spark.session import session

__all__ = [
    "Aggregated",
    "Response",
    "aggregate",
    "encode",
    "new_key",
    "query",
    "query_reports",
    "read_segments",
    "register",
    "rejects",
    "session",
]
