"""The status of collections, epochs and sealed files: what is stored, and what HTTP answers.

The fields are those of the JSON; the HTTP models use these classes and their descriptions.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from faintly.collector.storage.collection import CLOSED, OPEN, Collection, Retention, State
from faintly.collector.storage.manifest import SEGMENTS

if TYPE_CHECKING:  # readers need none of it
    from faintly.collector.storage.store import Store

UniverseKind = Literal["indexed", "named", "open"]


def _about(words: str) -> Any:
    return field(metadata={"description": words})


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """A sealed file."""

    epoch: int
    number: int
    file: str  # relative to the data folder
    reports: int
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStatus:
    """What is stored of one epoch."""

    epoch: int
    state: State
    reports: int = _about("Counted: sealed, and part of every answer.")
    pending: int = _about("Stored, and not part of answers until sealed.")
    segments: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStatus:
    """A collection, its settings and what is stored of it."""

    digest: str
    name: str
    state: State
    retention: Retention
    tokens: bool
    period_s: float | None
    grace_s: float | None = _about("How long an epoch takes reports after the clock has ended it.")
    mechanism: str
    universe: UniverseKind
    protects: str
    guarantee: str = _about("What a report promises, in words.")
    record_bytes: int
    reports: int
    pending: int
    bytes: int
    epochs: list[EpochStatus]


def status_of(collection: Collection) -> CollectionStatus:
    """Return the status of a collection and of each of its epochs."""
    rows = [
        EpochStatus(
            epoch=number,
            state=OPEN if epoch.takes else CLOSED,
            reports=epoch.sealed,
            pending=epoch.pending,
            segments=epoch.segments,
            bytes=epoch.bytes,
        )
        for number, epoch in sorted(collection.epochs.items())
    ]
    plan = collection.plan
    return CollectionStatus(
        digest=collection.digest.hex(),
        name=collection.name,
        state=CLOSED if collection.closed else OPEN,
        retention=collection.retention,
        tokens=collection.tokens,
        period_s=collection.period_s,
        grace_s=collection.grace_s,
        mechanism=plan.mechanism,
        universe=cast(UniverseKind, plan.universe.kind),
        protects=str(plan.unit),
        guarantee=collection.mechanism.guarantee().describe(),
        record_bytes=collection.record_bytes,
        reports=sum(row.reports for row in rows),
        pending=sum(row.pending for row in rows),
        bytes=sum(row.bytes for row in rows),
        epochs=rows,
    )


def segments_of(store: "Store", digest: bytes) -> list[SegmentRow]:
    """Return the sealed files of a collection."""
    return [
        SegmentRow(
            epoch=epoch.number,
            number=file.number,
            file=str(file.path.relative_to(store.folder)),
            reports=file.reports,
            bytes=file.stored.size,
            checksum=file.stored.checksum.hex(),
        )
        for epoch in list(store.registry.collection(digest).epochs.values())
        for file in store.manifest.files(SEGMENTS, epoch)
    ]
