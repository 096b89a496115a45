"""A plan to report under, and a disk in memory that can lose power or kill its process."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faintly import Plan, make_plan
from faintly.client import Policy
from faintly.client.disk import Disk


class Crash(BaseException):
    """The process is gone: nothing after this line happened."""


class File:
    def __init__(self, data: bytes = b"", safe: bytes = b"") -> None:
        self.data, self.safe = data, safe  # what programs see, and what survives a power cut


class MemoryDisk(Disk):
    """Files whose bytes are safe after a sync and whose names are after a sync of the folder.

    Every step counts; `stop_at` names the one before which `fault` is raised.
    """

    def __init__(self, stop_at: int = 0, fault: type[BaseException] = Crash) -> None:
        self.names: dict[str, File] = {}
        self.safe_names: dict[str, File] = {}
        self.steps, self.stop_at, self.fault = 0, stop_at, fault

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.stop_at:
            raise self.fault(28, "No space left on device")

    def read(self, path: Path) -> bytes | None:
        file = self.names.get(path.name)
        return None if file is None else file.data

    def append(self, path: Path, data: bytes) -> None:
        self.fill(self.names[path.name], data)

    def replace(self, path: Path, data: bytes) -> None:
        self.step()
        fresh = self.names[f"{path.name}.part"] = File()
        self.fill(fresh, data)
        self.step()
        self.names[path.name] = self.names.pop(f"{path.name}.part")
        self.sync_folder(path.parent)

    def remove(self, path: Path) -> None:
        if self.names.pop(path.name, None) is not None:
            self.sync_folder(path.parent)

    def fill(self, file: File, data: bytes) -> None:
        self.step()
        file.data += data
        self.step()
        file.safe = file.data
        self.step()

    def sync_folder(self, folder: Path) -> None:
        self.step()
        self.safe_names = dict(self.names)

    @contextmanager
    def lock(self, path: Path, wait_s: float) -> Iterator[None]:
        yield

    def after_kill(self) -> "Iterator[MemoryDisk]":
        """Yield what the next process may find: a last write may have been cut anywhere."""
        yield from self._after(self.names, power=False)

    def after_power_cut(self) -> "Iterator[MemoryDisk]":
        """Yield what may be left: names old or new, unsafe bytes cut anywhere."""
        yield from self._after(self.safe_names, power=True)
        if {n: id(f) for n, f in self.names.items()} != {
            n: id(f) for n, f in self.safe_names.items()
        }:
            yield from self._after(self.names, power=True)

    def _after(self, names: dict[str, File], power: bool) -> "Iterator[MemoryDisk]":
        unsafe = [file for file in names.values() if file.data != file.safe]
        lengths = [range(len(file.safe), len(file.data) + 1) for file in unsafe]
        if len(unsafe) > 1:  # only after several accidents: the ends and a middle of each will do
            lengths = [sorted({cut[0], cut[len(cut) // 2], cut[-1]}) for cut in lengths]
        for cuts in itertools.product(*lengths):
            torn = {id(file): cut for file, cut in zip(unsafe, cuts, strict=True)}
            yield self._copy(names, torn, power)

    def _copy(self, names: dict[str, File], torn: dict[int, int], power: bool) -> "MemoryDisk":
        """Copy with identities kept: a file under two names stays one file."""
        copies: dict[int, File] = {}
        for file in [*names.values(), *self.safe_names.values()]:
            data = file.data[: torn.get(id(file))]
            copies[id(file)] = File(data, data if power else file.safe)
        made = MemoryDisk()
        made.names = {name: copies[id(file)] for name, file in names.items()}
        old = names if power else self.safe_names
        made.safe_names = {name: copies[id(file)] for name, file in old.items()}
        return made

    @classmethod
    def holding(cls, data: bytes) -> "MemoryDisk":
        """Return a disk with one file, named ledger, that is safe."""
        made = cls()
        made.names = {"ledger": File(data, data)}
        made.safe_names = dict(made.names)
        return made


@pytest.fixture
def memory_disk() -> type[MemoryDisk]:
    return MemoryDisk


@pytest.fixture
def crash() -> type[Crash]:
    return Crash


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """Return a maker of small signed-binning plans."""

    def make(protect: str = "event", epsilon: float = 1.0, **more: object) -> Plan:
        fields = {"sparsity": 4, "clients": 100, "universe": 16, "mechanism": "signed-binning"}
        return make_plan(protect=protect, epsilon=epsilon, **(fields | more))

    return make


@pytest.fixture
def bounded() -> Policy:
    """Return the policy of an application that bounds its items by itself."""
    return Policy.within(epsilon=1, delta=1e-6, units=["l1:64"], bounded_items=True)


@pytest.fixture
def squeeze_plan() -> Plan:
    """Return an (epsilon, delta) plan at l1:64 that enforces at most 32 items."""
    return make_plan(
        protect="l1:64",
        epsilon=1.0,
        delta=1e-6,
        sparsity=32,
        clients=100,
        universe=64,
        decode="direct",
        mechanism="signed-binning",
        row="squeeze",
    )
