"""Queries to a running collector from the command line, by the name of a collection."""

from pathlib import Path

import pytest

NAME = "Visits & more, 2026"


@pytest.fixture
def url(faintly, collector, tmp_path: Path) -> str:
    """Collect 400 reports under a name, and return the collector's address."""
    rows = [f"{who},{0 if who % 2 else 7}" for who in range(400)]
    (tmp_path / "rows.csv").write_text("\n".join(["client,item", *rows]))
    plan = ["plan", "--protect", "event", "--epsilon", 5, "--sparsity", 1, "--clients", 400]
    faintly(*plan, "--universe", 50, "-o", "plan.json")
    faintly("encode", "--plan", "plan.json", "rows.csv", "-o", "r.fnt")
    faintly("aggregate", "--plan", "plan.json", "r.fnt", "-o", "s.fns")
    url = collector().start().url
    faintly("collection", "create", "plan.json", "--server", url, "--name", NAME)
    faintly("push", "r.fnt", "--server", url)
    faintly("collection", "seal", NAME, "--server", url)
    return url


def test_a_collector_answers_as_a_sketch_of_the_same_reports(faintly, url):
    here = ["--server", url, "--collection", NAME]
    for words in (["query", 0, 7, 9], ["query", 0, "--posterior"], ["top", "-n", 3], ["top"]):
        command, *rest = words
        local = faintly(command, "s.fns", *rest)
        remote = faintly(command, *rest, *here)
        assert remote.out == local.out
        assert remote.err == local.err
    digest = faintly("collection", "show", NAME, "--server", url, "--json").json["digest"]
    by_digest = faintly("query", 0, "--server", url, "--collection", digest, "--json").json
    assert by_digest["estimates"] == faintly("query", 0, *here, "--json").json["estimates"]


def test_the_promise_is_one_sentence_and_in_full_when_asked(faintly, url):
    short, full = faintly("query", "s.fns", 0).out, faintly("query", "s.fns", 0, "--explain").out
    assert "A report hides any one item of its sender" in short
    assert "local differential privacy" not in short
    assert "local differential privacy" in full


def test_names_stand_wherever_a_digest_does(faintly, url, tmp_path):
    shown = faintly("collection", "show", NAME, "--server", url, "--json").json
    assert shown["reports"] == 400
    folder = tmp_path / "collected"
    exported = faintly("export", folder, "--collection", NAME, "-o", "out.fnt", "--json").json
    assert exported["reports"] == 400
    # A second collection of the same name: now only a digest says which is meant.
    plan = ["plan", "--protect", "event", "--epsilon", 1, "--sparsity", 1, "--clients", 9]
    faintly(*plan, "--universe", 50, "-o", "other.json")
    other = faintly("collection", "create", "other.json", "--server", url, "--name", NAME, "--json")
    told = faintly("collection", "show", NAME, "--server", url, status=1).err
    assert "several collections have this name; use the digest of one" in told
    digest = other.json["digest"]
    faintly("collection", "delete", digest, "--server", url, "--yes")
    faintly("collection", "close", NAME, "--server", url)
    faintly("collection", "delete", NAME, "--server", url, "--yes")
    told = faintly("query", 0, "--server", url, "--collection", NAME, status=1).err
    assert "there is no collection of this name" in told


WRONG = [
    ("query --server {url} 0", "say which collection of the collector: --collection NAME"),
    ("query --server {url} --collection a/b 0", "a name without slashes"),
    ("query --server {url} --collection nobody 0", "there is no collection of this name"),
    ("query s.fns 0 --collection x", "belong to a collector; add --server URL"),
    ("query", "name a sketch file, or a collector: --server URL --collection NAME"),
    ("top", "name a sketch file, or a collector"),
    ("top s.fns --server {url} --collection x", "ask a sketch file or a collector, not both"),
    ("query --server {url} --collection nobody 0 --epoch last", "an epoch is a number, or all"),
]


def test_a_wrong_query_is_refused_in_a_sentence(faintly, url):
    for words, sentence in WRONG:
        refused = faintly(*words.format(url=url).split(), status=1)
        assert sentence in refused.err, words
        assert "Traceback" not in refused.err
