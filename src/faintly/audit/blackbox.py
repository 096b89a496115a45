"""A lower bound on epsilon from samples of the real client code, seeing only its bytes.

For two neighbouring inputs and one public seed, reports are sampled from both. Events are every bit
of the record, thresholds on every field, and the set of reports that distinguishes the inputs best
in the first half of the samples. The second half bounds the loss of each event by Clopper and
Pearson; the chance that any of these bounds is wrong is at most FALSE_ALARM.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from faintly.audit.confidence import loss_at_least
from faintly.core import EventLevel, ReportBatch, SparseVector, UserLevel, VectorBatch
from faintly.core.arrays import IdArray
from faintly.mechanisms import Mechanism
from faintly.primitives.entropy import Rng, secure, uniform_seeds
from faintly.wire.report_v1 import pack

FALSE_ALARM = 1e-6
THRESHOLDS = 15  # quantiles of a field that are tried as thresholds
READ = 400  # reports read one by one, which is slow
BOUNDED = 5  # events to bound by each criterion: the largest ratios, and the most significant
Event = np.ndarray  # one boolean per sample
Batches = tuple[ReportBatch, ReportBatch]  # of one input and of the other


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest loss that the samples prove, and where."""

    epsilon: float
    event: str
    samples: int
    events: int


def neighbouring_vectors(mechanism: Mechanism) -> Iterator[tuple[str, SparseVector, SparseVector]]:
    """Yield neighbouring inputs of the plan's unit: extremes, and more items than k."""
    plan = mechanism.plan
    size = plan.universe.size or 2**20
    k = min(plan.sparsity, size)
    for count in sorted({1, k, min(k + 2, size)}):
        ids = np.arange(count, dtype=np.uint64)
        ones = np.ones(count)
        if isinstance(plan.unit, UserLevel):
            yield f"{count} items, all negated", *_pair(ids, ones, -ones)
            yield f"{count} items against none", *_pair(ids, ones, 0 * ones)
        elif isinstance(plan.unit, EventLevel):
            changed = ones.copy()
            changed[0] = -1
            yield f"one of {count} items negated", *_pair(ids, ones, changed)
            changed[0] = 0
            yield f"one of {count} items removed", *_pair(ids, ones, changed)
        else:
            move = min(2.0, plan.unit.distance / count)
            yield f"{count} items moved alike", *_pair(ids, ones, ones - move)


def _pair(ids: IdArray, left: np.ndarray, right: np.ndarray) -> tuple[SparseVector, SparseVector]:
    return SparseVector(ids, left), SparseVector(ids, right)


def sample(
    mechanism: Mechanism,
    vector: SparseVector,
    seed: int | None,
    count: int,
    rng: Rng | None = None,
) -> ReportBatch:
    """Return `count` reports of one vector by the client's own code.

    All have one public seed, or a fresh one each where `seed` is None.
    """
    if seed is None:
        seeds = uniform_seeds(secure(), count, mechanism.seed_bytes)
    else:
        seeds = np.full(count, seed, dtype=np.uint64)
    fields = mechanism.randomize(VectorBatch.of([vector] * count), seeds, rng or secure())
    sent = seeds if mechanism.layout.seed_bytes else np.zeros_like(seeds)
    return ReportBatch(mechanism.plan.digest, sent, fields)


