"""What is fuzzed: a function of bytes for every decoder, from which only a FaintlyError may come.

A checksum would refuse nearly all that a fuzzer makes, so the targets also put the right one on
their input. What a decoder accepts must encode to the same bytes again.
"""

import hashlib
import io
import json
import struct
import tempfile
import zlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from faintly import Plan, aggregate, make_plan
from faintly.client import journal
from faintly.client.push import READY, Parcel, read_state
from faintly.client.transport import Answer
from faintly.core import EventLevel, Universe
from faintly.core.spending import Charge, Loss, exact
from faintly.data import read_records, to_vectors
from faintly.engine import decode
from faintly.engine.files import sketch_shape
from faintly.errors import FaintlyError
from faintly.load import empty_reports
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1, sketch_v1
from faintly_collector.http.middleware import parse_query

Target = Callable[[bytes], None]
SIZES: dict[str, Any] = {"epsilon": 1.0, "sparsity": 3, "clients": 50, "salt": bytes(range(16))}
# One plan of each shape: a table of cells, a direct one with seeds, names, any string.
PLANS = [
    make_plan(protect="event", universe=12, **SIZES),
    make_plan(protect="user", universe=["a", "b", "c"], **SIZES),
    make_plan(protect="event", universe=12, mechanism="signed-binning", **SIZES),
    make_plan(protect="event", universe=Universe.open(), decode="direct", **SIZES),
]
LAYOUTS = [mechanism_of(plan).layout for plan in PLANS]
ODD: list[Any] = [None, True, False, 0, 1, -1, 2**31, 2**63, 2**200, "", "0", "-1", "1e9", "\ud800"]
ODD += ["a" * 300, [], [0], [[]], {}, {"": 0}, "event", "user", "l1:2", "linear", "prf", "blake2s"]
ODD += ["table", "direct", "open", "indexed", "names", "signed-binning", "retrieval", "gaussian"]


CHANGES = 6  # bytes that say what is replaced in a good document, two for each part


def batch(data: bytes) -> None:
    """Decode one batch: as it is, and with a header and a checksum that fit its plan."""
    number = data[0] % len(PLANS) if data else 0
    plan, layout = PLANS[number], LAYOUTS[number]
    refused(lambda: decode(plan, data[1:]))
    count = len(data[1:]) // layout.record_bytes
    records = data[1 : 1 + count * layout.record_bytes]
    head = (report_v1.MAGIC, report_v1.VERSION, plan.digest, layout.record_bytes)
    body = report_v1.HEADER.pack(*head, count) + records
    framed = body + struct.pack("<I", zlib.crc32(body))
    made = decode(plan, framed)
    if report_v1.encode_batch(made, layout) != framed:
        raise AssertionError("a batch that was accepted encodes to other bytes")


def count(data: bytes) -> None:
    """Count a batch as the collector does: it must accept and refuse what decoding does.

    The first byte picks the plan, the second how a good batch of the rest is damaged, if at all.
    """
    number = data[0] % len(PLANS) if data else 0
    plan, layout = PLANS[number], LAYOUTS[number]
    change, records = data[1:2], data[2:]
    reports = 1 if len(records) <= layout.record_bytes else len(records) // layout.record_bytes
    body = records.ljust(layout.record_bytes, b"\0")[: reports * layout.record_bytes]
    head = (report_v1.MAGIC, report_v1.VERSION, plan.digest, layout.record_bytes, reports)
    framed = bytearray(report_v1.HEADER.pack(*head) + body)
    if change and change[0] < report_v1.HEADER.size:
        framed[change[0]] ^= 1
    whole = bytes(framed) + struct.pack("<I", zlib.crc32(framed))
    if change and change[0] >= 250:
        whole = whole[:-1] if change[0] & 1 else whole + b"\0"
    found = outcome(lambda: report_v1.BatchCounter(plan.digest, layout).count(whole))
    if found != outcome(lambda: len(decode(plan, whole))):
        raise AssertionError("counting and decoding a batch disagree")
    if isinstance(found, str):
        raise FaintlyError(found)


def record(data: bytes) -> None:
    """Decode records alone, of every layout."""
    number = data[0] % len(PLANS) if data else 0
    plan, layout = PLANS[number], LAYOUTS[number]
    whole = len(data[1:]) // layout.record_bytes * layout.record_bytes
    rows = np.frombuffer(data[1 : 1 + whole], dtype=np.uint8).reshape(-1, layout.record_bytes)
    made = report_v1.unpack(rows, plan.digest, layout)
    if not np.array_equal(report_v1.pack(made, layout), rows):
        raise AssertionError("records that were accepted encode to other bytes")


