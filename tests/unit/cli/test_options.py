"""Options that take some words only: they are the library's, and a shell completes them."""

import sys
from dataclasses import MISSING, fields
from inspect import signature
from typing import get_args

import pytest
from typer.testing import CliRunner

from faintly.cli import app, options
from faintly.cli.plan import plan
from faintly.cli.try_ import try_ as cli_try
from faintly.core.plan import DECODES, FAMILIES, VALUES
from faintly.engine.top_list import CONTROLS
from faintly.errors import MissingDependency
from faintly.mechanisms import mechanism_names
from faintly.mechanisms.signed_binning.rows import UNITS
from faintly.planner.plan_request import MEASURES, PlanRequest
from faintly.simulate import try_
from faintly_collector.http import settings
from faintly_collector.storage import collection, credentials

RUN = CliRunner()
PLAN = ("plan", "--protect", "event", "--universe", "open")
OFFERED = [
    (("plan", "--decode"), DECODES),
    (("plan", "--family"), FAMILIES),
    (("plan", "--rank"), MEASURES),
    (("plan", "--row"), UNITS),
    (("plan", "--values"), VALUES),
    (("plan", "--mechanism"), mechanism_names()),
    (("top", "s.fns", "--control"), CONTROLS),
    (("serve", "--log-level"), get_args(options.LogLevel)),
    (("collection", "create", "p.json", "--retention"), get_args(options.Retention)),
    (("credential", "add", "me", "--role"), get_args(options.Role)),
]


def offered(*words: str, typed: str = "") -> list[str]:
    """Return what bash is offered after these words."""
    line = ["faintly", *words, typed]
    asked = {"COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1)}
    done = RUN.invoke(
        app, [], prog_name="faintly", env={"_FAINTLY_COMPLETE": "complete_bash", **asked}
    )
    return done.output.split()


@pytest.mark.parametrize(("words", "known"), OFFERED)
def test_a_shell_offers_every_word_and_no_other(words, known):
    assert sorted(offered(*words)) == sorted(known)


def test_what_is_typed_narrows_the_offer():
    assert offered("plan", "--mechanism", typed="retrieval-") == ["retrieval-gf", "retrieval-l1"]
    assert offered("plan", "--decode", typed="x") == []


def test_an_option_with_more_than_words_offers_the_words():
    assert offered("plan", "--protect") == ["event", "user", "l1:"]
    assert offered("plan", "--bins") == ["paper", "best"]


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--data", "x"),
        ("credential", "add", "me", "--data", "x", "--role", "admin"),
        ("credential", "list", "--data", "x"),
        ("backup", "x", "y"),
        ("lake", "commit", "x", "--table", "y"),
    ],
)
def test_without_the_collector_its_commands_say_what_to_install(words, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "faintly_collector"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "faintly_collector", None)
    with pytest.raises(MissingDependency, match=r"pip install \. \./collector"):
        RUN.invoke(app, words, catch_exceptions=False)


def defaults(function):
    return {name: each.default for name, each in signature(function).parameters.items()}


def test_defaults_are_those_of_the_library():
    """They are written twice, since help must not load numpy."""
    asked = defaults(plan)
    asked |= {"memory": asked["memory"] * 2**20, "measure": asked["rank"]}
    for each in fields(PlanRequest):
        if each.name in asked and each.default is not MISSING:
            assert asked[each.name] == each.default, each.name
    tried, trying = defaults(cli_try), defaults(try_)
    for name in ("epsilon", "protect", "sparsity", "count", "seed"):
        assert tried[name] == trying[name], name


def test_the_words_of_the_collector_are_the_collectors():
    """The words are written twice: help must not need the collector's package."""
    assert get_args(options.Role) == credentials.ROLES
    assert get_args(options.Retention) == get_args(collection.Retention)
    level = settings.Settings.model_fields["log_level"].annotation
    assert get_args(options.LogLevel) == get_args(level)


@pytest.mark.parametrize(
    "words",
    [
        (*PLAN, "--decode", "foo"),
        (*PLAN, "--family", "foo"),
        (*PLAN, "--rank", "foo"),
        (*PLAN, "--row", "foo"),
        (*PLAN, "--values", "foo"),
        (*PLAN, "--mechanism", "foo"),
        ("plan", "--universe", "open", "--protect", "foo"),
        ("top", "s.fns", "--control", "foo"),
        ("serve", "--log-level", "foo"),
        ("collection", "create", "p.json", "--server", "http://x", "--retention", "foo"),
        ("credential", "add", "me", "--data", "d", "--role", "foo"),
    ],
)
def test_another_word_is_a_mistake_in_the_command(words):
    done = RUN.invoke(app, words)
    assert done.exit_code == 2
    assert "foo" in done.output
    assert "Value error" not in done.output  # the words of the library that parses options


def test_an_unknown_mechanism_is_named_before_anything_else_is_asked():
    done = RUN.invoke(app, ["plan", *PLAN[1:], "--mechanism", "foo"])
    assert "'--mechanism': there is no foo; there are " in done.output
    assert all(name in done.output for name in mechanism_names())
