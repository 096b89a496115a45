"""Names are unique, and what another package offers is checked before it is used."""

from importlib.metadata import EntryPoint

import pytest

from faintly.errors import InvalidPlan
from faintly.mechanisms import mechanism_class, mechanism_names, registry

BUILT_IN = "retrieval"
OWN_CLASS = "faintly.mechanisms.retrieval:Retrieval"


def test_nobody_takes_the_name_of_a_mechanism(monkeypatch):
    known = {BUILT_IN: mechanism_class(BUILT_IN)}
    monkeypatch.setattr(registry, "_REGISTRY", known)
    thief = type("Thief", (mechanism_class(BUILT_IN),), {"__module__": "thief"})
    words = rf"thief registers .*'{BUILT_IN}', .* one in faintly\."
    with pytest.raises(InvalidPlan, match=words):
        registry.register(BUILT_IN)(thief)
    assert known == {BUILT_IN: mechanism_class(BUILT_IN)}
    assert registry.register("another")(thief) is thief
    assert known["another"] is thief
    assert registry.register("another")(thief) is thief  # as when a module is loaded again


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mine", OWN_CLASS, "'mine', but .* does not register under that name"),
        (BUILT_IN, "fractions:Fraction", f"'{BUILT_IN}', but .* does not register"),
        ("mine", "fractions:Fraction", "does not register under that name"),
        ("mine", "no_such_module:Mine", "'mine' of no_such_module:Mine: No module named"),
        ("mine", "fractions:Mine", "'mine' of fractions:Mine: .*no attribute"),
    ],
)
def test_a_wrong_entry_point_is_refused_with_a_sentence(name, value, words, monkeypatch):
    monkeypatch.setattr(registry, "_entries", lambda group: (EntryPoint(name, value, group),))
    with pytest.raises(InvalidPlan, match=words):
        mechanism_names(baselines=False)
    if name != BUILT_IN:
        with pytest.raises(InvalidPlan, match=words):
            mechanism_class(name)


def test_a_built_in_mechanism_does_not_depend_on_other_packages(monkeypatch):
    def never(group):
        raise AssertionError(f"{group} was not to be looked through")

    monkeypatch.setattr(registry, "_entries", never)
    assert mechanism_class(BUILT_IN).name == BUILT_IN


def test_without_the_baselines_their_package_is_named(monkeypatch):
    monkeypatch.setattr(registry, "_entries", lambda group: ())
    monkeypatch.setattr(registry, "_REGISTRY", {BUILT_IN: mechanism_class(BUILT_IN)})
    with pytest.raises(InvalidPlan, match=r"one of retrieval, got 'k-fold'; .* faintly-baselines"):
        mechanism_class("k-fold")
