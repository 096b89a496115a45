"""One person's side of a collection."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from faintly.client.bulk import randomize
from faintly.client.ledger import Ledger
from faintly.client.policy import Policy, admit, read_plan
from faintly.core import Key, Plan, Report, ReportBatch, SparseVector, Tally, VectorBatch
from faintly.core.arguments import instance, real
from faintly.core.projection import project
from faintly.core.spending import Charge, Loss
from faintly.errors import InvalidInput
from faintly.primitives.entropy import secure
from faintly.wire import report_v1

if TYPE_CHECKING:  # making reports needs no network
    from faintly.client.transport import Connection, Receipt

Items = Mapping[Key, float] | Iterable[Key] | SparseVector


class Client:
    """Turns one person's vector into one report, with the operating system's randomness.

    Privacy: with a ledger, each plan and epoch is paid for once and gives the same bytes from
    then on, even if the vector changes. Without one, each call to `report` spends the plan's
    budget again, and the application decides how often to call it.

    Whether there is a report, and its length, never depend on the data. An empty vector is
    reported like any other; unknown keys are left out, and values are clipped to what the plan
    takes. The one exception: with a policy of `bounded_items` the application promises that nobody
    holds more than the plan's sparsity, and a longer vector is refused.

    Attributes:
        plan: the collection.
        tally: counts of what was left out, clipped or added up so far. Private: never send it.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        policy: Policy | None = None,
        ledger: Ledger | None = None,
        period_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take part in a collection.

        Args:
            plan: a plan that this program made, or one that it read and has a policy for.
            policy: what the application accepts. None is only for a plan made in this program; pin
                a plan shipped as a file by its digest. Without a policy, baselines and mechanisms
                that do not take every vector are refused.
            ledger: what this person has spent; None leaves the accounting to the application.
            period_s: seconds of an epoch; None: a single epoch, so one report in all.
            clock: seconds since 1970; called only where `period_s` is set.

        Raises:
            PlanRefused: the policy, the ledger or the plan's own integers do not allow it.
        """
        instance(plan, Plan, "plan", "as make_plan returns it")
        if ledger is not None:
            instance(ledger, Ledger, "ledger", "or None")
        if period_s is not None and not 0 < real(period_s, "period_s", InvalidInput) < math.inf:
            raise InvalidInput(f"the period must be positive and finite, got {period_s:g} s")
        if period_s is not None and ledger is None:
            raise TypeError("a period needs a ledger, which keeps the reports of its epochs")
        self.plan = plan
        self._mechanism = admit(plan, policy)
        self._ledger = ledger
        self._period_s = period_s
        self._clock = clock
        # The plan's statement, which its integers never exceed.
        items = plan.sparsity if self._mechanism.enforces_sparsity else None
        self._charge = Charge(plan.unit, Loss.of(plan.budget), items)
        self.tally = Tally()
        if ledger is not None:
            ledger.limits.accept(self._charge)

    @classmethod
    def fetched(
        cls,
        document: str | bytes,
        policy: Policy,
        *,
        ledger: Ledger | None = None,
        period_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> "Client":
        """Return a client for a plan that came from elsewhere, if the policy allows it.

        Args:
            document: the plan's JSON, as the server sent it.
            policy: what the application accepts; there is no default.
            ledger: as for a client.
            period_s: as for a client.
            clock: as for a client.

        Raises:
            PlanRefused: there is no policy, or it does not allow the plan, or the plan promises
                more than its integers prove, or it is not a plan.
        """
        plan = read_plan(document)
        return cls(plan, policy=policy, ledger=ledger, period_s=period_s, clock=clock)

    def __repr__(self) -> str:
        return f"Client({self.plan!r})"

    def report(self, items: Items, *, epoch: int | None = None) -> Report:
        """Return one randomized report of a mapping of key to value, or of a set of keys.

        Args:
            items: the person's data. Unknown keys are left out, values clipped and repeated keys
                added up; `tally` counts all that. Ignored where the ledger has the epoch's report.
            epoch: which report of the plan this is; an integer that never decreases, and needs a
                ledger. None: from the clock and the period, or 0 without a period.

        Raises:
            BudgetSpent: a limit of the ledger would be exceeded; nothing was charged.
            EpochPassed: the epoch is before the last one and its report is not kept.
            LedgerFailed: the ledger cannot be used; nothing is returned, and what was charged
                stays charged.
            TooManyItems: the policy promised `bounded_items`, and there are more; nothing was
                charged.

        Privacy: the plan's unit within its budget; see the class for repeated calls.
        """
        if self._ledger is None:
            if epoch is not None:
                raise TypeError("an epoch needs a ledger, which keeps its report")
            return self._randomize(self._vector(items))
        layout = self._mechanism.layout
        with self._ledger.entry(self.plan.digest, self._epoch(epoch)) as entry:
            if entry.report is None:
                vector = self._vector(items)
                entry.charge(self._charge)
                entry.keep(report_v1.encode_report(self._randomize(vector), layout))
            assert entry.report is not None
            record = np.frombuffer(entry.report, dtype=np.uint8)
        return report_v1.unpack(record.reshape(1, -1), self.plan.digest, layout)[0]

    def deliver(
        self,
        connection: "Connection",
        items: Items,
        *,
        epoch: int | None = None,
        token: str | None = None,
    ) -> "Receipt | None":
        """Send the epoch's report, unless the collector has acknowledged it; needs a ledger.

        The ledger keeps the report and its request id until the collector has it. So after any
        failure, even a refusal (the collector's clock may be wrong), call this again in the same
        epoch: the collector counts the report once.

        Args:
            connection: to the collector.
            items: as for `report`.
            epoch: as for `report`, and the collection's.
            token: the single-use token, where the collection asks for one.

        Returns:
            The collector's receipt, or None if it acknowledged the report before.

        Raises:
            SendFailed: as for `Connection.send`; the report is kept.
            FaintlyError: as for `report`.
        """
        if self._ledger is None:
            raise TypeError("delivering needs a ledger, which keeps the report")
        number, digest = self._epoch(epoch), self.plan.digest
        body = self.encode(self.report(items, epoch=number))
        with self._ledger.entry(digest, number) as entry:
            if entry.sent:
                return None
            request = entry.request()
        receipt = connection.send(digest, body, epoch=number, request=request, token=token)
        with self._ledger.entry(digest, number) as entry:
            entry.acknowledge()
        return receipt

    def encode(self, report: Report) -> bytes:
        """Return a report as a batch of one, ready to send."""
        instance(report, Report, "report", "as Client.report returns it")
        return report_v1.encode_batch(ReportBatch.of([report]), self._mechanism.layout)

    def _epoch(self, epoch: int | None) -> int:
        if epoch is not None:
            return epoch
        if self._period_s is None:
            return 0
        now = self._clock()
        if not math.isfinite(now):
            raise InvalidInput("the clock gives no time; it must be a finite number of seconds")
        try:
            return math.floor(now / self._period_s)
        except OverflowError:
            raise InvalidInput(f"a period of {self._period_s:g} s is too short to count") from None

    def _vector(self, items: Items) -> SparseVector:
        vector, lost = project(self.plan, items, self._mechanism.domain)
        self.tally += lost
        # The mechanism would refuse too many items, too, but only after the charge.
        self._mechanism.check_vector(vector)
        return vector

    def _randomize(self, vector: SparseVector) -> Report:
        vectors = VectorBatch.of([vector])
        return randomize(self.plan, self._mechanism, vectors, secure(), secure())[0]
