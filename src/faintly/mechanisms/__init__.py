"""One file or folder per mechanism, its proof note beside the code.

Every module and folder of this package is imported once, so that a new one registers itself.
"""

import importlib
import pkgutil

from faintly.mechanisms.base import Mechanism
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Law, SmallCase
from faintly.mechanisms.registry import mechanism_class, mechanism_names, mechanism_of
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.simulation import Simulation
from faintly.mechanisms.tables import Tables

for _module in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = [
    "Calibrated",
    "Forecast",
    "Law",
    "Mechanism",
    "Request",
    "Simulation",
    "SmallCase",
    "Tables",
    "mechanism_class",
    "mechanism_names",
    "mechanism_of",
]
