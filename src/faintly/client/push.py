"""Send a file of reports to a collector; each is counted once, whatever crashes.

A state file beside it has a line that says what is pushed where, the request id of each batch, and
then a line for each batch that the collector acknowledged. The ids are on the disk before the
first batch is sent. A restart sends the rest under the same ids, and the collector recognizes
any that it already has.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from faintly import durable
from faintly.client.disk import Disk
from faintly.client.transport import Connection
from faintly.errors import InvalidInput, Rejected, SendFailed
from faintly.wire.http import REQUEST_ID_BYTES
from faintly.wire.report_v1 import resize_batches, scan_batches

STATE_SUFFIX = ".push"
BATCH = 10_000
BATCH_BYTES = 4 << 20  # half of a collector's default limit
READY = "ready"
TOO_LARGE = "TOO_LARGE"  # a collector's code for a batch above its limit
IF_DELETED = "If you delete it, all reports are sent again; those that had arrived count twice"


@dataclass(frozen=True, slots=True)
class Parcel:
    """What is pushed where: a file, cut into batches, for one epoch of one collector."""

    server: str
    plan: str
    epoch: int
    batch: int
    reports: int
    checksum: str

    @property
    def batches(self) -> int:
        """Return the number of requests."""
        return -(-self.reports // self.batch)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did."""

    parcel: Parcel
    sent: int  # reports that this run sent and the collector counted
    replayed: int  # reports that it had from an earlier attempt
    skipped: int  # reports that were acknowledged before this run


def push(
    path: Path,
    server: str,
    connection: Connection,
    *,
    epoch: int = 0,
    batch: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Pushed:
    """Send every report of a file that was not acknowledged before; see the module.

    Args:
        path: the file of reports; its state is kept beside it.
        server: the address that `connection` leads to, for the state file.
        connection: to the collector.
        epoch: which epoch the reports count for.
        batch: most reports in a request; by default 10,000, or fewer if they are long.
        progress: called with the number of reports done and their total.

    Raises:
        InvalidInput: the file cannot be read, another push of it runs, or the state belongs to
            another file, server, epoch or batch size.
        SendFailed: as for `Connection.send`; what was acknowledged stays so.
    """
    parcel = _parcel(path, server, epoch, batch)
    state_path = path.with_name(path.name + STATE_SUFFIX)
    with _locked(state_path), _State(state_path, parcel) as state, _opened(path) as stream:
        sent = replayed = skipped = 0
        for number, body in enumerate(resize_batches(stream, parcel.batch)):
            size = min(parcel.batch, parcel.reports - number * parcel.batch)
            if number in state.done:
                skipped += size
            else:
                try:
                    receipt = connection.send(
                        bytes.fromhex(parcel.plan),
                        body,
                        epoch=epoch,
                        request=state.requests[number],
                    )
                except SendFailed as error:
                    if error.code != TOO_LARGE:
                        raise
                    state.forget()
                    raise _too_large(error, parcel.batch) from None
                state.acknowledge(number)
                replayed += size * receipt.replayed
                sent += size * (not receipt.replayed)
            progress(sent + replayed + skipped, parcel.reports)
    return Pushed(parcel, sent, replayed, skipped)


def _parcel(path: Path, server: str, epoch: int, batch: int | None) -> Parcel:
    with _opened(path) as stream:
        checksum = durable.measure(stream).checksum.hex()
        stream.seek(0)
        heads = list(scan_batches(stream))
    if any(head[:2] != heads[0][:2] for head in heads):
        raise InvalidInput(f"{path} holds batches of several plans; push a file of each")
    size = batch or max(1, min(BATCH, BATCH_BYTES // max(1, heads[0].record_bytes)))
    return Parcel(
        server=server.rstrip("/"),
        plan=heads[0].plan_digest.hex(),
        epoch=epoch,
        batch=size,
        reports=sum(head.reports for head in heads),
        checksum=checksum,
    )


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    with stream:
        try:
            yield stream
        except Rejected as error:
            error.add_place(path)
            raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        with Disk().lock(path, 0.0):
            yield
    except TimeoutError:
        raise InvalidInput(f"another push of this file is running; {path} is locked") from None


class _State:
    """The state file of one push: ids first, acknowledgements as they come."""

    def __init__(self, path: Path, parcel: Parcel) -> None:
        text = path.read_text("ascii", "replace")
        self._begun = READY not in text.splitlines()  # whether this run begins the push
        if self._begun:
            # No id was used before that line was on the disk, so new ids may be drawn.
            text = _begin(path, parcel)
        before, self.requests, self.done = read_state(text, path)
        if before != asdict(parcel) or len(self.requests) != parcel.batches:
            raise InvalidInput(
                f"{path} belongs to another push: the file, the server, the epoch or --batch "
                f"differs; repeat that push. {IF_DELETED}"
            )
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "w")
        self._file.write("\n")  # ends a line that a crash may have cut short

    def __enter__(self) -> "_State":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def forget(self) -> None:
        """Discard the ids if none was accepted, so that another batch size can be chosen."""
        if self._begun and not self.done:
            self._file.truncate(0)

    def acknowledge(self, number: int) -> None:
        """Record that a batch arrived; without this line it is sent again, but counted once."""
        self.done.add(number)
        self._file.write(f"{number}.\n")
        self._file.flush()


def read_state(text: str, path: Path) -> tuple[Any, list[bytes], set[int]]:
    """Return what a state file says: the parcel, the id of each batch, and those acknowledged."""
    lines = text.splitlines()
    try:
        ready = lines.index(READY)
        parcel = json.loads(lines[0])
        requests = [bytes.fromhex(line) for line in lines[1:ready]]
        # A crash may have cut the last line: without its full stop it does not count.
        done = {int(line[:-1]) for line in lines[ready + 1 :] if line.endswith(".")}
    except (ValueError, RecursionError):
        raise InvalidInput(f"{path} is damaged. {IF_DELETED}") from None
    if any(len(name) != REQUEST_ID_BYTES for name in requests):
        raise InvalidInput(f"{path} is damaged: an id has the wrong length. {IF_DELETED}")
    return parcel, requests, done


def _too_large(error: SendFailed, batch: int) -> SendFailed:
    way = "a single report is too long"
    if batch > 1:
        way = f"push with a smaller --batch, such as {batch // 2}"
    return SendFailed(error.code, f"{error} to a request of {batch:,} reports; {way}", error.reason)


def _begin(path: Path, parcel: Parcel) -> str:
    ids = [os.urandom(REQUEST_ID_BYTES).hex() for _ in range(parcel.batches)]
    text = "\n".join([json.dumps(asdict(parcel)), *ids, READY]) + "\n"
    path.write_bytes(b"")  # in place, because the file is also the lock
    durable.append(path, text.encode("ascii"))
    durable.sync_folder(path.parent)
    return text
