"""Single-use tokens: the deployer hands one to each person, who then counts once per epoch.

Only a hash is stored, beside whether it was used; nothing tells which report came with it.
"""

import hashlib
import secrets

from faintly.collector.database import NAME_BYTES, Database, cut
from faintly.collector.registry import Epoch

TOKEN_BYTES = 16
MOST = 100_000  # issued at a time
ADD = f"{cut(NAME_BYTES)} INSERT INTO tokens SELECT ?1, substr(?2, i, {NAME_BYTES}), 0 FROM at"


def hash_of(token: bytes) -> bytes:
    """Return what is stored of a token; it is random, so no slow hash is needed."""
    return hashlib.blake2b(token, digest_size=NAME_BYTES, person=b"faintly token").digest()


def issue(database: Database, epoch: Epoch, count: int) -> list[str]:
    """Return fresh tokens of an epoch; they are shown this once."""
    tokens = [secrets.token_bytes(TOKEN_BYTES) for _ in range(count)]
    names = b"".join(sorted([hash_of(token) for token in tokens]))
    with database.transaction() as connection:
        connection.execute(ADD, (epoch.id, names))
    return [token.hex() for token in tokens]
