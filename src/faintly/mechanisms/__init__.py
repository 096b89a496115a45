"""One file per mechanism, its proof note beside it.

Every module of this package and of its subpackages is imported once, so that a new file
registers itself.
"""

import importlib
import pkgutil

from faintly.mechanisms.base import Calibrated, Mechanism, Miniature, Request
from faintly.mechanisms.registry import mechanism_class, mechanism_names, mechanism_of

for _module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
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
