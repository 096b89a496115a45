"""Whatever is passed to the public functions, it is taken or refused in a sentence.

Every argument of every public function is given junk in turn, the others being right. A refusal
is one of faintly's errors, or a TypeError that faintly itself raises with a sentence. Anything else
is a bare traceback out of the library's inside.
"""

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import faintly
from faintly.errors import FaintlyError
from faintly.primitives.entropy import seeded

JUNK: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "negative": -3,
    "fraction": 2.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "huge": 10**400,
    "complex": 1j,
    "empty text": "",
    "text": "tea",
    "surrogate": "\ud800",
    "bytes": b"tea",
    "list": [],
    "tuple": (1, "a", None),
    "objects": [object()],
    "dict": {"tea": object()},
    "set": {"tea"},
    "object": object(),
    "class": int,
    "function": len,
    "int64": np.int64(3),
    "float64": np.float64(0.5),
    "array": np.array([1.0, 2.0]),
    "matrix": np.zeros((2, 2)),
    "text array": np.array(["tea", "milk"]),
    "series": pd.Series([1, 2]),
    "text series": pd.Series(["tea", "milk"]),
    "frame": pd.DataFrame({"a": [1]}),
    "path": Path("nowhere"),
}
NAMES = ["tea", "milk", "juice"]
RIGHT: dict[str, Any] = {
    "protect": "event",
    "epsilon": 1.0,
    "sparsity": 2,
    "clients": 10,
    "universe": NAMES,
    "salt": bytes(16),
}
PLAN = faintly.make_plan(**RIGHT)
PAIRS = faintly.key_value_plan(
    protect="entry", epsilon=1.0, entries=2, clients=10, universe=NAMES, salt=bytes(16)
)
VECTORS = faintly.vectors_from([{"tea": 1.0}] * 10, PLAN)
PUBLIC, SECRET = seeded(1, "public"), seeded(1, "secret")


def batches(plan: faintly.Plan, vectors: faintly.VectorBatch) -> list[faintly.ReportBatch]:
    return list(faintly.randomize_all(plan, vectors, PUBLIC, SECRET))


SKETCH = faintly.aggregate(PLAN, batches(PLAN, VECTORS))
OTHER = faintly.aggregate(PAIRS, batches(PAIRS, faintly.entries_from([{"tea": 0.5}] * 10, PAIRS)))
CLIENT = faintly.Client(PLAN)
REPORT = CLIENT.report({"tea"})
BODY = CLIENT.encode(REPORT)
READER = faintly.Reader(SKETCH)


def _randomize(**given: Any) -> Any:
    return list(faintly.randomize_all(**given))


def _pinned(digest: Any) -> faintly.Policy:
    return faintly.Policy.pinned(digest)


