"""The bytes of a ledger: one line per record, each with a checksum over all lines so far.

line     JSON array, space, CRC-32 of this and all earlier lines in 8 hex digits, newline
first    ["faintly-ledger",1]
charge   ["charge",digest,epoch,unit,epsilon,delta,items]   before any noise is drawn
report   ["report",digest,epoch,bytes]                      before anything is sent
total    ["total",unit,epsilon,delta,items,count]           charges that were added up
last     ["last",digest,epoch]                              latest epoch charged for a plan
send     ["send",digest,epoch,request]                      the id of all attempts to send a report
sent     ["sent",digest,epoch]                              the collector acknowledged it

Digests, bytes and ids are hexadecimal, epsilon and delta plain decimals, items an integer or null.
The file is created by a rename, with its first line, and every line is on the disk before the next
one is written. So only the last line can be torn, and a torn line has no newline. Anything else
that does not fit is damage, which is refused and never repaired.

A journal that lost whole lines at its end would still be valid. So a mark beside it records the
number of lines at the last charge, and their checksum.
"""

import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

from faintly.core import parse_unit
from faintly.core.epochs import MAX_EPOCH
from faintly.core.spending import Charge, Loss, decimal_of, exact
from faintly.errors import FaintlyError, LedgerFailed

FORMAT = "faintly-ledger"
VERSION = 1
_DECIMAL = re.compile(r"[0-9]{1,400}(\.[0-9]{1,400})?")
_HEX = re.compile(r"([0-9a-f]{2})*")


@dataclass(frozen=True, slots=True)
class _OfEpoch:
    """What most records begin with: a plan, and one of its epochs."""

    digest: bytes
    epoch: int


@dataclass(frozen=True, slots=True)
class Charged(_OfEpoch):
    """A report was paid for, whether or not it was made."""

    charge: Charge


@dataclass(frozen=True, slots=True)
class Kept(_OfEpoch):
    """The bytes of a report, sent now and each time the same report is requested."""

    report: bytes


@dataclass(frozen=True, slots=True)
class Sending(_OfEpoch):
    """The request id that all attempts to send a report share."""

    request: bytes


class Sent(_OfEpoch):
    """A report that the collector acknowledged."""


class Last(_OfEpoch):
    """The latest epoch that was charged for a plan."""


@dataclass(frozen=True, slots=True)
class Total:
    """Many equal charges in one line."""

    charge: Charge
    count: int


Record = Charged | Kept | Total | Last | Sending | Sent


@dataclass(frozen=True, slots=True)
class Journal:
    """What the bytes of a ledger say."""

    records: tuple[Record, ...]
    checksums: tuple[int, ...]  # of every whole line
    torn: bool  # whether the last write was cut short, so that nothing may be appended

    def appended(self, record: Record) -> tuple[bytes, "Journal"]:
        """Return the bytes that append a record, and the journal with it."""
        line, checksum = _line(_values(record), self.checksums[-1])
        return line, Journal((*self.records, record), (*self.checksums, checksum), torn=False)

    @property
    def mark(self) -> bytes:
        """Return the mark of this journal: its number of lines and the last checksum."""
        return _mark(len(self.checksums), self.checksums[-1])

    def check_mark(self, mark: bytes) -> None:
        """Raise `LedgerFailed` unless this is the marked journal, possibly with more lines."""
        if mark not in (_mark(*line) for line in enumerate(self.checksums, start=1)):
            raise LedgerFailed(
                "the ledger has lost lines, so what was spent is not known; "
                "restore the file, or delete it and treat all earlier spending as unknown"
            )


def write(records: list[Record]) -> bytes:
    """Return a whole journal."""
    data, checksum = _line([FORMAT, VERSION], 0)
    for record in records:
        line, checksum = _line(_values(record), checksum)
        data += line
    return data


