"""faintly version: what is installed, and which kernels serve."""

import platform

from faintly.cli.output import Json, emit, say


def version(as_json: Json = False) -> None:
    """Show the version, and whether the compiled kernels are active."""
    import numpy

    import faintly
    from faintly import kernels

    document = {
        "faintly": faintly.__version__,
        "kernel": kernels.active,
        "instructions": kernels.instructions(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
    }
    if as_json:
        emit(document)
        return
    reason = (
        f"compiled C, {kernels.instructions()}"
        if kernels.active == "c"
        else "numpy; no compiler at install, or by choice"
    )
    say(f"faintly {faintly.__version__}, kernel {kernels.active} ({reason})")
    say(f"Python {document['python']}, numpy {document['numpy']}")