def loss_bound(
    mechanism: Mechanism,
    left: ReportBatch,
    right: ReportBatch,
    changed: tuple[IdArray, np.ndarray] | None = None,
) -> Bound:
    """Return the largest loss between two inputs that their samples prove.

    Args:
        mechanism: what made the reports.
        left: reports of one input.
        right: reports of the other.
        changed: the ids in which the inputs differ, and by how much; None leaves out the
            server's reading, which is slow.
    """
    half = len(left) // 2
    train = left.take(slice(0, half)), right.take(slice(0, half))
    held = left.take(slice(half, None)), right.take(slice(half, None))
    events = list(_events(mechanism, train, held))
    if changed is not None:
        events += _reading_events(mechanism, held, changed)
    delta = mechanism.guarantee().budget.delta
    # Each event is tried in both directions, so twice as many share the false-alarm rate.
    tail = FALSE_ALARM / (2 * max(1, len(events)))
    counts = []
    for name, one, other in events:
        hits, misses, trials = int(one.sum()), int(other.sum()), len(one)
        counts += [(name, hits, misses, trials), (name, misses, hits, trials)]
    # Bounding is slow, so only promising events are bounded; the tail still counts all of them.
    counts.sort(key=lambda row: (row[1] + 1) / (row[2] + 1), reverse=True)
    best, where = 0.0, "none"
    for name, more, less, trials in counts[:BOUNDED] + sorted(counts, key=_evidence)[-BOUNDED:]:
        loss = loss_at_least(more, less, trials, delta, tail)
        if loss > best:
            best, where = loss, name
    return Bound(best, where, len(left), len(events))


def changed_ids(left: SparseVector, right: SparseVector) -> tuple[IdArray, np.ndarray]:
    """Return the ids in which two vectors differ, and left minus right at each."""
    ids = np.union1d(left.indices, right.indices)
    gaps = np.zeros(len(ids))
    for vector, sign in ((left, 1.0), (right, -1.0)):
        gaps[np.searchsorted(ids, vector.indices)] += sign * vector.values
    return ids[gaps != 0], gaps[gaps != 0]


def _reading_events(
    mechanism: Mechanism,
    held: Batches,
    changed: tuple[IdArray, np.ndarray],
) -> list[tuple[str, Event, Event]]:
    """Return the event that the server's reading of the changed keys is positive.

    Needed where a report encodes an item in a combination of bits, none of which shows it alone.
    """
    ids, gaps = changed
    signs = []
    for batch in held:
        alone = (batch.take(slice(i, i + 1)) for i in range(min(READ, len(batch))))
        signs.append(np.array([mechanism.read(one, ids) for one in alone]) @ gaps > 0)
    return [("the reading of the changed keys is above 0", signs[0], signs[1])]


def _evidence(row: tuple[str, int, int, int]) -> float:
    """Return how many standard deviations the two counts of an event lie apart."""
    return (row[1] - row[2]) / (row[1] + row[2] + 1) ** 0.5


def _events(
    mechanism: Mechanism,
    train: Batches,
    held: Batches,
) -> Iterator[tuple[str, Event, Event]]:
    records = [pack(batch, mechanism.layout) for batch in held]
    bits = [np.unpackbits(record, axis=1, bitorder="little") for record in records]
    for bit in range(8 * mechanism.layout.seed_bytes, bits[0].shape[1]):
        one, other = (part[:, bit].astype(bool) for part in bits)
        yield f"bit {bit}", one, other
        yield f"no bit {bit}", ~one, ~other
    for field in range(held[0].fields.shape[1]):
        pooled = np.concatenate([part.fields[:, field] for part in train])
        cuts = np.unique(np.quantile(pooled, np.linspace(0, 1, THRESHOLDS), method="nearest"))
        for cut in cuts:
            one, other = (part.fields[:, field] >= cut for part in held)
            yield f"field {field} at least {int(cut)}", one, other
            yield f"field {field} below {int(cut)}", ~one, ~other
    yield _likelier_set(mechanism, train, held)


def _likelier_set(
    mechanism: Mechanism,
    train: Batches,
    held: Batches,
) -> tuple[str, Event, Event]:
    """Return the event that a report is among those seen more often under the first input.

    Reports are compared as whole records, so dependence between fields shows as well.
    """
    left, right = (_names(batch, mechanism) for batch in train)
    known, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    ones = np.bincount(places[: len(left)], minlength=len(known))
    others = np.bincount(places[len(left) :], minlength=len(known))
    likelier = known[ones > others]
    one, other = (np.isin(_names(batch, mechanism), likelier) for batch in held)
    return "among the reports likelier under the first input", one, other


def _names(batch: ReportBatch, mechanism: Mechanism) -> np.ndarray:
    packed = pack(batch, mechanism.layout)
    return np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
