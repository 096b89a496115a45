"""What a collection has: reports, files, epochs."""

from dataclasses import dataclass
from pathlib import Path

from faintly.collector import segments
from faintly.collector.database import Database
from faintly.collector.registry import Collection, Epoch, takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A sealed file, as the manifest names it."""

    epoch: int
    number: int
    file: str  # below the data folder
    reports: int
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStatus:
    """What an epoch has."""

    epoch: int
    state: str  # open while it takes reports
    sealed: int
    pending: int
    segments: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a collection has."""

    state: str
    sealed: int
    pending: int
    segments: int
    bytes: int
    epochs: tuple[EpochStatus, ...]


def status_of(collection: Collection) -> Status:
    """Return what a collection has, epoch by epoch."""
    rows = tuple(_epoch_status(each) for _, each in sorted(collection.epochs.items()))
    return Status(
        state="closed" if collection.closed else "open",
        sealed=sum(row.sealed for row in rows),
        pending=sum(row.pending for row in rows),
        segments=sum(row.segments for row in rows),
        bytes=sum(row.bytes for row in rows),
        epochs=rows,
    )


def _epoch_status(epoch: Epoch) -> EpochStatus:
    return EpochStatus(
        epoch=epoch.number,
        state="open" if takes(epoch) else "closed",
        sealed=epoch.sealed,
        pending=epoch.pending,
        segments=epoch.segments,
        bytes=epoch.bytes,
    )


def segments_of(folder: Path, database: Database, collection: Collection) -> list[Segment]:
    """Return the sealed files of a collection."""
    return [
        Segment(
            epoch=epoch.number,
            number=number,
            file=segments.path_of(folder, epoch, number).relative_to(folder).as_posix(),
            reports=reports,
            bytes=size,
            checksum=checksum.hex(),
        )
        for epoch in list(collection.epochs.values())
        for number, reports, size, checksum in database.rows(
            "SELECT number, reports, bytes, checksum FROM segments WHERE epoch = ? ORDER BY number",
            (epoch.id,),
        )
    ]
