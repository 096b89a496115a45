"""Single-use tokens: the deployer hands one to each person, who then counts once per epoch.

Only a hash is stored, beside whether it was used; nothing tells which report came with it.
"""

import hashlib
import secrets

from faintly.collector.database import Database, groups, marks
from faintly.collector.registry import Epoch

TOKEN_BYTES = 16
MOST = 100_000  # issued at a time


def hash_of(token: bytes) -> bytes:
    """Return what is stored of a token; it is random, so no slow hash is needed."""
    return hashlib.blake2b(token, digest_size=16, person=b"faintly token").digest()


def issue(database: Database, epoch: Epoch, count: int) -> list[str]:
    """Return fresh tokens of an epoch; they are shown this once."""
    tokens = [secrets.token_bytes(TOKEN_BYTES) for _ in range(count)]
    with database.transaction() as connection:
        for some in groups([hash_of(token) for token in tokens]):
            values = [part for token in some for part in (epoch.id, token, 0)]
            connection.execute(f"INSERT INTO tokens VALUES {marks(len(some), 3)}", values)  # noqa: S608
    return [token.hex() for token in tokens]
