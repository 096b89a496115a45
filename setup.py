"""Build the optional C kernels; everything else about the package is in pyproject.toml.

The C files of src/faintly/kernels make one plain shared library that faintly loads with
ctypes. It does not include Python.h and has no module entry point. Without a C compiler the
build goes on without it and numpy serves; `faintly version` says which of the two is active.
Setting FAINTLY_NO_C=1 skips the C files on purpose.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = Path("src/faintly/kernels")
NO_C = os.environ.get("FAINTLY_NO_C", "") not in ("", "0")
NOTE = "note: faintly is installed without its C kernels; numpy computes the same integers, slower"


class BuildKernels(build_ext):
    """Compile a library for ctypes where the base class would compile a Python module."""

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return only what the extension lists: there is no PyInit function to export."""
        return list(ext.export_symbols)

    def build_extensions(self) -> None:
        """Choose the flags of the compiler at hand, then build."""
        # No -march=native: the library must run on machines other than the one that built it.
        # A compiler that does not know these fails, and numpy serves.
        for extension in self.extensions:
            extension.extra_compile_args = ["-O3", "-g0", "-std=gnu11"]
        super().build_extensions()

    def run(self) -> None:
        """Build, and say so where the optional library could not be built."""
        super().run()
        built = (Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions)
        if not all(path.exists() for path in built):
            print(NOTE, file=sys.stderr)


KERNELS = Extension(
    "faintly.kernels._kernels",
    sources=sorted(str(path) for path in SOURCES.glob("*.c")),
    depends=[str(SOURCES / "kernels.h")],
    optional=True,
)

if NO_C:
    print(NOTE, file=sys.stderr)

setup(ext_modules=[] if NO_C else [KERNELS], cmdclass={"build_ext": BuildKernels})
