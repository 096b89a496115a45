"""From reports to answers: streaming aggregation, cached transforms, estimates, top lists."""

from faintly.engine.aggregate import Aggregator, aggregate, decode
from faintly.engine.answers import Reader, TopList
from faintly.engine.merge import merge_all

__all__ = ["Aggregator", "Reader", "TopList", "aggregate", "decode", "merge_all"]
