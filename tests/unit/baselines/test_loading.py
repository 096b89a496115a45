"""Baselines are loaded when somebody names one, and not before."""

import subprocess
import sys

import pytest

from faintly.errors import InvalidPlan
from faintly.mechanisms import mechanism_class, mechanism_names

BASELINES = sorted(set(mechanism_names()) - set(mechanism_names(baselines=False)))


def loaded_after(line):
    """Return the modules of the baselines that a fresh process has after a line of Python."""
    ours = "name.startswith('faintly_baselines')"
    script = f"import sys\n{line}\nprint(*(name for name in sys.modules if {ours}))"
    return set(subprocess.check_output([sys.executable, "-c", script], text=True).split())


def test_a_client_imports_no_baseline():
    policy = "Policy.within(epsilon=1, units=['event'])"
    assert not loaded_after(f"from faintly import Client, Policy, make_plan; {policy}")


def test_naming_all_mechanisms_loads_no_baseline():
    assert not loaded_after("from faintly.mechanisms import mechanism_names; mechanism_names()")


def test_a_name_loads_its_own_module_and_no_other_mechanism():
    line = "from faintly.mechanisms import mechanism_class; mechanism_class('k-fold')"
    modules = ("k_fold", "one_sparse", "slots", "unhashed")  # its own, and what baselines share
    shared = {f"faintly_baselines.{name}" for name in modules}
    assert loaded_after(line) == {"faintly_baselines", *shared}


@pytest.mark.parametrize("name", BASELINES)
def test_a_baselines_module_has_its_name(name):
    assert mechanism_class(name).baseline
    assert mechanism_class(name).__module__ == f"faintly_baselines.{name.replace('-', '_')}"


@pytest.mark.parametrize("name", ["k_fold", "one-sparse", "slots", "", ".", "alp.estimate"])
def test_a_module_that_is_no_mechanism_is_no_name(name):
    with pytest.raises(InvalidPlan, match="mechanism must be one of alp, collision"):
        mechanism_class(name)
