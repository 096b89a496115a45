"""A reader process: parses questions, reads sketches, encodes answers, one at a time.

python -m faintly.collector.http.reading PIPE STOPS

It uses neither the database nor the network. Questions come through a pipe, as their clients sent
them, and through another one the numbers of those that nobody waits for any more.
"""

import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from faintly.collector.http import logs
from faintly.collector.http.answers import Response, answer
from faintly.collector.http.source import Question, Source
from faintly.collector.problems import Problem

NICE = 10  # below the process that takes reports: at a tenth of its weight


def answer_all(pipe: Connection, stops: Connection) -> None:
    """Answer question after question, until the main process is gone."""
    source = Source(pipe, stops)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(pipe.recv(), source))


def _answer(asked: Question, source: Source) -> Response | Problem | dict[str, object]:
    """Return the answer, what is wrong with the question, or the place of a fault of ours."""
    try:
        source.begin(asked)
        return answer(source, asked)
    except Problem as problem:
        return problem
    except (EOFError, ConnectionError):
        raise
    except Exception as error:
        return logs.place_of(error)


def main() -> None:
    """Run until the main process closes its ends."""
    # It decides when a reader ends; a signal to all processes must not.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    os.nice(NICE)
    pipe, stops = map(int, sys.argv[1:])
    answer_all(Connection(pipe), Connection(stops, writable=False))


if __name__ == "__main__":
    main()
