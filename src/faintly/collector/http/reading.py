"""A reader process: parses questions, reads sketches, encodes answers, one at a time.

python -m faintly.collector.http.reading SOCKET PIPE

It has no database and no folder but the one for unnamed temporary files. All it knows comes
through the socket: questions as their clients sent them, and sketch files, open for reading.
"""

import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from faintly.collector.http import logs
from faintly.collector.http.answers import answer
from faintly.collector.http.channel import Channel, Message, Stops
from faintly.collector.http.source import Source
from faintly.collector.problems import Problem

NICE = 10  # below the process that takes reports: at a tenth of its weight


def answer_all(channel: Channel, stops: Stops) -> None:
    """Answer question after question, until the collector is gone."""
    source = Source(channel, stops)
    with suppress(EOFError, ConnectionError):
        while True:
            channel.send(_answer(channel.receive(), source))


def _answer(asked: Message, source: Source) -> Message:
    """Return the answer to a question, or what was wrong with it."""
    head = asked.head
    try:
        source.begin(head["number"], bytes.fromhex(head["collection"]), Path(head["spool"]))
        made = answer(source, head, asked.body)
    except Problem as problem:
        kind = problem.kind
        return Message({"problem": [kind.code, kind.status, problem.hint, problem.message]})
    except (EOFError, ConnectionError):
        raise
    except Exception as error:
        return Message({"fault": logs.place_of(error)})
    same = made.body is None
    return Message({"etag": made.etag, "media": made.media, "same": same}, made.body or b"")


def main() -> None:
    """Run until the collector closes its end."""
    # The collector decides when a reader ends; a signal to all processes must not.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    os.nice(NICE)
    end, pipe = map(int, sys.argv[1:])
    answer_all(Channel(socket.socket(fileno=end)), Stops(pipe))


if __name__ == "__main__":
    main()
