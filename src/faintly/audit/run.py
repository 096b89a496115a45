"""One audit: what the integers prove, what enumeration shows, what samples show.

statement   the loss that the plan's own integers prove is within its promise
law         on a small case of the plan, every neighbouring pair and every report, exactly
client      on the plan itself, what samples of the real client prove about its loss
length      the real client's bytes have one length, whatever the data
sampler     on the small case, the client's reports are as frequent as the law says
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from faintly.audit import checks
from faintly.audit.blackbox import (
    FALSE_ALARM,
    Bound,
    changed_ids,
    loss_bound,
    neighbouring_vectors,
    sample,
)
from faintly.audit.checks import Finding
from faintly.client.bulk import randomize
from faintly.core import Plan, ReportBatch, SparseVector, VectorBatch
from faintly.errors import ClientFailed, FaintlyError, InvalidPlan, TooManyItems
from faintly.mechanisms import Mechanism, SmallCase, mechanism_class
from faintly.primitives.entropy import secure
from faintly.wire.report_v1 import CHECKSUM_BYTES, HEADER, pack

SAMPLES = 20_000  # per input: enough to find a loss of twice the promise from epsilon 0.5 on
FRAME_BYTES = HEADER.size + CHECKSUM_BYTES  # of a report that is sent alone
LENGTHS = 64  # reports whose length is compared
COMMON = 50  # expected count from which the normal limit holds at one in a million
SEEDS = (1, 2, 3)  # public seeds that are tried; a pure guarantee holds for each


@dataclass(frozen=True, slots=True)
class Audit:
    """All findings about one plan."""

    digest: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Return whether every check holds."""
        return all(finding.holds for finding in self.findings)

    def document(self) -> dict[str, Any]:
        """Return the audit as JSON."""
        # JSON cannot express an infinite loss.
        findings = [
            {key: None if value == float("inf") else value for key, value in asdict(one).items()}
            for one in self.findings
        ]
        return {"digest": self.digest, "passed": self.passed, "findings": findings}


Make = Callable[[Plan], Mechanism]
Encode = Callable[[Mechanism, SparseVector], bytes]
Sample = Callable[[Mechanism, SparseVector, int | None, int], ReportBatch]


def make_mechanism(plan: Plan) -> Mechanism:
    """Return the plan's mechanism without checking its promise: the audit does that."""
    return mechanism_class(plan.mechanism).from_plan(plan)