def file(data: bytes) -> None:
    """Read a file of batches, and cut it into others."""
    refused(lambda: list(report_v1.read_batches(io.BytesIO(data), PLANS[0].digest, LAYOUTS[0])))
    refused(lambda: list(report_v1.scan_batches(io.BytesIO(data))))
    cut = b"".join(report_v1.resize_batches(io.BytesIO(data), 1 + len(data) % 3))
    again = b"".join(report_v1.resize_batches(io.BytesIO(cut), 10**6)) if cut else b""
    if again != b"".join(report_v1.resize_batches(io.BytesIO(data), 10**6)):
        raise AssertionError("cutting a file twice changed its reports")


def plan(data: bytes) -> None:
    """Read a plan: as it is, and with parts of a good one replaced."""
    refused(lambda: mechanism_of(Plan.from_json(data)).guarantee())
    document = changed(PLANS[len(data) % len(PLANS)].document(), data)
    made = Plan.from_json(json.dumps(document))
    mechanism_of(made).guarantee()
    if Plan.from_json(made.canonical).digest != made.digest:
        raise AssertionError("a plan that was accepted has two digests")


def sketch(data: bytes) -> None:
    """Read a sketch: as it is, with its checksum put right, and with its header changed."""
    refused(lambda: sketch_v1.decode_sketch(data, sketch_shape))
    refused(lambda: sketch_v1.decode_sketch(signed(data), sketch_shape))
    good = SKETCHES[len(data) % len(SKETCHES)]
    _, _, length = sketch_v1.PREFIX.unpack_from(good)
    start = sketch_v1.PREFIX.size
    header = changed(json.loads(good[start : start + length]), data)
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    body = start + length + -(start + length) % sketch_v1.ALIGNMENT
    arrays = good[body : -sketch_v1.CHECKSUM_BYTES]
    padding = bytes(-(start + len(text)) % sketch_v1.ALIGNMENT)
    head = sketch_v1.PREFIX.pack(sketch_v1.MAGIC, sketch_v1.VERSION, len(text))
    sketch_v1.decode_sketch(signed(head + text + padding + arrays), sketch_shape)


def signed(data: bytes) -> bytes:
    """Return the bytes of a sketch with the checksum that they ought to have."""
    return data + hashlib.blake2b(data, digest_size=sketch_v1.CHECKSUM_BYTES).digest()


def answer(data: bytes) -> None:
    """Read what a stranger's server answers."""
    made = Answer(503, {}, data)
    if not made.code.isascii() or len(made.code) > 40:
        raise AssertionError("a code that is not one went through")
    made.json()


def query(data: bytes) -> None:
    """Read the query of a request that sends reports."""
    request, epoch = parse_query(data)
    again = f"request={request.hex()}&epoch={epoch}".encode()
    if parse_query(again) != (request, epoch):
        raise AssertionError("a query that was accepted says two things")


def push(data: bytes) -> None:
    """Read the state file of a push: as it is, and with parts of a good one replaced."""
    refused(lambda: read_state(data.decode("ascii", "replace"), PLACE))
    lines = GOOD_STATE.splitlines(keepends=True)
    for where, what in zip(data[:CHANGES:2], data[1:CHANGES:2], strict=False):
        lines[where % len(lines)] = STATE_LINES[what % len(STATE_LINES)]
    parcel, requests, done = read_state("".join(lines), PLACE)
    kept = [json.dumps(parcel), *(each.hex() for each in requests), READY]
    again = "\n".join([*kept, *(f"{each}." for each in done)])
    if read_state(again, PLACE) != (parcel, requests, done):
        raise AssertionError("a state that was accepted says two things")


def ledger(data: bytes) -> None:
    """Read a ledger's journal: as it is, and lines of JSON with the checksums put right."""
    refused(lambda: journal.read(data))
    text, checksum = b"", 0
    for line in (FIRST_LINE, *data.split(b"\n")):
        checksum = zlib.crc32(line, checksum)
        text += line + b" %08x\n" % checksum
    found = journal.read(text)
    again = journal.read(journal.write(list(found.records)))
    if again.records != found.records:
        raise AssertionError("a journal that was accepted says two things")


def reader(suffix: str) -> Target:
    """Return a target that reads a data file of one kind, up to vectors of a plan."""
    place = Path(tempfile.mkdtemp(prefix="faintly-fuzz-")) / f"data{suffix}"

    def read(data: bytes) -> None:
        place.write_bytes(data)
        found = read_records(place)
        to_vectors(found, PLANS[len(data) % len(PLANS)])

    return read


def planted(data: bytes) -> None:
    """Decode as `batch` does, with a planted mistake that the fuzzer must find."""
    batch(data)
    first = data[:3]
    if len(first) == 3 and first[1] == 0x42:
        raise IndexError("planted")


def changed(document: Any, data: bytes) -> Any:
    """Return a JSON document with some of its parts replaced, as the bytes say."""
    # Only a few changes at a time: the first of many would already be refused.
    for where, what in zip(data[:CHANGES:2], data[1:CHANGES:2], strict=False):
        places = list(_places(document))
        if not places:
            break
        holder, name = places[where % len(places)]
        if what == 255:
            del holder[name]
        else:
            holder[name] = deepcopy(ODD[what % len(ODD)]) if what < 192 else what - 192
    return document


