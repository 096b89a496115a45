"""The table of C signatures is that of the C files, and calls that do not fit it are refused."""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import comparison
from faintly import kernels
from faintly.kernels import native
from faintly.kernels.native import SIGNATURES, Number, Pointer, call
from tests.unit.kernels.helpers import needs_c

SOURCES = Path(kernels.__file__).parent
PROTOTYPE = re.compile(r"API void faintly_([\w#]+)\(([^)]*)\)")
TYPES = {"double": np.float64}
TYPES |= {f"{kind}{bits}_t": getattr(np, f"{kind}{bits}")
          for kind in ("int", "uint") for bits in (8, 16, 32, 64)}  # fmt: skip


def declared(argument):
    """Return what a line of the table should say of an argument, from its declaration in C."""
    const, name, pointer = re.match(r"(const )?(\w+) (\*?)", argument.strip()).groups()
    if pointer:
        return Pointer(TYPES[name], written=not const)
    return {"int64_t": Number(), "uint64_t": Number(signed=False)}[name]


def prototypes(text):
    """Return the signature of each function of a C file; a macro defines it for two widths."""
    text = re.sub(r"\s*\\\n\s*|\s*\n\s*", " ", text)
    found = {}
    for name, listed in PROTOTYPE.findall(text):
        for width in ("32", "64") if "#" in name else ("",):
            own, types = (re.sub(r"##(bits|width)(##)?", width, part) for part in (name, listed))
            found[own] = tuple(declared(argument) for argument in types.split(","))
    return found


def all_prototypes(folder):
    found = {}
    for path in sorted(folder.glob("*.c")):
        found |= prototypes(path.read_text(encoding="utf-8"))
    return found


def test_the_tables_say_what_the_c_files_declare():
    assert len(SIGNATURES) > 40
    assert all_prototypes(SOURCES) == SIGNATURES
    assert all_prototypes(Path(comparison.__file__).parent) == comparison.SIGNATURES


@pytest.mark.parametrize(
    "changed",
    [
        "API void faintly_map_codes(const uint64_t *ids, int64_t count)",
        "API void faintly_pick_maps(uint64_t *seeds, int64_t count, int64_t maps, int64_t *picked)",
        "API void faintly_weigh_##bits(const int##bits##_t *rows, int64_t count, uint64_t size)",
    ],
    ids=["count", "const", "type"],
)
def test_a_prototype_that_changed_would_be_noticed(changed):
    """Mutant: a function with another count, another `const`, another type."""
    assert not prototypes(changed).items() & SIGNATURES.items()


@needs_c
def test_the_library_has_every_function():
    for name in SIGNATURES:
        assert native.library.function(name).argtypes == SIGNATURES[name]


IDS, ROUNDS, CODES = np.zeros(4, np.uint64), np.ones(2, np.uint32), np.zeros(4, np.uint32)
GOOD = (IDS, 4, ROUNDS, ROUNDS, 2, 8, CODES)
FIXED = np.zeros(4, np.uint32)
FIXED.flags.writeable = False


@needs_c
def test_calls_that_do_not_fit_never_reach_c():
    call("map_codes", *GOOD)
    assert CODES.any()
    CODES[:] = 0
    for few_or_many in (GOOD[:-1], (*GOOD, 1)):
        with pytest.raises(TypeError, match="takes 7 arguments"):
            call("map_codes", *few_or_many)
    bad = {
        0: [IDS.view(np.int64), np.zeros(8, np.uint64)[::2], 7],  # type, memory, no array
        1: [4.0, IDS],
        6: [CODES.view(np.int32), FIXED],
    }
    for place, values in bad.items():
        for value in values:
            with pytest.raises(ctypes.ArgumentError):
                call("map_codes", *GOOD[:place], value, *GOOD[place + 1 :])
    assert not CODES.any()
