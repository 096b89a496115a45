"""Single-use tokens: the deployer hands one to each person, who then counts once per epoch.

Only a hash and whether it was used are stored; nothing links a token to its report.
"""

import hashlib
import secrets

from faintly.collector.storage.collection import Epoch
from faintly.collector.storage.database import NAME_BYTES, Database, split_names

TOKEN_BYTES = 16
MAX_ISSUED = 10_000  # tokens per call
ADD = (
    f"{split_names(NAME_BYTES)} INSERT INTO tokens "
    f"SELECT ?1, substr(?2, i, {NAME_BYTES}), 0 FROM at"
)


def hash_of(token: bytes) -> bytes:
    """Return the hash that is stored; tokens are random, so a fast hash is safe."""
    return hashlib.blake2b(token, digest_size=NAME_BYTES, person=b"faintly token").digest()


def issue(database: Database, epoch: Epoch, count: int) -> list[str]:
    """Return new tokens of an epoch, which are shown only once."""
    tokens = [secrets.token_bytes(TOKEN_BYTES) for _ in range(count)]
    names = b"".join(sorted([hash_of(token) for token in tokens]))
    with database.transaction() as connection:
        connection.execute(ADD, (epoch.id, names))
    return [token.hex() for token in tokens]
