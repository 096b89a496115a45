"""Public names are imported when they are first used."""

import subprocess
import sys

import pytest

import faintly
from spec.generator import vectors


@pytest.mark.parametrize("name", faintly.__all__)
def test_a_public_name_is_there(name):
    assert name in dir(faintly)
    assert getattr(faintly, name) is not None


def test_another_name_is_not():
    with pytest.raises(AttributeError, match="has no attribute 'make_plans'"):
        _ = faintly.make_plans


def test_importing_the_package_and_its_commands_needs_no_numpy():
    program = "import sys, faintly, faintly.cli; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_sketch_loads_in_a_program_that_imports_nothing_else(tmp_path):
    path = tmp_path / "sketch.fnts"
    vectors.some_sketch("event-prf").save(path)
    program = "import sys; from faintly import Sketch; print(Sketch.load(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", program, path], check=True)
