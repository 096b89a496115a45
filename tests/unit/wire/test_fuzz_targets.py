"""Every fuzz target lets good input through to its end: one that refuses all fuzzes nothing."""

import importlib.util
import sys
from pathlib import Path

import pytest

from faintly.errors import FaintlyError

FILE = Path(__file__).parents[3] / "fuzz" / "targets.py"


@pytest.fixture(scope="module")
def targets():
    spec = importlib.util.spec_from_file_location("targets", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["targets"] = module
    spec.loader.exec_module(module)
    return module


def accepts(target, data):
    try:
        target(data)
    except FaintlyError:
        return False
    return True


def test_every_target_accepts_something(targets):
    for name, target in targets.TARGETS.items():
        good = [*targets.examples(name), b""]
        assert any(accepts(target, data) for data in good), name


def test_documents_are_accepted_unchanged_and_refused_changed(targets):
    for name in ("plan", "sketch"):
        assert accepts(targets.TARGETS[name], b""), name
        assert not accepts(targets.TARGETS[name], bytes([0, 0])), name


def test_the_planted_mistake_is_one(targets):
    with pytest.raises(IndexError):
        targets.planted(bytes([0, 0x42, 0]))
