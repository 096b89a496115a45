"""Which language the kernels run in: C where it was built, else numpy.

FAINTLY_KERNEL=numpy selects numpy, FAINTLY_KERNEL=c requires C. Where the setting is wrong, every
kernel raises when called: an error at import could not be caught.
"""

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any

from faintly.errors import InvalidInput
from faintly.kernels import native

CHOICE = os.environ.get("FAINTLY_KERNEL", "")
_pinned: ContextVar[str] = ContextVar("pinned")  # set by `Language` alone


def configuration_error() -> str:
    """Return what is wrong with FAINTLY_KERNEL, or an empty string."""
    if CHOICE not in ("", "c", "numpy"):
        return f"FAINTLY_KERNEL must be c or numpy, got {CHOICE!r}; unset it to let faintly choose"
    if CHOICE == "c" and not native.available():
        return "FAINTLY_KERNEL=c needs the compiled kernels, which were not built; unset it"
    return ""


active = "none" if configuration_error() else "c" if native.available() else "numpy"


def in_c() -> bool:
    """Return whether the calling kernel runs in C, or raise where FAINTLY_KERNEL is wrong."""
    language = _pinned.get(active)
    if language == "none":
        raise InvalidInput(configuration_error())
    return language == "c"


class Language:
    """All kernels in one language, whichever is active: tests and benchmarks compare them."""

    def __init__(self, name: str, kernels: Mapping[str, Callable[..., Any]]) -> None:
        self.name, self._kernels = name, kernels

    def available(self) -> bool:
        """Return whether kernels in this language are installed."""
        return self.name == "numpy" or native.available()

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
