"""Keys of bulk encoding: everything that a client's report needs, from one secret job key.

order    where the report stands among the others
secret   a key of the client's own, from which two independent streams are drawn:
         seeds  public randomness; never depends on the vector
         noise  secret randomness; bound to the vector as well

All are keyed BLAKE2b with the plan's digest as salt and a purpose of their own, so none reveals
anything about another. A task that is run again repeats its bytes. A client whose vector has
changed gets fresh noise: the same noise on two vectors would reveal their difference.
"""

import hashlib
import secrets

from faintly.core import VectorBatch
from faintly.errors import InvalidInput
from faintly.primitives.entropy import KeyedRng, keyed

KEY_BYTES = 32
ORDER_BYTES = 16  # two of 2^40 clients share a place with chance 2^-49


def new_key() -> bytes:
    """Return a fresh job key from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


def check_key(key: object) -> bytes:
    """Return a job key, or say what is wrong with it without showing it."""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES or len(set(key)) == 1:
        raise InvalidInput(f"a job key is {KEY_BYTES} random bytes, as new_key returns them")
    return key


def order_of(job_key: bytes, plan_digest: bytes, client: bytes) -> bytes:
    """Return the client's place: a random order for everybody who lacks the job key."""
    return _keyed(client, job_key, plan_digest, b"faintly-order", ORDER_BYTES)


def secret_of(job_key: bytes, plan_digest: bytes, client: bytes) -> bytes:
    """Return the client's own key."""
    return _keyed(client, job_key, plan_digest, b"faintly-client")


def streams(secret: bytes, plan_digest: bytes, vector: VectorBatch) -> tuple[KeyedRng, KeyedRng]:
    """Return the public and the secret source of one report."""
    held = vector.indices.astype("<u8").tobytes() + vector.values.astype("<f8").tobytes()
    seeds = _keyed(b"", secret, plan_digest, b"faintly-seeds")
    return keyed(seeds), keyed(_keyed(held, secret, plan_digest, b"faintly-noise"))


def _keyed(data: bytes, key: bytes, salt: bytes, purpose: bytes, size: int = KEY_BYTES) -> bytes:
    return hashlib.blake2b(data, digest_size=size, key=key, salt=salt, person=purpose).digest()
