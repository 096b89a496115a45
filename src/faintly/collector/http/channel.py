"""Messages between the collector and its readers: a small JSON head, a body, at most one file."""

import json
import os
import select
import socket
import struct
from typing import Any, BinaryIO, NamedTuple

LENGTHS = struct.Struct("<IQ")  # of head and body
NUMBER = struct.Struct("<Q")  # of a question that nobody waits for any more
DRAINED = 4096 * NUMBER.size  # bytes of numbers that are read at a time


class Message(NamedTuple):
    """What one side tells the other."""

    head: dict[str, Any]
    body: bytes | bytearray = b""
    file: BinaryIO | None = None  # is closed by who receives it, and by who sent it


class Channel:
    """One end of a connected pair of sockets."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, message: Message) -> None:
        """Send a message, and wait until the other side has taken most of it."""
        head = json.dumps(message.head).encode("ascii")
        files = [] if message.file is None else [message.file.fileno()]
        socket.send_fds(self._end, [LENGTHS.pack(len(head), len(message.body))], files)
        self._end.sendall(head)
        self._end.sendall(message.body)

    def receive(self) -> Message:
        """Wait for a message; raises `EOFError` once the other side is gone."""
        lengths, files, _, _ = socket.recv_fds(self._end, LENGTHS.size, 1)
        file = os.fdopen(files[0], "rb") if files else None
        head, body = LENGTHS.unpack(lengths + self._exactly(LENGTHS.size - len(lengths)))
        return Message(json.loads(self._exactly(head)), self._exactly(body), file)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            taken = self._end.recv_into(rest)
            if not taken:
                raise EOFError("the other side is gone")
            rest = rest[taken:]
        return data

    def close(self) -> None:
        """Let the other side know that nothing more comes."""
        self._end.close()


class Stops:
    """The reading end of a pipe that carries the numbers of questions to be given up."""

    def __init__(self, handle: int) -> None:
        self._handle, self._last = handle, -1

    def reached(self, number: int) -> bool:
        """Return whether a question is to be given up, as all are if the collector is gone."""
        while select.select([self._handle], [], [], 0)[0]:
            told = os.read(self._handle, DRAINED)
            if not told:
                return True
            self._last = NUMBER.unpack(told[-NUMBER.size :])[0]
        return self._last >= number
