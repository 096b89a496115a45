"""Make the test vectors of spec/vectors: python -m spec.generator [--check].

Every file is a JSON list of cases, and every case says why it exists. The same code writes
the same bytes on every machine; `--check` writes nothing and fails where a file would change.
Numbers of 64 bits are 16 hexadecimal digits, most significant first; bytes are hexadecimal.
"""

import argparse
import io
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core import Key, Plan, ReportBatch, Sketch, SparseVector, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.errors import Reject
from faintly.mechanisms import Mechanism, mechanism_of
from faintly.primitives import hashing
from faintly.primitives.entropy import Rng, uniform_seeds
from faintly.wire import report_v1, sketch_v1
from spec.generator import cases, refusals
from spec.generator.word_sources import GivenWords, HashedWords, RecordedWords

Case = dict[str, Any]
OUT = Path(__file__).resolve().parents[1] / "vectors"
SEEDS = (0, 1, 2, 0x0123456789, 0xFFFFFFFFFF)
TAGS = {"bin": hashing.BIN, "sign": hashing.SIGN, "row": hashing.ROW, "matrix": hashing.MATRIX}
TAGS |= {"map": hashing.MAP, "mask": hashing.MASK, "fold": hashing.FOLD}
TAGS |= {"group": hashing.GROUP, "point": hashing.POINT}
NUMBERED = {"equation": hashing.EQUATION, "coin": hashing.COIN, "order": hashing.ORDER}
NUMBERED |= {"projection": hashing.PROJECTION, "symbol": hashing.SYMBOL}
ONCE = ("coin", "order")  # only word 0 of these is ever used
SHOWN = 3  # reports of a sketch vector: enough to see the order of columns
# Outside of texts.
FRACTION = re.compile(r"(?<=[ \[])-?[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?(?=[,\]}\n])")
CLOSE = 1e-12  # relative; the tests allow other implementations as much


def sketch_bytes(sketch: Sketch) -> bytes:
    """Return the bytes of a sketch file."""
    stream = io.BytesIO()
    sketch_v1.write_sketch(sketch, stream)
    return stream.getvalue()


def hex64(number: int) -> str:
    """Return a 64-bit number as 16 hexadecimal digits."""
    return f"{int(number):016x}"


def plan_of(name: str) -> Plan:
    """Return the plan of that name in `cases`."""
    return Plan.from_json(json.dumps(cases.document(name)))


def key_of(tagged: Case) -> Key:
    """Return the key that a vector spells as text, bytes, integer or index."""
    if "text" in tagged:
        return str(tagged["text"])
    if "bytes" in tagged:
        return bytes.fromhex(tagged["bytes"])
    return int(tagged["integer"], 16) if "integer" in tagged else int(tagged["index"])


def _ids(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.uint64)


def hashing_keys() -> Iterator[Case]:
    """Yield keys of an open universe with their ids."""
    plan = plan_of("event-open")
    for why, key in cases.KEYS:
        number = plan.ids([key_of(key)])[0]
        yield {"why": why, "salt": cases.SALT, "key": key, "id": hex64(number)}
    for why, text in cases.NO_KEYS:
        yield {"why": why, "salt": cases.SALT, "key": {"text": text}, "id": None}


def hashing_mix() -> Iterator[Case]:
    """Yield words of both mixing functions."""
    for name, tag in TAGS.items():
        seeds = _ids(0, 0x0123456789, 0xFFFFFFFFFFFFFFFF, 0x0706050403020100)
        ids = _ids(0, 7, 0xFFFFFFFFFFFFFFFF, 0x0F0E0D0C0B0A0908)
        words = hashing.mix(seeds, ids, tag)
        strong = hashing.mix_blake2s(seeds, ids, tag)
        for at in range(len(seeds)):
            yield {
                "why": f"tag for {name}",
                "key": hex64(seeds[at]),
                "id": hex64(ids[at]),
                "tag": tag,
                "half_sip": int(words[at]),
                "blake2s": int(strong[at]),
            }


