"""Replays spec/vectors through the library and through a client written from the text alone."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from faintly import errors, kernels
from faintly.core import Plan, ReportBatch, SparseVector, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.errors import InvalidInput, Reject, Rejected, ReportRejected, SketchRejected
from faintly.mechanisms import mechanism_of
from faintly.primitives import hashing
from faintly.primitives.entropy import uniform_seeds
from faintly.wire import report_v1, sketch_v1
from spec import independent
from spec.generator import cases, vectors
from spec.generator.word_sources import GivenWords
from spec.independent import projection, retrieval
from tests.every import every

FOLDER = Path(__file__).parents[2] / "spec" / "vectors"


def load(name):
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def each(name):
    return every("case", load(name))


DOCUMENTS = {case["name"]: case["document"] for case in load("plan/valid")}


def plan_named(name):
    return Plan.from_json(json.dumps(DOCUMENTS[name]))


def column(texts):
    return np.array([int(text, 16) for text in texts], dtype=np.uint64)


def batch_of(plan, reports):
    width = len(mechanism_of(plan).layout.widths)
    fields = np.array([report["fields"] for report in reports], dtype=np.uint32)
    seeds = column(report["hash_seed"] for report in reports)
    return ReportBatch(plan.digest, seeds, fields.reshape(-1, width))


def independent_id(document, key):
    if document["universe"]["kind"] == "named":
        return document["universe"]["names"].index(key["text"])
    if "index" in key:
        return key["index"]
    if "integer" in key:
        return int(key["integer"], 16)
    data = key["text"].encode() if "text" in key else bytes.fromhex(key["bytes"])
    return independent.key_id(data, bytes.fromhex(document["salt"]))


def shape_of(plan):
    return mechanism_of(plan).tables.sketch_shape


def test_regeneration_changes_nothing():
    assert vectors.changed(FOLDER) == []


def test_only_the_last_digits_of_a_fraction_may_differ():
    text = '{"mean": 0.6468278208424562, "plan": "0.25", "total": 2}'
    assert vectors.same(text, text.replace("4562", "4542"))
    for mutant in (text.replace("6468", "6469"), text.replace("0.25", "0.250000000000001")):
        assert not vectors.same(text, mutant)
    assert not vectors.same(text, text.replace("2}", "3}"))
    assert not vectors.same(text, "")


def test_a_changed_vector_is_noticed(tmp_path, monkeypatch):
    few = {name: vectors.FILES[name] for name in ("hashing/keys.json", "plan/valid.json")}
    monkeypatch.setattr(vectors, "FILES", few)
    assert vectors.main(["--out", str(tmp_path)]) == 0
    assert vectors.main(["--out", str(tmp_path), "--check"]) == 0
    victim = tmp_path / "hashing" / "keys.json"
    victim.write_text(victim.read_text("utf-8").replace("left-pad", "right-pad"), "utf-8")
    (tmp_path / "extra.json").write_text("[]", "utf-8")
    assert vectors.changed(tmp_path) == ["extra.json", "hashing/keys.json"]
    assert vectors.main(["--out", str(tmp_path), "--check"]) == 1
    assert vectors.main(["--out", str(tmp_path)]) == 0
    assert vectors.changed(tmp_path) == []


def test_every_case_says_why_and_the_whole_stays_small():
    paths = sorted(FOLDER.rglob("*.json"))
    assert {path.relative_to(FOLDER).as_posix() for path in paths} == set(vectors.FILES)
    for path in paths:
        assert all(case["why"] for case in json.loads(path.read_text("utf-8"))), path
    assert sum(path.stat().st_size for path in paths) < 250_000


def test_every_code_of_refusal_has_a_vector():
    seen = {case["reject"] for name in ("batch", "sketch") for case in load(f"reject/{name}")}
    assert seen == set(Reject)


@each("hashing/keys")
def test_keys(case):
    plan = plan_named("event-open")
    assert plan.salt.hex() == case["salt"]
    if case["id"] is None:
        with pytest.raises(InvalidInput, match="lone surrogate"):
            plan.ids([vectors.key_of(case["key"])])
        with pytest.raises(UnicodeEncodeError):
            independent_id(DOCUMENTS["event-open"], case["key"])
        return
    assert plan.ids([vectors.key_of(case["key"])])[0] == int(case["id"], 16)
    assert independent_id(DOCUMENTS["event-open"], case["key"]) == int(case["id"], 16)


@each("hashing/mix")
def test_mix(case):
    key, item = int(case["key"], 16), int(case["id"], 16)
    columns = column([case["key"]]), column([case["id"]])
    assert hashing.mix(*columns, case["tag"]).tolist() == [case["half_sip"]]
    assert hashing.mix_blake2s(*columns, case["tag"]).tolist() == [case["blake2s"]]
    assert independent.mix(key, item, case["tag"]) == case["half_sip"]
    assert independent.mix_blake2s(key, item, case["tag"]) == case["blake2s"]


@each("hashing/words")
def test_words(case):
    key, item, tag = int(case["key"], 16), int(case["id"], 16), case["tag"]
    columns = column([case["key"]]), column([case["id"]])
    if "wide" in case:
        count = len(case["wide"])
        assert tag == hashing.WIDE
        assert hashing.wide_words(*columns, count).tolist() == [case["wide"]]
        assert kernels.hash_wide(*columns, count).tolist() == [case["wide"]]
        assert independent.wide_words(key, item, count) == case["wide"]
        return
    count = len(case["half_sip"])
    assert kernels.hash_words(*columns, tag, count).tolist() == [case["half_sip"]]
    for family, name in (("prf", "half_sip"), ("blake2s", "blake2s")):
        assert hashing.hash_words(*columns, tag, count, family).tolist() == [case[name]]
        assert [independent.hash_word(key, item, tag, w, family) for w in range(count)] == case[
            name
        ]


@each("hashing/linear")
def test_linear_maps(case):
    plan, document = plan_named(case["plan"]), DOCUMENTS[case["plan"]]
    maps = hashing.LinearMaps(plan.hashing, plan.salt, plan.universe.size)
    ids, seeds = column(case["ids"]), column(case["seeds"])
    for j in range(maps.maps):
        chosen = np.full(len(ids), j)
        assert maps.codes(ids, chosen).tolist() == case["codes"][j]
        assert maps.masks(ids, chosen).tolist() == case["masks"][j]
        assert [independent.code(document, item, j) for item in ids.tolist()] == case["codes"][j]
        assert [independent.mask(document, item, j) for item in ids.tolist()] == case["masks"][j]
    row, matrix = maps.rows(seeds, len(case["matrix"][0]))
    assert (row.tolist(), matrix.tolist()) == (case["row"], case["matrix"])
    assert maps.map_of(seeds).tolist() == case["map_of"]
    drawn = [independent.row_and_matrix(document, seed) for seed in seeds.tolist()]
    assert drawn == list(zip(case["row"], case["matrix"], strict=True))
    assert [independent.map_of(document, seed) for seed in seeds.tolist()] == case["map_of"]


@each("hashing/places")
def test_places(case):
    plan, document = plan_named(case["plan"]), DOCUMENTS[case["plan"]]
    wanted = [(place["bin"], place["sign"]) for place in case["places"]]
    seeds = column(place["seed"] for place in case["places"])
    ids = column(place["id"] for place in case["places"])
    found = vectors.places_of(plan, seeds, ids)
    assert list(zip(found.bins.tolist(), found.signs.tolist(), strict=True)) == wanted
    pairs = zip(seeds.tolist(), ids.tolist(), strict=True)
    assert [independent.place(document, seed, item) for seed, item in pairs] == wanted


@each("hashing/seeds")
def test_seeds(case):
    words, size, wanted = case["words"], case["seed_bytes"], int(case["seed"], 16)
    assert uniform_seeds(GivenWords(words), 1, size).tolist() == [wanted]
    assert independent.seed_from(*words, size) == wanted


@each("plan/valid")
def test_valid_plans(case):
    plan = Plan.from_json(json.dumps(case["document"]))
    assert plan.canonical.hex() == case["canonical"]
    assert plan.digest.hex() == case["digest"]
    assert plan.document() == case["document"]
    assert Plan.from_json(plan.canonical).digest == plan.digest
    assert Plan.from_json(plan.to_json()).digest == plan.digest
    assert mechanism_of(plan).layout.record_bytes == case["record_bytes"]
    compact = json.dumps(
        case["document"], ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )
    assert compact.encode("utf-8").hex() == case["canonical"]
    assert hashlib.blake2s(compact.encode("utf-8"), digest_size=16).hexdigest() == case["digest"]


@each("plan/invalid")
def test_invalid_plans(case):
    with pytest.raises(getattr(errors, case["error"])):
        mechanism_of(Plan.from_json(cases.invalid_text(case)))


@each("report/randomize")
def test_randomize(case):
    plan = plan_named(case["plan"])
    mechanism, words = mechanism_of(plan), GivenWords(case["words"])
    keys = [vectors.key_of(item["key"]) for item in case["items"]]
    values = [item["value"] for item in case["items"]]
    vector = SparseVector(plan.ids(keys, private=True), values)
    seeds = column([case["hash_seed"]])
    fields = mechanism.randomize(VectorBatch.of([vector]), seeds, words)
    assert fields.tolist() == [case["fields"]]
    assert words.left == 0
    report = ReportBatch(plan.digest, seeds, fields)[0]
    assert report_v1.encode_report(report, mechanism.layout).hex() == case["record"]
    record = np.frombuffer(bytes.fromhex(case["record"]), np.uint8)[None, :]
    back = report_v1.unpack(record, plan.digest, mechanism.layout)
    sent = seeds.tolist() if mechanism.layout.seed_bytes else [0]
    assert (back.hash_seeds.tolist(), back.fields.tolist()) == (sent, fields.tolist())


@each("report/randomize")
def test_randomize_by_the_text(case):
    document, words = DOCUMENTS[case["plan"]], iter(case["words"])
    items = [(independent_id(document, item["key"]), item["value"]) for item in case["items"]]
    seed = int(case["hash_seed"], 16)
    assert independent.randomize(document, items, seed, words) == case["fields"]
    assert next(words, None) is None
    assert independent.record(document, seed, case["fields"]).hex() == case["record"]


def test_the_cases_show_what_they_claim():
    by_why = {case["why"]: case for case in load("report/randomize")}
    user = next(case for why, case in by_why.items() if "cut back to the clip" in why)
    document = DOCUMENTS["user-clip"]
    items = [(item["key"]["index"], item["value"]) for item in user["items"]]
    raw = sum(
        independent.place(document, int(user["hash_seed"], 16), item)[1] * int(value * 2)
        for item, value in items
    )
    assert raw == -6
    saturated = next(case for why, case in by_why.items() if "beyond the range" in why)
    assert saturated["fields"] == [2 * DOCUMENTS["event-one-bin"]["parameters"]["range"]]


def test_exact_words_are_all_used():
    for (name, why, _, source), case in zip(cases.RANDOMIZE, load("report/randomize"), strict=True):
        assert (name, why) == (case["plan"], case["why"])
        assert isinstance(source, str) or source == case["words"], why


def claimed(start):
    """Return the one randomize case whose reason starts so, its plan, and its held (id, value)s."""
    (case,) = [case for case in load("report/randomize") if case["why"].startswith(start)]
    document = DOCUMENTS[case["plan"]]
    items = [(independent_id(document, item["key"]), item["value"]) for item in case["items"]]
    return case, document, items


@pytest.mark.parametrize(
    ("start", "ranks"),
    [
        ("all eight keys", [4]),
        ("all twenty keys", [5, 5, 4]),
        ("five items in three bits", [3]),
    ],
)
def test_dependent_items_are_dropped(start, ranks):
    case, document, items = claimed(start)
    seed = int(case["hash_seed"], 16)
    j = independent.map_of(document, seed)
    rows = [[] for _ in ranks]
    for item, _ in items:
        block, row, _ = retrieval.place(document, item, seed, j)
        rows[block].append((row, 0))
    assert [len(retrieval.basis(block)) for block in rows] == ranks
    assert len(items) > max(sum(ranks), document["sparsity"])


@pytest.mark.parametrize(
    ("start", "scores", "slots"),
    [
        ("sums 2, 2, -2, 0", [2, 2, -2, 0], {0, 2, 5}),
        ("the same sums, the coin says other, and the rank falls on", [2, 2, -2, 0], {0, 2, 5}),
        (
            "the same sums, the coin says other, and the rank falls below",
            [2, 2, -2, 0],
            {1, 3, 4, 6, 7},
        ),
        ("sums 2, 0, 0, 0", [2, 0, 0, 0], {0}),
        ("the same sums, and a rank at the border", [2, 0, 0, 0], set(range(2, 8))),
    ],
)
def test_ties_are_what_they_claim(start, scores, slots):
    case, document, _ = claimed(start)
    words = iter(case["words"])
    assert projection.sums(document, 0, [], words) == scores
    assert case["fields"][0] in slots


def test_systematic_rounding_gives_two_tokens_from_any_start():
    _, document, items = claimed("systematic rounding: eight items")
    for start in (0, 1, 2**30, 2**32 - 1):
        assert len(projection.tokens(document, items, iter([0] * 8 + [start]))) == 2


@each("report/batch")
def test_batches(case):
    plan = plan_named(case["plan"])
    layout, data = mechanism_of(plan).layout, bytes.fromhex(case["batch"])
    batch = batch_of(plan, case["reports"])
    assert report_v1.encode_batch(batch, layout) == data
    back = report_v1.decode_batch(data, plan.digest, layout)
    assert vectors.reports_json(back) == case["reports"]
    records = [
        independent.record(DOCUMENTS[case["plan"]], int(report["hash_seed"], 16), report["fields"])
        for report in case["reports"]
    ]
    assert data[report_v1.HEADER.size : -4] == b"".join(records)


@each("estimate/estimate")
def test_estimates(case):
    plan, document = plan_named(case["plan"]), DOCUMENTS[case["plan"]]
    reader = Reader(aggregate(plan, [batch_of(plan, case["reports"])]))
    assert reader.sketch.reports.tolist() == case["reports_per_map"]
    assert str(reader.sketch.squares) == case["squares"]
    keys = [vectors.key_of(answer["key"]) for answer in case["answers"]]
    wanted = [answer["total"] for answer in case["answers"]]
    assert reader.totals(plan.ids(keys)).tolist() == wanted
    found = reader.estimate(keys)
    assert found.mean.tolist() == pytest.approx([a["mean"] for a in case["answers"]], rel=1e-12)
    stderr = [answer["stderr"] for answer in case["answers"]]
    assert found.stderr.tolist() == pytest.approx(stderr, rel=1e-12)
    assert found.null_stderr == pytest.approx(case["null_stderr"], rel=1e-12)
    reports = [(int(r["hash_seed"], 16), r["fields"]) for r in case["reports"]]
    ids = [independent_id(document, answer["key"]) for answer in case["answers"]]
    assert [independent.total(document, reports, item) for item in ids] == wanted
    if document["mechanism"] == "signed-binning":
        return
    by_text = independent.MECHANISMS[document["mechanism"]].estimate
    for answer, item in zip(case["answers"], ids, strict=True):
        hits = {}
        if document["mechanism"] == "projection-choice":
            hits["hits"] = projection.hits(document, reports, item)
        mean, error = by_text(document, answer["total"], len(reports), **hits)
        assert answer["mean"] == pytest.approx(mean, rel=1e-12)
        assert answer["stderr"] == pytest.approx(error, rel=1e-12)
    assert case["null_stderr"] == pytest.approx(by_text(document, 0, len(reports))[1], rel=1e-12)


def test_table_and_direct_give_the_same_integers():
    found = {case["plan"]: case for case in load("estimate/estimate")}
    for name in ("event-two-bins", "event-open"):
        table, direct = found[name], found[f"{name}-direct"]
        assert table["reports"] == direct["reports"]
        answers = {json.dumps(answer["key"]): answer for answer in table["answers"]}
        for answer in direct["answers"]:
            assert answer == answers[json.dumps(answer["key"])]


@each("reject/batch")
def test_refused_batches(case):
    plan, data = plan_named(case["plan"]), bytes.fromhex(case["bytes"])
    with pytest.raises(ReportRejected) as caught:
        report_v1.decode_batch(data, plan.digest, mechanism_of(plan).layout)
    assert caught.value.code == case["reject"]
    assert str(caught.value).startswith(case["reject"])


@each("reject/sketch")
def test_refused_sketches(case):
    with pytest.raises(SketchRejected) as caught:
        sketch_v1.decode_sketch(bytes.fromhex(case["bytes"]), shape_of)
    assert caught.value.code == case["reject"]
    assert isinstance(caught.value, Rejected)


@each("sketch/sketch")
def test_sketches(case):
    plan, data = plan_named(case["plan"]), bytes.fromhex(case["sketch"])
    sketch = aggregate(plan, [batch_of(plan, case["reports"])])
    assert vectors.sketch_bytes(sketch) == data
    back = sketch_v1.decode_sketch(data, shape_of)
    assert back == sketch
    assert back.plan.digest == plan.digest
    assert vectors.sketch_bytes(back) == data
