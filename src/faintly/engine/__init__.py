"""From reports to answers: streaming aggregation, cached transforms, estimates, top lists."""

from faintly.core import Sketch
from faintly.core.sketch import SketchEngine
from faintly.engine.aggregate import Aggregator, aggregate, decode
from faintly.engine.answers import Reader
from faintly.engine.files import load_sketch, save_sketch
from faintly.engine.key_value import ConditionalMeans, conditional_means
from faintly.engine.merge import merge_all, merge_two
from faintly.engine.top_list import TopList

__all__ = [
    "Aggregator",
    "ConditionalMeans",
    "Reader",
    "TopList",
    "aggregate",
    "conditional_means",
    "decode",
    "load_sketch",
    "merge_all",
    "save_sketch",
]

Sketch.engine = SketchEngine(save_sketch, load_sketch, merge_two)