def hashing_words() -> Iterator[Case]:
    """Yield numbered words of an id in every way that they are made."""
    seeds, ids = _ids(0, 0x0123456789), _ids(7, 0x0F0E0D0C0B0A0908)
    for name, tag in NUMBERED.items():
        for at in range(len(seeds)):
            one, count = (seeds[at : at + 1], ids[at : at + 1], tag), 1 if name in ONCE else 2
            yield {
                "why": f"tag for {name}, word after word",
                "key": hex64(seeds[at]),
                "id": hex64(ids[at]),
                "tag": tag,
                "half_sip": hashing.hash_words(*one, count, "prf")[0].tolist(),
                "blake2s": hashing.hash_words(*one, count, "blake2s")[0].tolist(),
            }
    yield {
        "why": "wide hashing: eight words from each digest",
        "key": hex64(seeds[1]),
        "id": hex64(ids[1]),
        "tag": hashing.WIDE,
        "wide": hashing.wide_words(seeds[1:], ids[1:], 9)[0].tolist(),
    }


def hashing_linear() -> Iterator[Case]:
    """Yield codes, masks, maps and rows of linear plans, with odd, even and single bits."""
    for name in ("event-one-bin", "event-two-bins", "event-coarse", "event-open"):
        plan = plan_of(name)
        maps = hashing.LinearMaps(plan.hashing, plan.salt, plan.universe.size)
        size = plan.universe.size
        ids = _ids(*range(size)) if size else plan.ids(["left-pad", "é", ""])
        number = np.arange(maps.maps)[:, None]
        seeds = _ids(*SEEDS)
        width = int(plan.parameters["bins"]).bit_length() - 1  # type: ignore[arg-type]
        row, matrix = maps.rows(seeds, width)
        yield {
            "why": f"{plan.hashing.bits} bits, {maps.maps} maps, {plan.universe.kind} universe",
            "plan": name,
            "ids": [hex64(item) for item in ids],
            "codes": maps.codes(ids[None, :], number).tolist(),
            "masks": maps.masks(ids[None, :], number).tolist(),
            "seeds": [hex64(seed) for seed in seeds],
            "map_of": maps.map_of(seeds).tolist(),
            "row": row.tolist(),
            "matrix": matrix.tolist(),
        }


def hashing_places() -> Iterator[Case]:
    """Yield the bin and sign of ids under seeds, in every family."""
    for name in ("event-one-bin", "event-two-bins", "event-prf", "event-open", "squeeze"):
        plan = plan_of(name)
        seeds, ids = _ids(*SEEDS).repeat(3), np.tile(_ids(0, 1, 2), len(SEEDS))
        place = places_of(plan, seeds, ids)
        yield {
            "why": f"{plan.hashing.family} family, {plan.parameters['bins']} bins",
            "plan": name,
            "places": [
                {"seed": hex64(s), "id": hex64(i), "bin": int(b), "sign": int(t)}
                for s, i, b, t in zip(seeds, ids, place.bins, place.signs, strict=True)
            ],
        }


def places_of(plan: Plan, seeds: Any, ids: Any) -> hashing.Places:
    """Return where ids fall under seeds in a plan."""
    bins = plan.parameters["bins"]
    assert isinstance(bins, int)
    if plan.hashing.linear:
        maps = hashing.LinearMaps(plan.hashing, plan.salt, plan.universe.size)
        return maps.places(seeds, ids, bins)
    return hashing.places(seeds, ids, bins, plan.hashing.family)


def hashing_seeds() -> Iterator[Case]:
    """Yield public seeds drawn from two words."""
    words = [0x01234567, 0x89ABCDEF]
    for size in (5, 8):
        seed = uniform_seeds(GivenWords(words), 1, size)[0]
        why = f"a seed of {size} bytes is the top of the two words, the second above the first"
        yield {"why": why, "words": words, "seed_bytes": size, "seed": hex64(seed)}


def plan_valid() -> Iterator[Case]:
    """Yield plans with their canonical bytes and digests."""
    for name, (why, _) in cases.PLANS.items():
        plan = plan_of(name)
        yield {
            "why": why,
            "name": name,
            "document": cases.document(name),
            "canonical": plan.canonical.hex(),
            "digest": plan.digest.hex(),
            "record_bytes": mechanism_of(plan).layout.record_bytes,
        }


def plan_invalid() -> Iterator[Case]:
    """Yield plans that must be refused when read, or when their mechanism is built."""
    for why, case in cases.INVALID_PLANS:
        yield {"why": why, "error": "InvalidPlan"} | case


