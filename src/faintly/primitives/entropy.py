"""Randomness as an explicit source of 32-bit words.

`secure()` draws from the operating system and is the only source a production client
accepts; `seeded()` repeats itself and is for tests and simulation; `keyed()` repeats itself under a
secret key, for work that may be done twice. They are three types, so none can stand in for another
by accident.
"""

import hashlib
import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

from faintly.core import WordArray
from faintly.core.plan import SALT_BYTES
from faintly.errors import MissingDependency

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

BULK_WORDS = 4096  # from here on a ChaCha20 keystream beats asking the system for every byte
ZEROS = memoryview(bytes(2**17))  # plaintext of the keystream, reused; fits a cache


class Rng(Protocol):
    """A source of uniform 32-bit words."""

    def words(self, count: int) -> WordArray:
        """Return the next `count` words."""
        ...


class SecureRng:
    """Words from the operating system's CSPRNG.

    Large requests are a ChaCha20 keystream under a fresh key from the system, where the
    `cryptography` package is installed; each request has its own key, so no state is kept.
    """

    def words(self, count: int) -> WordArray:
        """Return `count` fresh words."""
        if count < BULK_WORDS:
            drawn = np.frombuffer(os.urandom(4 * count), dtype="<u4")
        else:
            drawn = np.empty(count, dtype="<u4")
            _fill(drawn.data.cast("B"))
        return drawn.astype(np.uint32, copy=False)


class SeededRng:
    """Repeatable words for tests and simulation: Philox under a key hashed from the seed.

    Distinct labels give independent streams, which keeps public seeds and secret noise
    apart in simulation as well.
    """

    def __init__(self, seed: int, label: str) -> None:
        digest = hashlib.blake2b(f"{seed}/{label}".encode(), digest_size=16).digest()
        self._bits = np.random.Philox(key=int.from_bytes(digest, "little"))
        self._spare = np.zeros(0, dtype=np.uint32)

    def words(self, count: int) -> WordArray:
        """Return the next `count` words of the stream, whatever the sizes of the requests."""
        missing = max(0, count - len(self._spare))
        raw: np.ndarray = self._bits.random_raw((missing + 1) // 2)
        pool = raw.astype("<u8", copy=False).view("<u4").astype(np.uint32, copy=False)
        if len(self._spare):
            pool = np.concatenate([self._spare, pool])
        self._spare = pool[count:].copy()  # one word at most
        return pool[:count]


class KeyedRng:
    """Words that only the holder of a secret key can repeat: a ChaCha20 keystream.

    One key serves one report. Anyone with the key can subtract the noise from the report.
    """

    def __init__(self, key: bytes) -> None:
        try:
            self._stream = _keystream(key)
        except ImportError:
            raise MissingDependency.of("noise under a key needs cryptography", "spark") from None

    def words(self, count: int) -> WordArray:
        """Return the next `count` words of the stream, whatever the sizes of the requests."""
        drawn = np.frombuffer(self._stream.update(bytes(4 * count)), dtype="<u4")
        return drawn.astype(np.uint32, copy=False)


def secure() -> SecureRng:
    """Return the source that a production client uses."""
    return SecureRng()


def seeded(seed: int, label: str) -> SeededRng:
    """Return a repeatable source; never for real data that leaves a device."""
    return SeededRng(seed, label)


def keyed(key: bytes) -> KeyedRng:
    """Return the source of a secret key of 32 bytes."""
    return KeyedRng(key)


def uniform_seeds(rng: Rng, count: int, seed_bytes: int) -> np.ndarray:
    """Return `count` uniform public seeds of `seed_bytes` bytes as 64-bit integers."""
    words = rng.words(2 * count).astype(np.uint64)
    wide = words[0::2] | (words[1::2] << np.uint64(32))
    return wide >> np.uint64(64 - 8 * seed_bytes) if seed_bytes else np.zeros_like(wide)


def _fill(out: memoryview) -> None:
    """Overwrite the bytes with fresh random ones."""
    try:
        encryptor = _keystream(os.urandom(32))
    except Exception:  # not installed, or a build without this cipher
        out[:] = os.urandom(len(out))
        return
    for start in range(0, len(out), len(ZEROS)):
        part = out[start : start + len(ZEROS)]
        encryptor.update_into(ZEROS[: len(part)], part)


def _keystream(key: bytes) -> "CipherContext":
    """Return ChaCha20 under a key that is used for one stream only."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()


def fresh_salt(rng: Rng | None = None) -> bytes:
    """Return the salt of a new plan, which is public; by default the system draws it."""
    return (rng or secure()).words(SALT_BYTES // 4).tobytes()
