"""`every` is `parametrize` in one test: for small cases, which would cost more as tests."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def every(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Any]:
    """Return a decorator that runs a test for each case; a failure names its case.

    The cases share the fixtures of the test.
    """
    listed = [
        dict(zip(names, case, strict=True)) if isinstance(names, tuple) else {names: case}
        for case in cases
    ]
    assert listed

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            for case in listed:
                try:
                    test(**fixtures, **case)
                except BaseException as error:
                    error.add_note(f"in the case {case}")
                    raise

        whole = inspect.signature(test)
        left = [each for name, each in whole.parameters.items() if name not in listed[0]]
        run.__signature__ = whole.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
