"""Answers: the same numbers as the engine's, in JSON and Arrow, with ETags."""

import io
import json

import pyarrow
import pytest

from faintly.engine import Reader
from faintly.engine.documents import estimate_document, top_document
from faintly.engine.files import sketch_shape
from faintly.engine.merge import merge_all
from faintly.wire.sketch_v1 import decode_sketch
from tests import collecting
from tests.every import every

ARROW = "application/vnd.apache.arrow.stream"
HOSTILE = ["<script>alert(1)</script>", 'a"b\\c', "\x00\x1b[31m", "\u2028", "𝕬", "'; DROP TABLE x"]


@pytest.fixture
def web(shared_web):
    return shared_web


@pytest.fixture
def address(web, plan, body_of):
    """A collection with 500 sealed reports of epoch 0, 300 of epoch 4, and 7 pending of that."""
    made = web.create(plan, epochs=[0, 4, 9])
    for epoch, reports in (("0", 500), ("4", 300)):
        assert web.send(plan, body_of(plan, reports), params={"epoch": epoch}).status_code == 200
    assert web("POST", f"{made}/seal").json() == {"sealed": 800}
    web.send(plan, body_of(plan, 7), params={"epoch": "4"})
    return made


def sketch_of(web, plan, epoch):
    """Return the sketch of an epoch, or of both together."""
    epochs = (0, 4) if epoch is None else (epoch,)
    return merge_all(collecting.sketch_of(web.store, plan.digest, each) for each in epochs)


def test_estimates_are_the_engines(web, address, plan):
    keys = [5, 0, 63, 5]
    for epoch, number, reports in ((0, 0, 500), (4, 4, 300), ("all", None, 800)):
        asked = {"keys": keys, "epoch": epoch, "level": 0.9}
        answer = web("POST", f"{address}/estimates", json=asked).json()
        sketch = sketch_of(web, plan, number)
        expected = estimate_document(Reader(sketch, 0.9).estimate(keys))
        assert {name: answer[name] for name in expected} == expected
        assert answer["reports"] == reports
        assert answer["epoch"] == epoch
        assert answer["collection"] == plan.digest.hex()
        assert answer["pending"] == (0 if epoch == 0 else 7)
        assert "local differential privacy" in answer["guarantee"]


def test_without_an_epoch_the_latest_with_answers_is_read(web, address):
    assert web("POST", f"{address}/estimates", json={"keys": [1]}).json()["epoch"] == 4
    assert web("GET", f"{address}/top").json()["epoch"] == 4


def test_top_lists_are_the_engines(web, address, plan):
    query = "count=3&control=fdr&false_rate=0.1&epoch=0&level=0.99"
    answer = web("GET", f"{address}/top?{query}").json()
    reader = Reader(collecting.sketch_of(web.store, plan.digest, 0), 0.99)
    expected = top_document(reader.top(3, None, "fdr", 0.1))
    assert {name: answer[name] for name in expected} == expected
    asked = {"candidates": [9, 8, 7], "count": 2, "epoch": 0}
    chosen = web("POST", f"{address}/top", json=asked).json()
    assert chosen["compared"] == 3
    assert len(chosen["estimates"]) == 2


def test_posteriors_are_the_engines(web, address, plan):
    """Beside the unbiased numbers, which stay as they are; a chance where a threshold is given."""
    reader = Reader(collecting.sketch_of(web.store, plan.digest, 0))
    asked = {"keys": [5, 0, 63], "epoch": 0, "above": 0.25}
    answer = web("POST", f"{address}/estimates", json=asked).json()
    expected = estimate_document(reader.posterior([5, 0, 63], 0.25))
    assert {name: answer[name] for name in expected} == expected
    assert answer["posterior"]["population"] == "all 64 keys of the universe"
    assert all(0 <= row["posterior_above"] <= 1 for row in answer["estimates"])
    for method, query, body in (
        ("GET", "?epoch=0&count=3&posterior=true", None),
        ("POST", "", {"candidates": list(range(64)), "epoch": 0, "count": 3, "posterior": True}),
    ):
        listed = web(method, f"{address}/top{query}", json=body).json()
        expected = top_document(reader.top(3, posterior=True))
        assert {name: listed[name] for name in expected} == expected
    plain = web("POST", f"{address}/estimates", json={"keys": [5], "epoch": 0}).json()
    assert "posterior" not in plain
    assert web("GET", f"{address}/top?above=2").status_code == 422


def test_history_goes_epoch_by_epoch(web, address):
    asked = {"keys": [3, 4]}
    answer = web("POST", f"{address}/history", json=asked).json()
    assert [each["epoch"] for each in answer["epochs"]] == [0, 4]
    alone = web("POST", f"{address}/estimates", json=asked | {"epoch": 0}).json()
    assert answer["epochs"][0]["estimates"] == alone["estimates"]


