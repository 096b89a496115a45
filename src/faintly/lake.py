"""A lake: a Delta table that several collectors commit their sealed segments to, each once.

A collector's segments of one epoch are an application of the table, and the number of the last
segment is its version. Delta does not compare versions itself. So a commit reads the version in the
newest state of the table, and succeeds only as the very next state: if another commit comes first,
it fails and tries again. A collector that has no newer segments changes nothing.

A commit adds the segments that the table lacks, and removes those that the collector has merged
into others. Readers get the files of one state, by name. Files are uploaded before they are
committed; a crash in between leaves files that no state names.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faintly.errors import FaintlyError, FolderDamaged, InvalidInput, MissingDependency

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.parquet import ParquetFile

ATTEMPTS = 100  # of a commit: each failed one means that another has succeeded
UPLOADED = 2**20  # bytes at a time
PARTITIONS = ["plan", "epoch"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A sealed segment: a Parquet file that does not change."""

    path: Path
    number: int
    reports: int
    size: int
    checksum: bytes


@dataclass(frozen=True, slots=True)
class Sealed:
    """All segments that a collector has of an epoch, and their names in the table."""

    source: str  # the collector
    plan: str  # digest of the plan in hexadecimal
    epoch: int
    segments: tuple[Segment, ...]

    @property
    def application(self) -> str:
        """Return the name of the application transaction."""
        return f"{self.source}/{self.plan}/{self.epoch}"

    @property
    def sequence(self) -> int:
        """Return its version: it grows with every seal and every merge of segments."""
        return max(segment.number for segment in self.segments)

    def name(self, segment: Segment) -> str:
        """Return the name of a file in the table; a restored folder may reuse a segment number."""
        return f"{self._prefix}{segment.number}-{segment.checksum.hex()[:8]}.parquet"

    def owns(self, name: str) -> bool:
        """Return whether a file of the table is one of this collector's and epoch's."""
        return name.startswith(self._prefix)

    @property
    def _prefix(self) -> str:
        return f"plan={self.plan}/epoch={self.epoch}/{self.source}-"


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did; nothing if the table had everything."""

    version: int  # of the table
    added: int
    removed: int
    reports: int  # in the files added


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the table: the files of a plan, and how many reports they hold."""

    version: int
    files: list[str]
    reports: int


