"""One file or folder per mechanism, its proof note beside the code.

Every module and folder of this package is imported once, so that a new one registers itself.
"""

import importlib
import pkgutil

from faintly.mechanisms.api import Calibrated, MechanismApi, Request
from faintly.mechanisms.base import Mechanism
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.registry import mechanism_class, mechanism_names, mechanism_of

for _module in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = [
    "Calibrated",
    "Mechanism",
    "MechanismApi",
    "Request",
    "SmallCase",
    "mechanism_class",
    "mechanism_names",
    "mechanism_of",
]
