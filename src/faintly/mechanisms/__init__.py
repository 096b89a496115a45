"""One file or folder per mechanism, its proof note beside the code.

Every module and folder of this package is imported once, so that a new one registers itself.
"""

import importlib
import pkgutil

from faintly.mechanisms.base import Calibrated, Mechanism, Miniature, Request
from faintly.mechanisms.registry import mechanism_class, mechanism_names, mechanism_of

for _module in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = [
    "Calibrated",
    "Mechanism",
    "Miniature",
    "Request",
    "mechanism_class",
    "mechanism_names",
    "mechanism_of",
]