def read(data: bytes) -> Journal:
    """Return what a journal holds, or raise `LedgerFailed` where it is damaged.

    A torn last line counts if it can be read as a charge, and is dropped otherwise. Dropping it
    is safe: noise is drawn only once the charge is on the disk, and a report is sent only once
    its own line is, so no report has followed a torn line.
    """
    lines = data.split(b"\n")
    end = lines.pop()
    if not lines:
        raise LedgerFailed("the ledger has no first line; it is damaged, or is not a ledger")
    checksums = [_check(lines[0], 0, 1)]
    if _parse(lines[0], 1) != [FORMAT, VERSION]:
        raise LedgerFailed(f"the ledger is not of version {VERSION}, which this program reads")
    records: list[Record] = []
    for number, line in enumerate(lines[1:], start=2):
        checksums.append(_check(line, checksums[-1], number))
        records.append(_record(_parse(line, number), number))
    charge = _torn_charge(end)
    if charge is not None:
        records.append(charge)
    return Journal(tuple(records), tuple(checksums), torn=bool(end))


def _mark(lines: int, checksum: int) -> bytes:
    return f"{lines} {checksum:08x}\n".encode("ascii")


def _line(values: list[Any], before: int) -> tuple[bytes, int]:
    body = json.dumps(values, separators=(",", ":")).encode("ascii")
    checksum = zlib.crc32(body, before)
    return body + f" {checksum:08x}\n".encode("ascii"), checksum


def _check(line: bytes, before: int, number: int) -> int:
    checksum = zlib.crc32(line[:-9], before)
    if line[-9:] != f" {checksum:08x}".encode("ascii"):
        raise _damage(number)
    return checksum


def _damage(number: int) -> LedgerFailed:
    return LedgerFailed(
        f"line {number} of the ledger is damaged, so what was spent is not known; "
        "restore the file, or delete it and treat all earlier spending as unknown"
    )


def _parse(line: bytes, number: int) -> list[Any]:
    try:
        values = json.loads(line[:-9])
    except (ValueError, RecursionError):
        raise _damage(number) from None
    if not isinstance(values, list):
        raise _damage(number)
    return values


def _torn_charge(end: bytes) -> Charged | None:
    try:
        values, _ = json.JSONDecoder().raw_decode(end.decode("latin-1"))
        record = _record(values, 0)
    except (ValueError, RecursionError, LedgerFailed):
        return None
    return record if isinstance(record, Charged) else None


def _values(record: Record) -> list[Any]:
    if isinstance(record, Charged):
        return ["charge", record.digest.hex(), record.epoch, *_charge_values(record.charge)]
    if isinstance(record, Kept):
        return ["report", record.digest.hex(), record.epoch, record.report.hex()]
    if isinstance(record, Total):
        return ["total", *_charge_values(record.charge), record.count]
    if isinstance(record, Sending):
        return ["send", record.digest.hex(), record.epoch, record.request.hex()]
    name = "sent" if isinstance(record, Sent) else "last"
    return [name, record.digest.hex(), record.epoch]


def _charge_values(charge: Charge) -> list[Any]:
    loss = charge.loss
    return [str(charge.unit), decimal_of(loss.epsilon), decimal_of(loss.delta), charge.items]


def _record(values: Any, number: int) -> Record:
    try:
        match values:
            case ["charge", digest, epoch, unit, epsilon, delta, items]:
                charge = _charge(unit, epsilon, delta, items)
                return Charged(_bytes(digest), _integer(epoch, 0), charge)
            case ["report", digest, epoch, report]:
                return Kept(_bytes(digest), _integer(epoch, 0), _bytes(report))
            case ["total", unit, epsilon, delta, items, count]:
                return Total(_charge(unit, epsilon, delta, items), _integer(count, 1))
            case ["last", digest, epoch]:
                return Last(_bytes(digest), _integer(epoch, 0))
            case ["send", digest, epoch, request]:
                return Sending(_bytes(digest), _integer(epoch, 0), _bytes(request))
            case ["sent", digest, epoch]:
                return Sent(_bytes(digest), _integer(epoch, 0))
    except (ValueError, FaintlyError):
        pass
    raise _damage(number)


def _charge(unit: Any, epsilon: Any, delta: Any, items: Any) -> Charge:
    if not isinstance(unit, str):
        raise ValueError("a unit is text")
    loss = Loss(exact(_decimal(epsilon)), exact(_decimal(delta)))
    return Charge(parse_unit(unit), loss, None if items is None else _integer(items, 1))


def _decimal(text: Any) -> str:
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise ValueError("an amount is a plain decimal")
    return text


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str) or not _HEX.fullmatch(text):
        raise ValueError("bytes are lower-case hexadecimal")
    return bytes.fromhex(text)


def _integer(value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_EPOCH:
        raise ValueError("an integer is out of range")
    return value