def test_the_noise_floor_grows_with_keys(web, address, plan):
    one = web("GET", f"{address}/noise-floor?epoch=all").json()
    many = web("GET", f"{address}/noise-floor?epoch=all&keys=64").json()
    assert one["noise_floor"] == one["noise_floor_all"] == many["noise_floor"]
    every = Reader(sketch_of(web, plan, None)).estimate_all()
    assert many["noise_floor_all"] == pytest.approx(every.noise_floor_all)
    assert many["noise_floor"] == pytest.approx(every.noise_floor)


def test_arrow_holds_the_same_as_json(web, address):
    for method, path, body in (
        ("POST", "estimates", {"keys": [1, 2, 3]}),
        ("POST", "estimates", {"keys": [1, 2, 3], "posterior": True}),
        ("POST", "top", {"candidates": [1, 2, 3]}),
        ("GET", "top?count=2", None),
    ):
        options = {} if body is None else {"json": body}
        answer = web(method, f"{address}/{path}", headers={"accept": ARROW}, **options)
        assert answer.headers["content-type"] == ARROW
        table = pyarrow.ipc.open_stream(io.BytesIO(answer.content)).read_all()
        plain = web(method, f"{address}/{path}", **options).json()
        assert table.to_pylist() == plain.pop("estimates")
        assert json.loads(table.schema.metadata[b"faintly"]) == plain


@every("accept", ["*/*", "application/json", "text/html, */*;q=0.1", "APPLICATION/JSON"])
def test_json_is_what_most_get(web, address, accept):
    answer = web("POST", f"{address}/estimates", json={"keys": [1]}, headers={"accept": accept})
    assert answer.headers["content-type"] == "application/json"


@every(
    ("accept", "media"),
    [
        (f"{ARROW}, application/json", ARROW),
        (f"application/json, {ARROW}", "application/json"),
        (f"application/json;q=0.5, {ARROW}", ARROW),
        (f"application/json; q=0.5, {ARROW};q=0.4", "application/json"),
        ("application/json;q=0, */*", ARROW),
        ("application/json;q=0, application/*;q=0.1", ARROW),
        (f"*/*, {ARROW};q=0", "application/json"),
        (f"*/*;q=0.1, {ARROW};Q=0.2", ARROW),
        ("application/json;q=odd", "application/json"),
        ("", "application/json"),
        ("application/json;q=0", None),
        ("application/json;q=0.000, text/html", None),
        ("*/*;q=0", None),
    ],
)
def test_a_weight_is_honoured(web, address, refused, accept, media):
    answer = web("POST", f"{address}/estimates", json={"keys": [1]}, headers={"accept": accept})
    if media is None:
        refused(answer, 406, "NOT_ACCEPTABLE")
    else:
        assert answer.headers["content-type"] == media


def test_an_epoch_that_went_away_meanwhile_is_unknown(web, address, plan, refused, monkeypatch):
    file_of = web.store.sketches.file

    def made_anew(*arguments, **named):
        web.store.delete(plan.digest)
        web.store.registry.create(plan, epochs=[0])
        return file_of(*arguments, **named)

    monkeypatch.setattr(web.store.sketches, "file", made_anew)
    told = web("POST", f"{address}/estimates", json={"keys": [1], "epoch": 4})
    refused(told, 404, "UNKNOWN_EPOCH")


def test_every_epoch_can_be_asked_about(web, plan, body_of):
    last = 2**53 - 1
    address = web.create(plan, epochs=[last])
    web.send(plan, body_of(plan, 5), params={"epoch": last})
    web.store.seal()
    assert web("GET", f"{address}/top?epoch={last}").json()["epoch"] == last


def test_other_forms_are_not_acceptable(web, address, refused):
    for path in ("top", "noise-floor"):
        html = web("GET", f"{address}/{path}", headers={"accept": "text/html"})
        refused(html, 406, "NOT_ACCEPTABLE")
    told = refused(
        web("GET", f"{address}/noise-floor", headers={"accept": ARROW}), 406, "NOT_ACCEPTABLE"
    )
    assert "application/json" in told["message"]
    assert "arrow" not in (told["message"] + told["hint"]), "it was asked for, and is not there"


def test_an_etag_lasts_until_the_answer_changes(web, address, plan, body_of):
    asked = {"keys": [1], "epoch": 4}
    first = web("POST", f"{address}/estimates", json=asked)
    known = {"if-none-match": f'"x", {first.headers["etag"]}'}
    again = web("POST", f"{address}/estimates", json=asked, headers=known)
    assert (again.status_code, again.content) == (304, b"")
    for other in ({"keys": [2]}, {"level": 0.5}, {"epoch": 0}, {"epoch": "all"}):
        answer = web("POST", f"{address}/estimates", json=asked | other, headers=known)
        assert answer.status_code == 200, other
    table = web("POST", f"{address}/estimates", json=asked, headers=known | {"accept": ARROW})
    assert table.status_code == 200
    web("POST", f"{address}/seal")
    sealed = web("POST", f"{address}/estimates", json=asked, headers=known)
    assert (sealed.status_code, sealed.json()["reports"]) == (200, 307)


