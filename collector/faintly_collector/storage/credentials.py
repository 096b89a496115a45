"""Secrets, of which only hashes are stored: credentials and single-use tokens.

A credential has a role. `faintly credential` adds and removes them while a collector runs: the
maintenance thread reads them again at every tick. The deployer hands a token to each person, who
then counts once per epoch. Nothing links a token to its report.
"""

import hashlib
import hmac
import secrets

from faintly.errors import InvalidInput
from faintly.wire.problems import CONFLICT, NOT_FOUND, Problem
from faintly_collector.storage.database import ID_BYTES, Database, split_ids

ROLES = ("submit", "read", "admin")
SECRET_BYTES = 32
MAX_LABEL = 100
TOKEN_BYTES = 16
ADD_TOKENS = (
    f"{split_ids(ID_BYTES)} INSERT INTO tokens SELECT ?1, substr(?2, i, {ID_BYTES}), 0 FROM at"
)


class Credentials:
    """The credentials of a folder."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reload()

    def reload(self) -> None:
        """Read them from the database."""
        rows = self._database.rows("SELECT label, role, hash FROM credentials ORDER BY label")
        self._known: list[tuple[str, str, bytes]] = rows
        self.roles = frozenset(role for _, role, _ in self._known)

    def add(self, role: str, label: str) -> str:
        """Return a new secret, which is shown only once; the label serves to remove it."""
        check_label(label)
        if role not in ROLES:
            raise InvalidInput(f"role must be one of {', '.join(ROLES)}, got {role!r}")
        secret = secrets.token_urlsafe(SECRET_BYTES)
        row = label, role, hash_of(secret)
        if not self._database.execute("INSERT OR IGNORE INTO credentials VALUES (?, ?, ?)", row):
            raise Problem(CONFLICT, f"there is a credential {label!r} already")
        self.reload()
        return secret

    def remove(self, label: str) -> None:
        """Remove a credential."""
        if not self._database.execute("DELETE FROM credentials WHERE label = ?", (label,)):
            raise Problem(NOT_FOUND, f"there is no credential {label!r}")
        self.reload()

    def labels(self) -> list[tuple[str, str]]:
        """Return the label and role of each credential."""
        return [(label, role) for label, role, _ in self._known]

    def role_of(self, hashed: bytes) -> str | None:
        """Return the role of a secret by its hash; compares with all of them, in constant time."""
        found = None
        for _, role, stored in self._known:
            if hmac.compare_digest(stored, hashed):
                found = role
        return found


def check_label(label: str) -> None:
    """Refuse a label that is too long or not printable."""
    if not 1 <= len(label) <= MAX_LABEL or not label.isprintable():
        raise InvalidInput(f"a label has 1 to {MAX_LABEL} printable characters")


def hash_of(secret: str) -> bytes:
    """Return the hash of a secret, which is long and random, so a fast hash is safe."""
    data = secret.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=32, person=b"faintly secret").digest()


def token_hash(token: bytes) -> bytes:
    """Return the hash of a token that is stored."""
    return hashlib.blake2b(token, digest_size=ID_BYTES, person=b"faintly token").digest()