# A function, and arguments that are right.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "make_plan": (
        faintly.make_plan,
        RIGHT
        | {
            "delta": 0.0,
            "failure": 0.05,
            "values": "set",
            "share": 0.5,
            "mechanism": "retrieval",
            "decode": "direct",
            "family": "prf",
            "memory": 2**20,
            "hard_sparsity": False,
        },
    ),
    "make_plan of maps": (
        faintly.make_plan,
        RIGHT | {"mechanism": "retrieval", "decode": "table", "maps": 4, "bits": 6},
    ),
    "make_plan of a sample": (
        faintly.make_plan,
        {name: value for name, value in RIGHT.items() if name != "sparsity"}
        | {"sample": [{"tea"}]},
    ),
    "key_value_plan": (
        faintly.key_value_plan,
        {
            "protect": "entry",
            "epsilon": 1.0,
            "entries": 2,
            "clients": 10,
            "universe": NAMES,
            "delta": 0.0,
            "salt": bytes(16),
        },
    ),
    "Budget": (faintly.Budget, {"epsilon": 1.0, "delta": 0.0}),
    "WithinL1": (faintly.WithinL1, {"distance": 1.0}),
    "Universe.indexed": (faintly.Universe.indexed, {"size": 5}),
    "Universe.named": (faintly.Universe.named, {"names": NAMES}),
    "Plan.from_json": (faintly.Plan.from_json, {"text": PLAN.to_json()}),
    "Plan.ids": (PLAN.ids, {"keys": NAMES}),
    "Plan.vector": (PLAN.vector, {"items": {"tea": 1.0}}),
    "SparseVector": (faintly.SparseVector, {"indices": [1, 2], "values": [0.5, 1.0]}),
    "VectorBatch.of": (faintly.VectorBatch.of, {"vectors": [faintly.SparseVector([1])]}),
    "ReportBatch.of": (faintly.ReportBatch.of, {"reports": [REPORT]}),
    "Policy.within": (
        faintly.Policy.within,
        {"epsilon": 1.0, "delta": 0.0, "units": ["event"], "baselines": ["harmony"]},
    ),
    "Policy.pinned": (_pinned, {"digest": PLAN.digest}),
    "Ledger": (faintly.Ledger, {"path": "ledger", "limits": {"event": 4}}),
    "Ledger of a limit": (
        lambda limit: faintly.Ledger("ledger", {"event": limit}),
        {"limit": (4, "1e-6")},
    ),
    "Client": (
        faintly.Client,
        {"plan": PLAN, "policy": faintly.Policy.pinned(PLAN.digest), "ledger": None},
    ),
    "Client.fetched": (
        faintly.Client.fetched,
        {"document": PLAN.to_json(), "policy": faintly.Policy.pinned(PLAN.digest)},
    ),
    "Client.report": (CLIENT.report, {"items": {"tea": 1.0}, "epoch": None}),
    "Client.encode": (CLIENT.encode, {"report": REPORT}),
    "vectors_from": (
        faintly.vectors_from,
        {"data": [{"tea": 1.0}], "plan": PLAN, "columns": faintly.Columns()},
    ),
    "entries_from": (faintly.entries_from, {"data": [{"tea": 1.0}], "plan": PAIRS}),
    "entry_vector": (faintly.entry_vector, {"entries": {"tea": 0.5}}),
    "Columns": (
        faintly.Columns,
        {"client": "user", "key": "site", "value": "rating", "duplicates": "once"},
    ),
    "randomize_all": (
        _randomize,
        {"plan": PLAN, "vectors": VECTORS, "public": PUBLIC, "secret": SECRET},
    ),
    "decode": (faintly.decode, {"plan": PLAN, "data": BODY}),
    "aggregate": (faintly.aggregate, {"plan": PLAN, "batches": [faintly.decode(PLAN, BODY)]}),
    "Aggregator": (faintly.Aggregator, {"plan": PLAN}),
    "Aggregator.add": (
        faintly.Aggregator(PLAN).add,
        {"batch": faintly.decode(PLAN, BODY)},
    ),
    "Sketch.merge": (SKETCH.merge, {"other": SKETCH}),
    "Sketch.load": (faintly.Sketch.load, {"path": "sketch.fns"}),
    "Reader": (faintly.Reader, {"sketch": SKETCH, "level": 0.9}),
    "Reader.estimate": (READER.estimate, {"keys": NAMES}),
    "Reader.posterior": (
        faintly.Reader(SKETCH).posterior,
        {"keys": NAMES, "above": 0.1},
    ),
    "Reader.top": (
        READER.top,
        {"count": 2, "candidates": NAMES, "control": "fdr", "false_rate": 0.1},
    ),
    "conditional_means": (
        faintly.conditional_means,
        {"reader": faintly.Reader(OTHER), "keys": NAMES},
    ),
    "try_": (
        faintly.try_,
        {
            "data": [{"tea"}] * 3,
            "epsilon": 1.0,
            "protect": "event",
            "client": None,
            "key": None,
            "value": None,
            "duplicates": "once",
            "sparsity": 1,
            "count": 2,
            "seed": 1,
        },
    ),
}