class Lake:
    """A Delta table of segments, on a local path or in an object store."""

    def __init__(self, table: str | Path, options: dict[str, str] | None = None) -> None:
        """Name a table, which the first commit creates.

        Args:
            table: a path, or an address such as s3://bucket/folder.
            options: of the store; by default from the environment, as AWS_ACCESS_KEY_ID.
        """
        try:
            import deltalake  # noqa: F401
        except ImportError:
            raise MissingDependency.of("a lake needs deltalake", "lake") from None
        self._table, self._options = str(table), options
        self.reached: Callable[[str], object] = lambda _: None  # a hook for tests

    def commit(self, sealed: Sequence[Sealed]) -> Committed:
        """Commit what the table lacks, in one transaction; returns once it is there."""
        from deltalake.exceptions import CommitFailedError

        for attempt in range(ATTEMPTS):
            with _translated(self._table):
                try:
                    table = self._opened(create=True)
                    return self._attempt(table, [each for each in sealed if each.segments])
                except CommitFailedError:
                    time.sleep(0.01 * min(attempt, 10))  # another commit came first
        raise InvalidInput(f"{self._table}: too many other commits; try again later")

    def _attempt(self, table: "DeltaTable", sealed: Sequence[Sealed]) -> Committed:
        from deltalake.transaction import CommitProperties, Transaction

        known = {each.application: table.transaction_version(each.application) for each in sealed}
        newer = [each for each in sealed if each.sequence > (known[each.application] or 0)]
        if not newer:
            return Committed(table.version(), 0, 0, 0)
        held = _held(table)
        added = [
            (each, segment)
            for each in newer
            for segment in each.segments
            if each.name(segment) not in held
        ]
        current = {each.name(segment) for each in newer for segment in each.segments}
        removed = [
            name for name in held if name not in current and any(each.owns(name) for each in newer)
        ]
        for each, segment in added:
            self._upload(each.name(segment), segment)
        self.reached("uploaded")
        versions = [Transaction(each.application, each.sequence) for each in newer]
        table.create_write_transaction(
            [_add(*pair) for pair in added] + [_remove(name, held[name]) for name in removed],
            mode="append",
            schema=table.schema(),
            partition_by=PARTITIONS,
            # Not retried: the version was checked in the state that this one must follow.
            commit_properties=CommitProperties(max_commit_retries=0, app_transactions=versions),
        )
        self.reached("committed")
        reports = sum(segment.reports for _, segment in added)
        return Committed(table.version() + 1, len(added), len(removed), reports)

    def snapshot(self, plan: str, epoch: int | None = None, version: int | None = None) -> Snapshot:
        """Return the files of a plan in one committed state, the newest unless one is given."""
        with _translated(self._table):
            table = self._opened(create=False)
            if version is not None:
                table.load_as_version(version)
            held = _held(table)
        under = f"plan={plan}/" + ("" if epoch is None else f"epoch={epoch}/")
        chosen = {name: row for name, row in held.items() if name.startswith(under)}
        reports = sum(row["num_records"] for row in chosen.values())
        return Snapshot(table.version(), sorted(chosen), reports)

    @contextmanager
    def opened(self, name: str) -> Iterator["ParquetFile"]:
        """Yield a file of the table."""
        from pyarrow.parquet import ParquetFile

        with self._files().open_input_file(name) as stream, ParquetFile(stream) as file:
            yield file

    def _opened(self, *, create: bool) -> "DeltaTable":
        import pyarrow as pa
        from deltalake import DeltaTable

        if DeltaTable.is_deltatable(self._table, self._options):
            return DeltaTable(self._table, storage_options=self._options)
        if not create:
            raise InvalidInput(f"{self._table} has no table yet; commit to it first")
        return DeltaTable.create(
            self._table,
            pa.schema([("record", pa.binary()), ("plan", pa.string()), ("epoch", pa.int64())]),
            partition_by=PARTITIONS,
            mode="ignore",  # another collector may have created it just now
            storage_options=self._options,
        )

    def _files(self) -> Any:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        return PyFileSystem(DeltaStorageHandler(self._table, self._options))

    def _upload(self, name: str, segment: Segment) -> None:
        """Copy a segment as it is; repeated, it writes the same bytes to the same name."""
        data = segment.path.read_bytes()
        if hashlib.blake2b(data, digest_size=len(segment.checksum)).digest() != segment.checksum:
            raise FolderDamaged(f"{segment.path} was changed; run faintly fsck")
        import pyarrow as pa

        # The store takes bytes. A plain stream would pass it a pyarrow Buffer.
        with pa.BufferedOutputStream(self._files().open_output_stream(name), UPLOADED) as stream:
            stream.write(data)


def _held(table: "DeltaTable") -> dict[str, dict[str, Any]]:
    """Return the files of a state by name."""
    import pyarrow as pa

    return {row["path"]: row for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()}


def _add(sealed: Sealed, segment: Segment) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        path=sealed.name(segment),
        size=segment.size,
        partition_values={"plan": sealed.plan, "epoch": str(sealed.epoch)},
        modification_time=0,  # the table does not say when a segment was sealed
        data_change=True,
        stats=f'{{"numRecords": {segment.reports}}}',
    )


def _remove(name: str, row: dict[str, Any]) -> Any:
    from deltalake.transaction import RemoveAction

    now = int(time.time() * 1000)  # vacuuming counts from here
    return RemoveAction(name, True, now, size=row["size_bytes"])


@contextmanager
def _translated(table: str) -> Iterator[None]:
    """Raise errors of the store as `InvalidInput` of one line, except a failed commit."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except (FaintlyError, CommitFailedError):
        raise
    except (DeltaError, OSError) as error:
        raise InvalidInput(f"{table}: {str(error).splitlines()[0]}") from None
