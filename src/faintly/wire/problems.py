"""What a collector refuses, in one stable form: a code, a message and a hint.

Codes are part of the interface: programs compare them, people read the rest. No message quotes a
report, a key, an unknown field, a credential, a token or an address; it names a position instead.
Plans are public, so a message may quote what breaks a rule in one.
"""

from dataclasses import dataclass
from typing import Any

from faintly.errors import FaintlyError

RETRY_AFTER_S = 1  # how long senders wait when the inbox is full


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: its code, HTTP status, and what to do about it."""

    code: str
    status: int
    hint: str
    message: str = ""  # of problems that have none of their own


class Problem(FaintlyError):
    """A refused request; nothing of it was stored."""

    def __init__(self, kind: Kind, message: str = "", hint: str = "") -> None:
        self.kind, self.message, self.hint = kind, message or kind.message, hint or kind.hint
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        return Problem, (self.kind, self.message, self.hint)  # readers pickle them


BAD_REQUEST = Kind("BAD_REQUEST", 400, "GET /docs describes what this address takes.")
BAD_REPORTS = Kind(
    "BAD_REPORTS",
    400,
    "Send one batch as the client encodes it; the message names the reject code.",
)
NO_REQUEST_ID = Kind(
    "NO_REQUEST_ID",
    400,
    "Add ?request= with 32 hexadecimal digits, fresh and random for each request; "
    "a retry repeats them.",
)
NOT_AUTHORISED = Kind(
    "NOT_AUTHORISED", 401, "Send Authorization: Bearer with a credential of the role named above."
)
NOT_ALLOWED = Kind("NOT_ALLOWED", 403, "Use a credential whose role allows this.")
TOKEN_MISSING = Kind(
    "TOKEN_MISSING", 403, "Send the single-use token that the deployer issued, as Faintly-Token."
)
TOKEN_UNKNOWN = Kind(
    "TOKEN_UNKNOWN", 403, "Ask the deployer for a token of this collection and epoch."
)
TOKEN_USED = Kind(
    "TOKEN_USED", 409, "A token counts once per epoch; do not send this report again."
)
NOT_FOUND = Kind("NOT_FOUND", 404, "GET /docs lists all addresses; GET / is the page.")
UNKNOWN_COLLECTION = Kind(
    "UNKNOWN_COLLECTION",
    404,
    "GET /v1/collections lists the existing ones; POST /v1/collections creates one from its plan.",
)
UNKNOWN_EPOCH = Kind(
    "UNKNOWN_EPOCH",
    404,
    "Open it with PUT /v1/collections/{digest}/epochs/{epoch}, correct its number, or check both "
    "clocks.",
)
METHOD_NOT_ALLOWED = Kind("METHOD_NOT_ALLOWED", 405, "Use a method that the header Allow names.")
NOT_ACCEPTABLE = Kind("NOT_ACCEPTABLE", 406, "Ask for a media type that the message names.")
REQUEST_REUSED = Kind(
    "REQUEST_REUSED", 409, "A request id belongs to one body; draw 16 fresh random bytes."
)
CONFLICT = Kind("CONFLICT", 409, "Look at its status first: GET /v1/collections/{digest}.")
CLOSED = Kind("CLOSED", 410, "Keep the report until your own clock says that its epoch has passed.")
TOO_LARGE = Kind("TOO_LARGE", 413, "Send smaller batches.")
INVALID = Kind("INVALID", 422, "The message names the field and its rule; GET /docs has them all.")
BAD_PLAN = Kind("BAD_PLAN", 422, "Make the plan with faintly plan; the message names the rule.")
UNKNOWN_KEY = Kind("UNKNOWN_KEY", 422, "Ask for keys of the plan's universe.")
NO_REPORTS = Kind(
    "NO_REPORTS",
    409,
    "Wait for a seal, or ask for one: POST /v1/collections/{digest}/seal.",
    "no reports have been sealed yet",
)
BUSY = Kind("BUSY", 429, "Wait as Retry-After says and send the same request again.")
CANNOT_STORE = Kind(
    "CANNOT_STORE",
    503,
    "Nothing was stored; send the same request again later.",
    "the data folder cannot be written to",
)
DAMAGED = Kind(
    "DAMAGED",
    503,
    "Stop the collector and run faintly fsck on its folder; its log has the file.",
    "stored reports or sketches cannot be read",
)
READER_LOST = Kind(
    "READER_LOST",
    503,
    "Ask again, for fewer keys if it happens again; the collector's log has the exit status.",
)
ABANDONED = Kind(  # only logs see it
    "ABANDONED", 499, "Ask again, and wait for the answer.", "the client has disconnected"
)
STOPPING = Kind("STOPPING", 503, "Send the same request again later.", "the collector is stopping")
INTERNAL = Kind(
    "INTERNAL",
    500,
    "This is a fault of the collector; its log has the details.",
    "the collector failed on this request",
)
