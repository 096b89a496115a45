"""A rehearsal of a collection on data at hand: what `faintly try` runs.

The number of clients, the kind of values and the sparsity come from the data. A plan is made for
them, every client sends a report with seeded noise, and the answers are shown beside the truth.
Every key of the data is queried. Nothing here protects anybody: the raw data are read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from faintly.client import randomize_all
from faintly.core import FloatArray, Guarantee, Key, Plan, Unit, Universe, VectorBatch
from faintly.core.arguments import whole
from faintly.core.estimate import largest_score
from faintly.core.plan import VALUES
from faintly.data import Columns, Records, cut, repeated_rows, true_means, vectors_in
from faintly.data.inputs import records_of
from faintly.data.records import as_indices
from faintly.engine import Reader, TopList, aggregate
from faintly.engine.keys import ids_of
from faintly.errors import FaintlyError, InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.planner import Excess, Ranking, excess, solve, try_sparsities
from faintly.primitives.entropy import fresh_salt, seeded
from faintly.simulate.preview_text import describe
from faintly.simulate.run import NOTHING

SHOWN = 20
SAMPLED = 100_000  # clients from which the sparsity is chosen: more would not change it
DENSE = 4  # numbers per key up to which keys are taken as 0..largest

OnStep = Callable[[str], None]
OnShare = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the rows hold, in numbers.

    Privacy: counts of raw data, where that data already is; never sent.
    """

    clients: int
    keys: int
    rows: int
    repeated: int  # rows that repeat an item of their client
    half: int  # items that half of the clients hold at most
    most: int
    values: str  # signed, nonnegative or set
    integers: bool  # keys are numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class More:
    """What it would take to find means as small as `target`."""

    target: float
    wanted: int  # true top keys, whose smallest mean is the target; 0: the target is visible / 2
    clients: int
    epsilon: float | None  # None: no epsilon that protects anybody is large enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A plan for the data at hand, and what it found in them."""

    held: Held
    plan: Plan
    bytes: int
    guarantee: Guarantee
    excess: Excess
    top: TopList
    truth: FloatArray  # true mean of each row of the top list
    recall: float  # share of the true top rows that are in the list
    coverage: float  # share of all intervals that hold the truth
    found: int  # keys that stand out from the noise
    visible: float  # the smallest mean that does
    large: int  # keys whose true mean is as large
    more: More

    def fresh_plan(self) -> Plan:
        """Return the plan with a salt of its own, as a real collection needs it."""
        return replace(self.plan, salt=fresh_salt())

    def describe(self) -> list[str]:
        """Return what was found, in sentences for people."""
        return describe(self)

    def __str__(self) -> str:
        return "\n".join(self.describe())

    def __repr__(self) -> str:
        return (
            f"Preview({self.held.clients:,} clients, {self.held.keys:,} keys, epsilon "
            f"{self.plan.budget.epsilon:g}: {self.found:,} stand out, down to {self.visible:.3g})"
        )

    def columns(self) -> dict[str, Any]:
        """Return the top list as a dictionary of columns, with the truth."""
        return self.top.columns() | {"truth": self.truth}

    def to_pandas(self) -> Any:
        """Return the top list beside the truth as a pandas DataFrame."""
        return self.top.to_pandas().assign(truth=self.truth)


def try_(
    data: Any,
    *,
    epsilon: float = 1.0,
    protect: str | Unit = "event",
    client: str | None = None,
    key: str | None = None,
    value: str | None = None,
    duplicates: str | None = None,
    sparsity: int | None = None,
    count: int = SHOWN,
    seed: int = 1,
    on_step: OnStep = lambda _: None,
    on_read: OnShare = lambda _: None,
) -> Preview:
    """Return what a private collection would find among these people.

    Args:
        data: a table, a path, or any other shape that `vectors_from` takes.
        epsilon: privacy budget of one report.
        protect: event, user or l1:DISTANCE.
        client: column of the clients; found by its name if that is obvious.
        key: column of the keys; found in the same way.
        value: column of the values; none: every row counts as 1.
        duplicates: refuse, once or sum; by default once where every value is 1, else refuse.
        sparsity: items that a client holds at most; found from the data if not given.
        count: rows of the list.
        seed: of the noise, which is for study only.
        on_step: called with a description of each step.
        on_read: called with the share of the reports read so far, where they are read one by one.

    Privacy: reads raw data, and the sparsity is chosen by them; only the noise of the rehearsal is
    like that of a real collection.

    >>> seen = try_([{"tea"}] * 600 + [{"milk"}] * 400, epsilon=4.0)
    >>> [str(row.key) for row in seen.top.estimates]
    ['tea', 'milk']
    """
    sparsity = None if sparsity is None else whole(sparsity, "sparsity")
    seed = whole(seed, "seed", InvalidInput)
    repeats = "refuse" if duplicates is None else duplicates
    columns = Columns(client=client, key=key, value=value, duplicates=repeats)
    records = records_of(data, columns=columns)
    if duplicates is None and bool((records.values == 1).all()):
        records = replace(records, duplicates="once")
    on_step("making a vector of each person's rows")
    # Seeded like the noise, to make a rehearsal repeatable; `fresh_plan` is for real collections.
    salt = fresh_salt(seeded(seed, "salt"))
    universe, keys = _universe(records)
    vectors = vectors_in(records, universe, salt)
    if not len(keys):
        raise InvalidInput(NOTHING)
    held = _held(records, vectors)
    del records  # which take as much memory as the vectors
    on_step("planning: how many items, which mechanism")
    wanted = {"protect": protect, "epsilon": epsilon, "universe": universe}
    ranking = _ranking(vectors, held, sparsity, **wanted)
    plan = replace(ranking.pick.plan, salt=salt)
    return _rehearse(
        plan,
        ranking,
        vectors,
        keys,
        held,
        count=count,
        seed=seed,
        on_step=on_step,
        on_read=on_read,
    )