def test_the_sketch_is_the_stores(web, address, plan):
    for query, epoch in (("", 4), ("?epoch=0", 0), ("?epoch=all", None)):
        data = web("GET", f"{address}/sketch{query}").content
        read = decode_sketch(data, sketch_shape)
        assert read == sketch_of(web, plan, epoch)
    assert list((web.store.folder / "spool").iterdir()) == []


def test_hostile_keys_come_back_escaped(web, open_plan, body_of):
    address = web.create(open_plan)
    web.send(open_plan, body_of(open_plan, 50))
    web("POST", f"{address}/seal")
    answer = web("POST", f"{address}/estimates", json={"keys": [*HOSTILE, 7]})
    assert answer.status_code == 200
    assert answer.text.isascii()
    assert not any(ord(letter) < 32 for letter in answer.text)
    assert [row["key"] for row in answer.json()["estimates"]] == [*HOSTILE, 7]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_errors_name_positions_and_never_what_was_asked(web, address, refused):
    secret = "alice@example.org at position 7"
    for key in [*HOSTILE, secret, "k" * 50_000]:
        for path, name in (("estimates", "keys"), ("history", "keys"), ("top", "candidates")):
            told = web("POST", f"{address}/{path}", json={name: [1, key]})
            document = refused(told, 422, "UNKNOWN_KEY")
            assert document["message"].startswith("the key at position 1 is not"), path
            assert key not in document["message"]
    outside = refused(
        web("POST", f"{address}/estimates", json={"keys": [4711]}), 422, "UNKNOWN_KEY"
    )
    assert outside["message"] == "the key at position 0 is outside 0..63"


def test_an_unknown_field_is_not_repeated(web, address, refused):
    asked = {"keys": [1], "my secret disease": 1}
    told = refused(web("POST", f"{address}/estimates", json=asked), 422, "INVALID")
    assert told["message"] == "body: it has a field that is not known here"
    assert "Content-Type" not in told["hint"]
    missing = refused(web("POST", f"{address}/estimates", json={"level": 0.5}), 422, "INVALID")
    assert missing["message"] == "body.keys: Field required"


@every("raw", [b'"\\ud800"', b"1.5", b"-1", b"true", b'"' + b"k" * 65_537 + b'"'])
def test_what_is_no_key_is_told_the_rule_of_keys(web, address, refused, raw):
    headers = {"content-type": "application/json"}
    for path, name in (("estimates", b"keys"), ("top", b"candidates")):
        body = b'{"%s": [1, %s]}' % (name, raw)
        answer = web("POST", f"{address}/{path}", content=body, headers=headers)
        message = refused(answer, 422, "INVALID")["message"]
        assert message.startswith(f"body.{name.decode()}.1: a key is an integer")


def test_mixed_keys_have_no_arrow_column(web, open_plan, body_of, refused):
    address = web.create(open_plan)
    web.send(open_plan, body_of(open_plan, 50))
    web("POST", f"{address}/seal")
    mixed = {"keys": ["a", 1]}
    told = web("POST", f"{address}/estimates", json=mixed, headers={"accept": ARROW})
    refused(told, 400, "BAD_REQUEST")
    large = {"keys": [2**64 - 1]}
    answer = web("POST", f"{address}/estimates", json=large, headers={"accept": ARROW})
    assert pyarrow.ipc.open_stream(answer.content).read_all()["key"].to_pylist() == [2**64 - 1]


def test_queries_without_answers(web, plan, open_plan, body_of, refused):
    address = web.create(plan)
    web.send(plan, body_of(plan, 5))
    for path in ("top", "noise-floor", "sketch", "top?epoch=all", "top?epoch=0"):
        refused(web("GET", f"{address}/{path}"), 409, "NO_REPORTS")
    refused(web("GET", f"{address}/top?epoch=3"), 404, "UNKNOWN_EPOCH")
    assert web("POST", f"{address}/history", json={"keys": [1]}).json()["epochs"] == []
    everything = web.create(open_plan)
    web.send(open_plan, body_of(open_plan, 5))
    web("POST", f"{everything}/seal")
    refused(web("GET", f"{everything}/top"), 422, "INVALID")


@every(
    "asked",
    [
        {"keys": []},
        {"keys": [1], "level": 1},
        {"keys": [1], "level": "0.9"},
        {"keys": [1], "level": 0},
        {"keys": [1.5]},
        {"keys": [True]},
        {"keys": [None]},
        {"keys": [-1]},
        {"keys": [2**64]},
        {"keys": [1], "epoch": -1},
        {"keys": [1], "epoch": "some"},
        {"keys": [1], "other": 1},
        {"keys": "abc"},
        {"level": 0.5},
        [],
        None,
        3,
    ],
)
def test_bad_queries_are_refused(web, address, refused, asked):
    refused(web("POST", f"{address}/estimates", json=asked), 422, "INVALID")
    nan = b'{"keys": [1], "level": NaN}'
    headers = {"content-type": "application/json"}
    refused(web("POST", f"{address}/estimates", content=nan, headers=headers), 422, "INVALID")
