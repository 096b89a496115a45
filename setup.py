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
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = Path("src/faintly/kernels")
SUFFIX = ".dll" if sys.platform == "win32" else ".so"  # as kernels/native.py loads it
NO_C = os.environ.get("FAINTLY_NO_C", "") not in ("", "0")
NOTE = "note: faintly is installed without its C kernels; numpy computes the same integers, slower"


class BuildKernels(build_ext):
    """Compile a library for ctypes where the base class would compile a Python module."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return a name without a version of Python in it: the library serves all of them."""
        return str(Path(*fullname.split(".")).with_suffix(SUFFIX))

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


class PlatformWheel(bdist_wheel):
    """A wheel for every Python 3 of one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags; nothing in the wheel is bound to an interpreter."""
        return "py3", "none", super().get_tag()[2]


KERNELS = Extension(
    "faintly.kernels._kernels",
    sources=sorted(str(path) for path in SOURCES.glob("*.c")),
    depends=[str(SOURCES / "kernels.h")],
    optional=True,
)

if NO_C:
    print(NOTE, file=sys.stderr)

setup(
    ext_modules=[] if NO_C else [KERNELS],
    cmdclass={"bdist_wheel": PlatformWheel, "build_ext": BuildKernels},
)
