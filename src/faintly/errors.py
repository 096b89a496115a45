"""Every error faintly raises on purpose.

FaintlyError
├── InvalidInput            what the caller passed breaks a stated rule
│   ├── InvalidVector         a client's vector; the message never shows its values
│   ├── InvalidData           rows of client, item, value; the message names rows, not contents
│   ├── InvalidPlan           public parameters that cannot work together
│   ├── UnknownKey            a queried key outside the universe
│   └── TooManyItems          more items than a theorem allows, to be fixed on the device
├── UnsupportedUnit         the mechanism does not protect the requested unit
├── BoundDoesNotApply       the conditions of a theorem do not hold
├── PlanRefused             a client's policy or ledger does not allow the plan
├── BudgetSpent             the ledger's limits leave no room for another report
├── EpochPassed             the epoch is before the last one, and its report is not kept
├── LedgerFailed            the ledger cannot be read, locked or written; nothing was sent
├── SendFailed              a collector did not take a request; carries its code
├── ClientFailed            a client under audit did not make the reports it was asked for
├── FolderInUse             another collector uses the data folder
├── FolderDamaged           files that the manifest names are missing or changed
├── MissingDependency       an optional package is not installed
└── Rejected                bytes that are not what they claim; carries a `Reject` code
    ├── ReportRejected        a batch of reports
    └── SketchRejected        a sketch file

Programming mistakes raise `TypeError` or `AssertionError`.
"""

from enum import StrEnum
from typing import Self


class FaintlyError(Exception):
    """Base of every deliberate error, so that one `except` can catch them all."""


class InvalidInput(FaintlyError, ValueError):
    """Something the caller passed breaks a stated rule."""


class InvalidVector(InvalidInput):
    """A client's vector breaks a rule; the message names the position, never the value."""


class InvalidData(InvalidInput):
    """A table of rows breaks a rule; the message names the row, never its contents."""


class InvalidPlan(InvalidInput):
    """Public parameters that cannot work together."""


class UnknownKey(InvalidInput):
    """A queried key is not in the universe of the plan."""


class TooManyItems(InvalidInput):
    """A vector holds more items than the mechanism's theorem allows."""


class UnsupportedUnit(FaintlyError):
    """The mechanism does not protect the requested unit."""


class BoundDoesNotApply(FaintlyError):
    """The conditions of a theorem do not hold."""


class PlanRefused(FaintlyError):
    """A client's policy or ledger does not allow the plan; nothing was charged or sent."""


class BudgetSpent(FaintlyError):
    """The ledger's limits leave no room for another report; the message holds public numbers."""


class EpochPassed(FaintlyError):
    """The epoch is before the last one, and no report of it is kept to be sent again."""


class LedgerFailed(FaintlyError):
    """The ledger cannot be read, locked or written; what was charged stays charged."""


class SendFailed(FaintlyError):
    """A request to a collector failed; the message quotes nothing but the code.

    `code` is the collector's own, such as CLOSED, or one of UNREACHABLE and NOT_A_COLLECTOR.
    `reason` is the collector's own sentence, in printable characters, or empty. It is not part of
    the message, so that an untrusted server cannot write into a log.
    """

    def __init__(self, code: str, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class ClientFailed(FaintlyError):
    """A client under audit ended, refused, or made something other than reports."""


class FolderInUse(FaintlyError):
    """Another collector uses the data folder; nothing in it was touched."""


class FolderDamaged(FaintlyError):
    """A data folder does not match its manifest; the message says what to do.

    `what` is the message without the path and the advice, for callers that show these separately.
    """

    def __init__(self, message: str, what: str = "", advice: str = "") -> None:
        super().__init__(message)
        self.what, self.advice = what or message, advice


class MissingDependency(FaintlyError):
    """An optional package is needed; the message says which extra installs it."""

    @classmethod
    def of(cls, need: str, extra: str) -> Self:
        """Return the error for a missing package; `need` is like "plots need matplotlib"."""
        how = f"in a clone: pip install '.[{extra}]'"
        return cls(f"{need}; install faintly with the extra {extra} ({how})")


class Reject(StrEnum):
    """Why bytes were refused: the same codes in exceptions, specification and test vectors."""

    TRUNCATED = "TRUNCATED"
    BAD_MAGIC = "BAD_MAGIC"
    BAD_VERSION = "BAD_VERSION"
    BAD_CHECKSUM = "BAD_CHECKSUM"
    BAD_HEADER = "BAD_HEADER"
    OTHER_PLAN = "OTHER_PLAN"
    UNUSED_BITS = "UNUSED_BITS"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    OUT_OF_ORDER = "OUT_OF_ORDER"
    TRAILING_BYTES = "TRAILING_BYTES"


class Rejected(FaintlyError):
    """Bytes that are not what they claim to be."""

    def __init__(self, code: Reject, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code

    def add_place(self, place: object) -> None:
        """Name where the bytes came from: a file, or a batch of it."""
        self.args = (f"{place}: {self.args[0]}",)


class ReportRejected(Rejected):
    """A batch of reports was refused; none of it was counted."""


class SketchRejected(Rejected):
    """A sketch file was refused."""