def _places(document: Any) -> Any:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for name, part in list(items):
        yield document, name
        if isinstance(part, dict | list):
            yield from _places(part)


def outcome(call: Callable[[], int]) -> int | str:
    """Return a number, or why there is none."""
    try:
        return call()
    except FaintlyError as error:
        return str(error)


def refused(call: Callable[[], Any]) -> None:
    """Run what may refuse, so that the next way of reading is tried as well."""
    try:
        call()
    except FaintlyError:
        return


def _sketches() -> list[bytes]:
    made = []
    for each in PLANS:
        bodies = empty_reports(each, 1, 20)
        stream = io.BytesIO()
        sketch_v1.write_sketch(aggregate(each, (decode(each, body) for body in bodies)), stream)
        made.append(stream.getvalue())
    return made


def _journal() -> list[bytes]:
    """Return the lines of a good journal without their checksums, except the first."""
    charge = Charge(EventLevel(), Loss(exact("1"), exact("0")), 3)
    digest = PLANS[0].digest
    records: list[journal.Record] = [
        journal.Charged(digest, 0, charge),
        journal.Kept(digest, 0, b"report"),
        journal.Total(charge, 2),
        journal.Last(digest, 7),
        journal.Sending(digest, 0, b"request"),
        journal.Sent(digest, 0),
    ]
    return [line[:-9] for line in journal.write(records).splitlines()[1:]]


SKETCHES = _sketches()
PLACE = Path("reports.fnt.push")
FIRST_LINE = b'["%s",%d]' % (journal.FORMAT.encode(), journal.VERSION)
PARCEL = asdict(Parcel("http://h", "ab" * 16, 0, 10, 15, "cd" * 16))
GOOD_STATE = "\n".join([json.dumps(PARCEL), "00" * 16, "11" * 16, READY, "0.", "1.", ""])
STATE_LINES = ["", "\n", "ready\n", "0.\n", "1", "1_0.\n", "-1.\n", "9" * 5000 + ".\n", "x.\n"]
STATE_LINES += ["[" * 100_000 + "\n", "{}\n", "null\n", "00\n", "0 " * 32 + "\n", "22" * 16 + "\n"]
FILES = {"csv": ".csv", "jsonl": ".jsonl", "fimi": ".fimi"}
TARGETS: dict[str, Target] = {
    "batch": batch,
    "count": count,
    "record": record,
    "file": file,
    "plan": plan,
    "sketch": sketch,
    "answer": answer,
    "query": query,
    "push": push,
    "ledger": ledger,
    **{name: reader(suffix) for name, suffix in FILES.items()},
}
CHANGED = [bytes([where, what]) for where in range(0, 30, 5) for what in (8, 200)]
LINES = [b'{"client": 7, "item": 3, "value": 0.5}', b'{"client": 8, "items": {"a": 1}}']
TEXTS = {
    "csv": [
        b"client,item,value\n0,3,1\n1,3,0.5\n",
        b"userId,movieId,rating,timestamp\n1,2,3.5,4\n",
    ],
    # The length picks the plan, so blanks combine each line with every plan.
    "jsonl": [line + b" " * blanks for line in LINES for blanks in range(4)],
    "fimi": [b"1 2 3\n\n4 5\n"],
    "query": [b"request=00112233445566778899aabbccddeeff&epoch=7", b"epoch=0&request=" + b"a" * 32],
    "push": [GOOD_STATE.encode(), b"", bytes([4, 3]), bytes([0, 9]), bytes([5, 5])],
    "ledger": [b"\n".join(_journal()), *_journal()],
    "answer": [b'{"code": "BUSY", "message": "m", "hint": "h"}', b'{"status": "counted"}'],
}


def examples(name: str) -> list[bytes]:
    """Return good inputs of a target, for the fuzzer to start from."""
    if name in TEXTS:
        return TEXTS[name]
    if name == "plan":
        return [each.canonical for each in PLANS] + CHANGED
    if name == "sketch":
        small = [each[: -sketch_v1.CHECKSUM_BYTES] for each in SKETCHES if len(each) < 2**16]
        return small + CHANGED
    whole = [body for each in PLANS for body in empty_reports(each, 1, 3)]
    if name == "file":
        return [*whole, whole[0] + whole[0]]
    if name == "count":
        singles = [body for each in PLANS for body in empty_reports(each, 1, 1)]
        plain = slice(report_v1.HEADER.size, -report_v1.CHECKSUM_BYTES)
        return [
            bytes([number % len(PLANS), change]) + body[plain]
            for number, body in enumerate([*singles, *whole])
            for change in (100, 0, 250)
        ]
    cut = slice(report_v1.HEADER.size, -report_v1.CHECKSUM_BYTES)
    return [bytes([number]) + body[cut] for number, body in enumerate(whole)]
