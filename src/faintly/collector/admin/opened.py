"""A data folder that a command looks at."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from faintly.collector.problems import Problem
from faintly.collector.storage.database import Database, check_folder
from faintly.collector.storage.disk import copying
from faintly.collector.storage.manifest import Manifest
from faintly.collector.storage.registry import Registry
from faintly.errors import InvalidInput


@contextmanager
def opened(
    folder: Path, lock: Callable[[Path], AbstractContextManager[None]] = copying
) -> Iterator[Manifest]:
    """Yield the manifest of a folder; unless another lock is given, a collector may be running."""
    check_folder(folder)
    try:
        with lock(folder), Database(folder) as database:
            yield Manifest(folder, database, Registry(database))
    except Problem as problem:  # the disk failed, or there is no such collection
        raise InvalidInput(f"{folder}: {problem}") from None