def report_randomize() -> Iterator[Case]:
    """Yield reports made from given words."""
    for name, why, items, source in cases.RANDOMIZE:
        plan = plan_of(name)
        mechanism = mechanism_of(plan)
        rng: Rng = HashedWords(source) if isinstance(source, str) else GivenWords(source)
        secret = RecordedWords(rng)
        seeds = uniform_seeds(HashedWords(f"seed {name}"), 1, mechanism.seed_bytes)
        ids = plan.ids([key_of(key) for key, _ in items], private=True)
        vector = SparseVector(ids, [value for _, value in items])
        fields = mechanism.randomize(VectorBatch.of([vector]), seeds, secret)
        batch = ReportBatch(plan.digest, seeds, fields)
        yield {
            "why": why,
            "plan": name,
            "items": [{"key": key, "value": value} for key, value in items],
            "hash_seed": hex64(seeds[0]),
            "words": secret.used,
            "fields": fields[0].tolist(),
            "record": report_v1.encode_report(batch[0], mechanism.layout).hex(),
        }


def some_reports(mechanism: Mechanism, count: int) -> ReportBatch:
    """Return a few reports with fields that lie anywhere in their range."""
    layout, source = mechanism.layout, HashedWords(f"reports {mechanism.plan.hashing.family}")
    seeds = uniform_seeds(source, count, layout.seed_bytes)
    columns = [hashing.scale_to(source.words(count), limit) for limit in layout.limits]
    fields = np.stack(columns, axis=1).astype(np.uint32)
    return ReportBatch(mechanism.plan.digest, seeds, fields)


def report_batch() -> Iterator[Case]:
    """Yield batches, with a batch of none and the two ends of the range."""
    for name in cases.PLANS:
        mechanism = mechanism_of(plan_of(name))
        batch = some_reports(mechanism, 2)
        yield _batch_case("two reports", name, mechanism, batch)
        if name == "event-prf":
            ends = np.array([[0] * 3, [limit - 1 for limit in mechanism.layout.limits]], np.uint32)
            top = _ids(0, 2**40 - 1)
            batch = ReportBatch(batch.plan_digest, top, ends)
            yield _batch_case("the least and the greatest report", name, mechanism, batch)
            yield _batch_case("no report", name, mechanism, batch.take(slice(0)))


def _batch_case(why: str, name: str, mechanism: Mechanism, batch: ReportBatch) -> Case:
    return {
        "why": why,
        "plan": name,
        "reports": reports_json(batch),
        "batch": report_v1.encode_batch(batch, mechanism.layout).hex(),
    }


def reports_json(batch: ReportBatch) -> list[Case]:
    """Return the reports of a batch as vectors write them."""
    return [
        {"hash_seed": hex64(report.hash_seed), "fields": list(report.fields)}
        for report in (batch[position] for position in range(len(batch)))
    ]


def estimate_estimate() -> Iterator[Case]:
    """Yield reports with the integers and numbers that a server reads from them."""
    for name, keys in cases.ASKED.items():
        mechanism = mechanism_of(plan_of(name))
        batch = some_reports(mechanism, 6)
        reader = Reader(aggregate(mechanism.plan, [batch]))
        answers = reader.estimate([key_of(key) for key in keys])
        totals = reader.totals(mechanism.plan.ids([key_of(key) for key in keys]))
        yield {
            "why": cases.PLANS[name][0],
            "plan": name,
            "reports": reports_json(batch),
            "reports_per_map": reader.sketch.reports.tolist(),
            "squares": str(reader.sketch.squares),
            "answers": [
                {"key": key, "total": int(total), "mean": answer.mean, "stderr": answer.stderr}
                for key, total, answer in zip(keys, totals, answers, strict=True)
            ],
            "null_stderr": answers.null_stderr,
        }


def some_sketch(name: str, count: int = SHOWN) -> Sketch:
    """Return the sketch of a few reports of a plan."""
    mechanism = mechanism_of(plan_of(name))
    return aggregate(mechanism.plan, [some_reports(mechanism, count)])


def sketch_sketch() -> Iterator[Case]:
    """Yield sketches as files, full and empty, table and direct."""
    for name, count, why in (
        ("event-two-bins", SHOWN, "tables of two maps"),
        ("event-two-bins-direct", SHOWN, "columns of the same reports, sorted"),
        ("squeeze", SHOWN, "columns with 8-byte seeds"),
        ("retrieval-blocks", SHOWN, "a table for each block of the one map"),
        ("event-coarse", 0, "no reports, table"),
        ("event-prf", 0, "no reports, direct: a file without arrays"),
    ):
        mechanism = mechanism_of(plan_of(name))
        batch = some_reports(mechanism, count)
        sketch = aggregate(mechanism.plan, [batch])
        yield {
            "why": why,
            "plan": name,
            "reports": reports_json(batch),
            "sketch": sketch_bytes(sketch).hex(),
        }


