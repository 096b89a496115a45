"""Which language the kernels run in: C where it was built, else numpy.

FAINTLY_KERNEL=numpy asks for numpy, FAINTLY_KERNEL=c insists on C. Where that cannot be followed,
every kernel raises; at import nobody could catch it.
"""

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any

from faintly.errors import InvalidInput
from faintly.kernels import _native

CHOICE = os.environ.get("FAINTLY_KERNEL", "")
_pinned: ContextVar[str] = ContextVar("pinned")  # by `Language`; unset everywhere else


def configuration_error() -> str:
    """Return why FAINTLY_KERNEL cannot be followed, or nothing."""
    if CHOICE not in ("", "c", "numpy"):
        return f"FAINTLY_KERNEL must be c or numpy, got {CHOICE!r}; unset it to let faintly choose"
    if CHOICE == "c" and not _native.available():
        return "FAINTLY_KERNEL=c asks for kernels that were not built; unset it"
    return ""


active = "none" if configuration_error() else "c" if _native.available() else "numpy"


def in_c() -> bool:
    """Return whether the kernel that asks runs in C here."""
    language = _pinned.get(active)
    if language == "none":
        raise InvalidInput(configuration_error())
    return language == "c"


class Language:
    """All kernels in one language, whichever is active: tests and benchmarks compare them."""

    def __init__(self, name: str, kernels: Mapping[str, Callable[..., Any]]) -> None:
        self.name, self._kernels = name, kernels

    def available(self) -> bool:
        """Return whether kernels in this language are there."""
        return self.name == "numpy" or _native.available()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._kernels:
            raise AttributeError(f"there is no kernel {name}")
        kernel = self._kernels[name]

        @wraps(kernel)
        def pinned(*arguments: Any, **options: Any) -> Any:
            before = _pinned.set(self.name)
            try:
                return kernel(*arguments, **options)
            finally:
                _pinned.reset(before)

        return pinned
