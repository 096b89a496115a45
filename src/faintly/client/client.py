"""One person's side of a collection."""

from collections.abc import Iterable, Mapping

from faintly.client.bulk import randomize
from faintly.core import Key, Plan, Report, ReportBatch, SparseVector, VectorBatch
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import secure
from faintly.wire import report_v1


class Client:
    """Turns one person's vector into one report, with the operating system's randomness.

    Privacy: each call to `report` spends the plan's budget anew; this class keeps no ledger,
    so the application decides how often to call it. An empty vector is reported like any
    other: whether something is sent must not depend on the data.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._mechanism = mechanism_of(plan)

    def report(self, items: Mapping[Key, float] | Iterable[Key] | SparseVector) -> Report:
        """Return one randomized report of a mapping of key to value, or of a set of keys."""
        vectors = VectorBatch.of([self.plan.vector(items)])
        return randomize(self.plan, self._mechanism, vectors, secure(), secure())[0]

    def encode(self, report: Report) -> bytes:
        """Return a report as a batch of one, ready to send."""
        return report_v1.encode_batch(as_batch([report]), self._mechanism.layout)


def as_batch(reports: list[Report]) -> ReportBatch:
    """Return reports of one plan as a batch."""
    import numpy as np

    return ReportBatch(
        reports[0].plan_digest,
        np.array([report.hash_seed for report in reports], dtype=np.uint64),
        np.array([report.fields for report in reports], dtype=np.uint32),
    )
