"""The whole flow on a sample that ships with faintly: which packages do npm packages use?

Each of 120,000 packages plays a client that holds the names of its dependencies.
"""

from faintly.demo.run import DemoResult, draw_chart, run_demo

__all__ = ["DemoResult", "draw_chart", "run_demo"]