def audit(
    plan: Plan,
    *,
    samples: int = SAMPLES,
    make: Make = make_mechanism,
    encode: Encode | None = None,
    draw: Sample | None = None,
    on_check: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Return the findings of every check of a plan's promise.

    Args:
        plan: the collection.
        samples: reports sampled for each input of the black-box check.
        make: makes the mechanism of a plan; tests pass broken ones.
        encode: makes the bytes of a report; for another client, or a broken one.
        draw: makes reports of a vector, under a seed; for another client.
        on_check: called with the name of each check as it starts, for progress.
    """
    mechanism = make(plan)
    encode, own = encode or encode_one, draw is None
    draw = draw or sample
    steps: dict[str, Callable[[], Iterator[Finding]]] = {
        "statement": lambda: _statement(mechanism),
        "law": lambda: _law(mechanism),
        "client": lambda: check_client(mechanism, draw, samples),
        "length": lambda: check_length(mechanism, encode),
        "sampler": lambda: check_sampler(drawable_cases(mechanism, own), draw, samples),
    }
    findings: list[Finding] = []
    for name, step in steps.items():
        on_check(name)
        findings += step()
    return Audit(plan.digest.hex(), tuple(findings))


def _statement(mechanism: Mechanism) -> Iterator[Finding]:
    try:
        found = checks.check_statement(mechanism)
    except FaintlyError as error:
        yield Finding("statement", False, float("inf"), mechanism.plan.budget.epsilon, str(error))
        return
    yield replace(found, evidence="recomputed from the integers of the plan")


def _law(mechanism: Mechanism) -> Iterator[Finding]:
    cases = list(mechanism.law.small_cases())
    for case in cases:
        checked = checks.check_case(case)
        yield replace(checked, check="law", evidence=_case_evidence(case, checked.evidence))
    if not cases:
        yield Finding("law", False, 0, 0, "the mechanism offers no case to enumerate")


def _case_evidence(case: SmallCase, where: str) -> str:
    if case.pair is not None:
        return f"every report, and every outcome of the hash, for {where}: the exact delta"
    what = "delta" if case.mechanism.plan.budget.delta else "log ratio"
    values = ", ".join(f"{value:g}" for value in case.grid)
    return (
        f"every report, hash and neighbouring pair of {case.items} items with values {values}; "
        f"largest {what} at {where}"
    )


def check_client(mechanism: Mechanism, draw: Sample, samples: int) -> Iterator[Finding]:
    """Bound the loss from samples of what the client sends for neighbouring vectors."""
    allowed = mechanism.plan.budget.epsilon
    # With a delta the guarantee is about fresh seeds only, so a fixed one would prove nothing.
    seeds = (None,) if mechanism.plan.budget.delta else SEEDS
    best: Bound | None = None
    where = ""
    for name, left, right in neighbouring_vectors(mechanism):
        for seed in seeds:
            try:
                one, other = (draw(mechanism, vector, seed, samples) for vector in (left, right))
            except (ClientFailed, InvalidPlan):
                raise
            except FaintlyError:
                break  # refused on the device, so nothing is sent
            changed = changed_ids(left, right) if seed == seeds[0] else None
            bound = loss_bound(mechanism, one, other, changed)
            if best is None or bound.epsilon > best.epsilon:
                best, where = bound, f"{name}, seed {seed or 'fresh each'}"
    assert best is not None
    evidence = (
        f"{where}: {best.event}, {best.samples:,} samples of each input, "
        f"{best.events} events compared"
    )
    yield Finding("client", best.epsilon <= allowed, best.epsilon, allowed, evidence)


def encode_one(mechanism: Mechanism, vector: SparseVector) -> bytes:
    """Return the bytes of one report of a vector, without the frame that it is sent in."""
    batch = randomize(mechanism.plan, mechanism, VectorBatch.of([vector]), secure(), secure())
    return pack(batch, mechanism.layout).tobytes()


def check_length(mechanism: Mechanism, encode: Encode) -> Iterator[Finding]:
    """Compare the lengths of reports of no, one and k items."""
    lengths = set()
    for count in (0, 1, min(mechanism.plan.sparsity, mechanism.plan.universe.size or 2**20)):
        vector = SparseVector(np.arange(count, dtype=np.uint64))
        for _ in range(LENGTHS):
            lengths.add(len(encode(mechanism, vector)))
    sizes = " or ".join(f"{length:,}" for length in sorted(lengths))
    evidence = f"reports of no, one and k items have {sizes} bytes, and {FRAME_BYTES} around them"
    yield Finding("length", len(lengths) == 1, len(lengths), 1, evidence)


def drawable_cases(mechanism: Mechanism, own: bool) -> Iterator[SmallCase]:
    """Yield the small cases to draw from; another client needs cases that a plan describes."""
    for case in mechanism.law.small_cases():
        if own or case.mechanism == make_mechanism(case.mechanism.plan):
            yield case


def check_sampler(cases: Iterator[SmallCase], draw: Sample, samples: int) -> Iterator[Finding]:
    """Compare what the client draws with the law that was enumerated, report by report."""
    worst, where, cells = 0.0, "nothing was compared", 0
    for case in cases:
        for values in _sampler_vectors(case):
            for seed in SEEDS:
                score, count = _misfit(case.mechanism, values, seed, draw, samples)
                cells += count
                if score > worst:
                    worst, where = score, f"k = {len(values)}, seed {seed}"
    limit = -NormalDist().inv_cdf(FALSE_ALARM / max(1, cells) / 2)
    evidence = f"{cells} frequencies compared, worst {worst:.2f} standard deviations at {where}"
    yield Finding("sampler", worst <= limit, worst, limit, evidence)


def _sampler_vectors(case: SmallCase) -> Iterator[tuple[float, ...]]:
    if case.pair is not None:
        yield case.pair[0]
        return
    yield (max(case.grid),)
    yield (max(case.grid),) * case.items
    yield tuple(case.grid[position % len(case.grid)] for position in range(case.items))


def _misfit(
    mechanism: Mechanism, values: tuple[float, ...], seed: int, draw: Sample, samples: int
) -> tuple[float, int]:
    """Return the worst deviation of a frequency from its law, and how many were compared."""
    held = [position for position, value in enumerate(values) if value != 0]
    ids = np.array(held, dtype=np.uint64)
    vector = SparseVector(ids, [values[position] for position in held])
    try:
        law = mechanism.law.probabilities(
            [values[position] for position in held], mechanism.law.outcome_of(seed, ids)
        )
        drawn = draw(mechanism, vector, seed, samples).fields
    except TooManyItems:
        return 0.0, 0
    if (drawn >= np.array(mechanism.layout.limits)).any():
        return float("inf"), len(law)  # a report that the layout does not allow
    counts = np.bincount(mechanism.law.report_number(drawn, seed), minlength=len(law))
    # Rare reports are grouped with their neighbours: alone, their counts are too skewed for a
    # normal limit.
    group = np.floor((np.cumsum(law) - law) * samples / COMMON).astype(np.int64)
    expected, seen = np.bincount(group, weights=law), np.bincount(group, weights=counts)
    spread = np.sqrt(np.maximum(samples * expected * (1 - expected), COMMON / 2))
    return float((np.abs(seen - samples * expected) / spread).max()), len(expected)