def refusal(call: Callable[..., Any], given: dict[str, Any]) -> Exception | None:
    try:
        call(**given)
    except Exception as error:  # what it may be is what is tested
        return error
    return None


def is_sentence(error: Exception) -> bool:
    """Return whether faintly refused, and did not stumble."""
    message = str(error)
    if "\n" in message or len(message.split()) < 4:
        return False
    if isinstance(error, FaintlyError):
        return True
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    assert place is not None
    file = place.tb_frame.f_code.co_filename
    raised = linecache.getline(file, place.tb_lineno).strip().startswith("raise TypeError(")
    return isinstance(error, TypeError) and raised and f"{Path('src', 'faintly')}" in file


@pytest.mark.parametrize("name", CALLS)
def test_the_right_arguments_are_taken(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SKETCH.save("sketch.fns")
    call, right = CALLS[name]
    assert refusal(call, right) is None or name == "Reader.posterior"  # three keys are no crowd


@pytest.mark.parametrize(
    "name",
    # A rehearsal that takes what it was given is a whole collection.
    [pytest.param(name, marks=[pytest.mark.long] * (name == "try_")) for name in CALLS],
)
def test_junk_is_taken_or_refused_in_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, right = CALLS[name]
    for argument in right:
        for kind, junk in JUNK.items():
            error = refusal(call, right | {argument: junk})
            told = f"{name}({argument}={kind}): {type(error).__name__}: {error}"
            assert error is None or is_sentence(error), told


def test_a_bare_error_would_be_seen():
    """The mutant: a function that stumbles over its argument."""
    stumbled = refusal(lambda size: size + 1, {"size": "tea"})
    assert stumbled is not None
    assert not is_sentence(stumbled)


@pytest.mark.parametrize("clients", [5e3, np.int32(5_000), np.float64(5_000), 5_000])
def test_numbers_of_any_type_make_the_same_plan(clients):
    plan = faintly.make_plan(**RIGHT | {"clients": clients, "epsilon": np.float32(1)})
    assert plan.digest == faintly.make_plan(**RIGHT | {"clients": 5_000}).digest
    assert faintly.Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("names", [NAMES, tuple(NAMES), np.array(NAMES), pd.Series(NAMES)])
def test_names_of_any_shape_make_the_same_universe(names):
    assert faintly.make_plan(**RIGHT | {"universe": names}).universe == PLAN.universe


def test_the_word_open_is_the_open_universe_and_other_words_are_none():
    assert faintly.make_plan(**RIGHT | {"universe": "open"}).universe == faintly.Universe.open()
    with pytest.raises(faintly.FaintlyError, match="the word open, and not 'closed'"):
        faintly.make_plan(**RIGHT | {"universe": "closed"})


def test_one_key_is_not_taken_for_its_letters():
    for ask in (READER.estimate, READER.posterior, lambda key: READER.top(1, key), PLAN.ids):
        with pytest.raises(faintly.FaintlyError, match=r"keys must be a list, .* write \['tea'\]"):
            ask("tea")


def test_a_sketch_is_saved_and_loaded(tmp_path):
    SKETCH.save(tmp_path / "s.fns")
    assert faintly.Sketch.load(str(tmp_path / "s.fns")) == SKETCH


def test_top_lists_become_tables_and_things_have_short_names():
    top = READER.top(2)
    assert list(top.to_pandas()["significant"]) == top.significant.tolist()
    reports = batches(PLAN, VECTORS)[0]
    for thing in (PLAN, SKETCH, READER, CLIENT, top, top.estimates, reports, reports[0]):
        assert len(repr(thing)) < 220, thing
        assert re.match(r"\w+\(.*\)$", repr(thing))
        assert "b'" not in repr(thing)  # digests are named as people name them, in hexadecimal