def _universe(records: Records) -> tuple[Universe, Sequence[Key]]:
    """Return the universe, 0..largest where keys are such numbers and else open, and the keys."""
    keys = as_indices(records.keys, Universe.indexed(2**31))
    whole = isinstance(keys, np.ndarray) or all(isinstance(key, int) for key in keys)
    if whole and len(keys):
        numbers = np.asarray(keys)
        least, most = int(numbers.min()), int(numbers.max())
        if least >= 0 and most < DENSE * len(keys) + SHOWN:
            return Universe.indexed(most + 1), numbers.tolist()
    known = records.keys
    return Universe.open(), known.tolist() if isinstance(known, np.ndarray) else known


def _held(records: Records, vectors: VectorBatch) -> Held:
    lengths = vectors.lengths
    kind = "signed" if len(records) and float(records.values.min()) < 0 else "nonnegative"
    assert {kind, "set"} <= set(VALUES)
    return Held(
        clients=len(vectors),
        keys=len(records.keys),
        rows=len(records),
        repeated=repeated_rows(records) if records.duplicates != "refuse" else 0,
        half=int(np.quantile(lengths, 0.5, method="higher")),
        most=int(lengths.max(initial=0)),
        values="set" if bool((vectors.values == 1).all()) else kind,
        integers=not isinstance(records.keys[0], str | bytes) if len(records.keys) else False,
    )


def _ranking(vectors: VectorBatch, held: Held, sparsity: int | None, **wanted: Any) -> Ranking:
    wanted |= {"clients": held.clients, "values": held.values}
    some = vectors
    if len(vectors) > SAMPLED:
        chosen = np.random.default_rng(1).choice(len(vectors), SAMPLED, replace=False)
        some = vectors.take(np.sort(chosen))
    trials = try_sparsities(some, sparsity=sparsity, **wanted)
    return (trials.pick if sparsity is None else trials.at(sparsity)).ranking


def _rehearse(
    plan: Plan,
    ranking: Ranking,
    vectors: VectorBatch,
    keys: Sequence[Key],
    held: Held,
    *,
    count: int,
    seed: int,
    on_step: OnStep,
    on_read: OnShare,
) -> Preview:
    """Return what the reports of all clients show, beside the truth."""
    mechanism = mechanism_of(plan)
    ids = ids_of(plan, keys)
    truth, beyond = true_means(vectors, ids), excess(mechanism, vectors)
    if mechanism.enforces_sparsity:
        vectors, _ = cut(vectors, plan.sparsity, np.random.default_rng(seed))
    on_step(f"sending {len(vectors):,} reports of {mechanism.layout.record_bytes} bytes")
    public, secret = (seeded(seed, f"{part}/0") for part in ("public", "secret"))
    reader = Reader(aggregate(plan, randomize_all(plan, vectors, public, secret)))
    on_step(f"asking about {len(keys):,} keys")
    reader = reader.watched(lambda: None, on_read)
    top = reader.top(count, keys, posterior=reader.populated(len(keys)))
    every = top.every
    true_mean = dict(zip(keys, truth.tolist(), strict=True))
    listed = list(top.estimates.keys)
    best = {keys[int(place)] for place in np.argsort(-truth, kind="stable")[: len(listed)]}
    visible = every.mean_at(largest_score(len(keys)))
    on_step("working out what it would take to find more")
    return Preview(
        held=held,
        plan=plan,
        bytes=mechanism.layout.record_bytes,
        guarantee=mechanism.guarantee(),
        excess=beyond,
        top=top,
        truth=np.array([true_mean[key] for key in listed]),
        recall=len(best.intersection(listed)) / len(best),
        coverage=float(((every.low <= truth) & (truth <= every.high)).mean()),
        found=int((every.score >= largest_score(len(keys))).sum()),
        visible=visible,
        large=int((truth >= visible).sum()),
        more=_more(ranking, truth, visible, len(listed)),
    )


def _more(ranking: Ranking, truth: FloatArray, visible: float, listed: int) -> More:
    """Return what it takes to find the smallest of the true top keys, or means half as small."""
    smallest = float(np.sort(truth)[::-1][: max(1, listed)][-1])
    wanted = listed if 0 < smallest < visible else 0
    target = smallest if wanted else visible / 2
    ratio, request = visible / target, ranking.request
    try:
        epsilon = solve(
            ranking.pick.stderr / ratio,
            protect=request.unit,
            epsilon=None,
            sparsity=request.sparsity,
            clients=request.clients,
            universe=request.universe,
            values=request.values,
            mean_square=request.mean_square,
        ).value
    except FaintlyError:
        epsilon = None
    clients = int(request.clients * ratio**2)
    unit = 10 ** max(0, len(str(clients)) - 2)  # two digits count
    return More(target=target, wanted=wanted, clients=-(-clients // unit) * unit, epsilon=epsilon)
