"""What a mechanism is: a frozen set of public integers with the verbs of these parts.

api          what a device and a server call
tables       table decoding and laws of readings, for the engine
forecast     variance, bias and loss before there are reports, for the planner
law          the exact law of a report, for the auditor and the tests
simulation   many reports at once, for the evaluation

A new mechanism derives from `Mechanism`, and `registry` finds it by name.
"""

from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Laws
from faintly.mechanisms.simulation import Simulated
from faintly.mechanisms.tables import Tables


class Mechanism(Simulated, Tables, Forecast, Laws):
    """All five parts; derive a mechanism from this class."""
