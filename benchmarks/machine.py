"""Where a measurement was made: machine, versions, kernels."""

import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from faintly import kernels

PACKAGES = ("faintly", "numpy", "cryptography")


def describe() -> dict[str, Any]:
    """Return the machine, the versions, the active kernels and the date."""
    return {
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "memory_gib": memory_gib(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {"python": platform.python_version()} | package_versions(PACKAGES),
        "kernel": kernels.active,
        "instructions": kernels.instructions(),
        "date": datetime.now(tz=UTC).date().isoformat(),
    }


def package_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found: dict[str, str] = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def cpu_model() -> str:
    """Return the name of the processor, if the system has it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_gib() -> float | None:
    """Return the memory of the machine, or None where the system does not tell."""
    with suppress(AttributeError, ValueError, OSError):
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    return None


def one_line(about: dict[str, Any]) -> str:
    """Return a description as one line for people."""
    machine, versions = about["machine"], about["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}; kernel {about['kernel']} ({about['instructions']}); "
        f"{named}; {about['date']}"
    )
