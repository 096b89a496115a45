"""Files and standard input, opened to be read once from front to back, compressed or not.

The kind of a file follows from its name, ignoring .gz at the end; that of standard input from its
first bytes.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from faintly.errors import InvalidData

STDIN = Path("-")
KINDS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".dat": "sets",
    ".fimi": "sets",
}
READABLE = ", ".join(KINDS)
BUFFER = 2**20  # bytes read from a file at a time

# Called while rows are read, with the file, its rows so far, and the share read, if known.
OnRead = Callable[[str, int, float | None], None]


@dataclass(frozen=True)
class Opened:
    """An input that is being read."""

    path: Path
    kind: str
    stream: BinaryIO  # its bytes, decompressed
    share: Callable[[], float | None]

    @property
    def name(self) -> str:
        """Return the name that errors show."""
        return name_of(self.path)

    @property
    def text(self) -> io.TextIOWrapper:
        """Return the stream as text, without the byte-order mark that some programs write."""
        return io.TextIOWrapper(self.stream, encoding="utf-8-sig", newline="")

    def whole(self) -> BinaryIO:
        """Return the bytes as a stream that can seek."""
        plain = isinstance(getattr(self.stream, "raw", None), io.FileIO)
        return self.stream if plain else io.BytesIO(self.stream.read())


class _Counted(io.RawIOBase):
    """A file whose first bytes were already read; counts the bytes read."""

    def __init__(self, file: BinaryIO, head: bytes) -> None:
        self.file, self.head, self.done = file, head, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        part = self.head[: len(buffer)] or self.file.read1(len(buffer))  # type: ignore[attr-defined]
        self.head = self.head[len(part) :]
        buffer[: len(part)] = part
        self.done += len(part)
        return len(part)


def name_of(path: Path) -> str:
    """Return the name of an input that errors show."""
    return "standard input" if path == STDIN else path.name


def kind_of(path: Path) -> str | None:
    """Return the kind that a file's name implies, or None."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return KINDS.get(plain.suffix.lower())


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Yield an input; bytes that cannot be decompressed become `InvalidData`."""
    try:
        if path == STDIN:
            yield _streamed(path, sys.stdin.buffer, None)
            return
        with path.open("rb") as file:
            yield _streamed(path, file, path.stat().st_size)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InvalidData(
            f"{name_of(path)} is not a complete gzip file; compress it again"
        ) from None


def _streamed(path: Path, file: BinaryIO, size: int | None) -> Opened:
    kind = None if path == STDIN else kind_of(path)
    head = _head(file)
    counted = _Counted(file, head)

    def share() -> float | None:
        return counted.done / size if size else None

    packed = head.startswith(b"\x1f\x8b")
    if kind == "parquet" and not packed:
        file.seek(0)
        return Opened(path, kind, file, share)  # the Parquet reader seeks
    plain = io.BufferedReader(counted, BUFFER)
    stream = io.BufferedReader(gzip.GzipFile(fileobj=plain), BUFFER) if packed else plain
    return Opened(path, kind or _guess(stream.peek(4)), stream, share)


def _head(file: BinaryIO) -> bytes:
    """Return the first bytes; a pipe may give them one by one."""
    head = b""
    while len(head) < 4 and (more := file.read1(4 - len(head))):  # type: ignore[attr-defined]
        head += more
    return head


def _guess(head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" else "csv"