def reject_batch() -> Iterator[Case]:
    """Yield bytes that are no batch of the plan's reports, with the code of the refusal."""
    plan = plan_of("event-one-bin")
    batch = some_reports(mechanism_of(plan), 2)
    good = report_v1.encode_batch(batch, mechanism_of(plan).layout)
    other = plan_of("event-two-bins").digest
    for why, data, code in refusals.batches(good, other):
        yield {"why": why, "plan": "event-one-bin", "bytes": data.hex(), "reject": str(code)}
    blocks = mechanism_of(plan_of("retrieval-blocks"))
    body = report_v1.encode_batch(some_reports(blocks, 1), blocks.layout)[:-4]
    data = refusals.sealed_batch(body[:-1] + bytes([body[-1] | 128]))
    why, reject = "three cells of five bits leave one bit unused", str(Reject.UNUSED_BITS)
    yield {"why": why, "plan": "retrieval-blocks", "bytes": data.hex(), "reject": reject}


def reject_sketch() -> Iterator[Case]:
    """Yield bytes that are no sketch, with the code of the refusal."""
    good = sketch_bytes(some_sketch("event-coarse"))
    direct = plan_of("retrieval-direct-short")
    kept = sketch_bytes(some_sketch("retrieval-direct-short", 3))
    (limit,) = mechanism_of(direct).layout.limits
    for why, data, code in (*refusals.sketches(good), *refusals.columns(kept, limit)):
        yield {"why": why, "bytes": data.hex(), "reject": str(code)}


FILES = {
    "estimate/estimate.json": estimate_estimate,
    "hashing/keys.json": hashing_keys,
    "hashing/linear.json": hashing_linear,
    "hashing/mix.json": hashing_mix,
    "hashing/places.json": hashing_places,
    "hashing/seeds.json": hashing_seeds,
    "hashing/words.json": hashing_words,
    "plan/invalid.json": plan_invalid,
    "plan/valid.json": plan_valid,
    "reject/batch.json": reject_batch,
    "reject/sketch.json": reject_sketch,
    "report/batch.json": report_batch,
    "report/randomize.json": report_randomize,
    "sketch/sketch.json": sketch_sketch,
}


def render(value: Any, indent: str = "") -> str:
    """Return JSON with one case per paragraph, sorted, and short lists on one line."""
    line = json.dumps(value, sort_keys=True)
    if len(indent) + len(line) <= 100 or not isinstance(value, dict | list):
        return line
    deeper = indent + " "
    if isinstance(value, dict):
        inner = [f"{json.dumps(name)}: {render(value[name], deeper)}" for name in sorted(value)]
        return "{\n" + ",\n".join(deeper + text for text in inner) + f"\n{indent}}}"
    if all(isinstance(entry, int) for entry in value):
        return line
    inner = [render(entry, deeper) for entry in value]
    return "[\n" + ",\n".join(deeper + text for text in inner) + f"\n{indent}]"


def generate() -> dict[str, str]:
    """Return the text of every vector file by its name."""
    return {name: render(list(make())) + "\n" for name, make in FILES.items()}


def changed(out: Path) -> list[str]:
    """Return the names of files that are missing, different, or not among the vectors."""
    wanted = generate()
    found = {
        path.relative_to(out).as_posix(): path.read_text("utf-8") for path in out.rglob("*.json")
    }
    return sorted(
        name for name in wanted | found if not same(wanted.get(name, ""), found.get(name, ""))
    )


def same(made: str, found: str) -> bool:
    """Return whether two texts are equal, except for the last digits of fractions.

    Logarithms and matrix products differ in their last bit from one processor to the next.
    """
    if FRACTION.sub("", made) != FRACTION.sub("", found):
        return False
    pairs = zip(FRACTION.findall(made), FRACTION.findall(found), strict=True)
    return all(math.isclose(float(one), float(other), rel_tol=CLOSE) for one, other in pairs)


def main(arguments: list[str] | None = None) -> int:
    """Write the vectors, or check them, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m spec.generator", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the vectors")
    given = parser.parse_args(arguments)
    names = changed(given.out)
    if given.check:
        for name in names:
            sys.stderr.write(f"{given.out / name} differs from what the code makes\n")
        return 1 if names else 0
    texts = generate()
    for name in names:
        path = given.out / name
        if name not in texts:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[name], "utf-8")
    sys.stdout.write(f"{len(texts)} files in {given.out}, {len(names)} of them changed\n")
    return 0
