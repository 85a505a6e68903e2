"""Disks of one machine, one for each log directory, of which every call has a number and may go wrong.

A call that goes wrong does nothing and fails, or has its effect and fails; or power is cut right behind it. What a
power cut takes is `kavka.simulator.host.disk`'s: each disk loses what was not synced, or keeps it, or any part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from random import Random
from typing import Any

from kavka.errors import StorageError
from kavka.filesystem import Buffer, File
from kavka.simulator.host.disk import SimulatedDisk


class PowerCut(BaseException):
    """The machine lost power here."""


class Fault(Enum):
    """What goes wrong with a call."""

    FAILS = "fails"
    FAILS_DONE = "fails, but took effect"
    CUT = "power is cut right after it"
    DIES = "fails, and its disk from then on"


class Drawn(Random):
    """A random number generator that draws one number only."""

    def __init__(self, number: float) -> None:
        super().__init__(0)
        self._number = number

    def random(self) -> float:
        return self._number


class _Process:
    """All that a disk asks of a process: it lives."""

    is_killed = False

    def consume_ms(self, ms: float) -> None:
        raise AssertionError("no volume is slow here")


class NumberedDisks:
    """The FileSystem port of the one process that the machine runs. A directory in `gone` cannot be used."""

    def __init__(self, draws: dict[str, Random]) -> None:
        """`draws`: by log directory, what a power cut leaves of what is not synced there: 0.0 nothing."""
        self._disks = {directory: SimulatedDisk(random) for directory, random in draws.items()}
        for directory, disk in self._disks.items():
            disk.make_directory(directory)  # Where it is mounted.
        self.gone: set[str] = set()
        self.start({})

    def start(self, faults: dict[int, Fault]) -> None:
        """A new process, whose calls are numbered from 0."""
        process: Any = _Process()
        self._ports = {directory: disk.port(process) for directory, disk in self._disks.items()}
        self.faults = faults
        self.calls: list[tuple[str, str]] = []
        self.failed: list[str] = []
        self.is_counting = True

    def power_cut(self) -> None:
        for disk in self._disks.values():
            disk.power_cut()

    def kill(self) -> None:
        """The process is gone, with its locks."""
        for disk in self._disks.values():
            disk.locks.clear()

    def _directory(self, path: str) -> str:
        return "/" + path.split("/", 2)[1]

    def call(self, name: str, path: str, effect: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """`half`: the effect of a call that failed all the same."""
        directory = self._directory(path)
        if directory in self.gone:
            raise StorageError(path, "input/output error")
        fault = None
        if self.is_counting:
            fault = self.faults.get(len(self.calls))
            self.calls.append((name, path))
        if fault is Fault.FAILS or fault is Fault.DIES:
            if fault is Fault.DIES:
                self.gone.add(directory)
            self.failed.append(f"{name} {path}")
            raise StorageError(path, "input/output error")
        if fault is Fault.FAILS_DONE:
            (half or effect)()
            self.failed.append(f"{name} {path}")
            raise StorageError(path, "input/output error")
        result = effect()
        if fault is Fault.CUT:
            raise PowerCut
        return result

    # -- the port

    def _port(self, path: str) -> Any:
        return self._ports[self._directory(path)]

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        port = self._port(path)
        file = self.call("open", path, lambda: port.open(path, create=create, read_only=read_only))
        return NumberedFile(self, file)

    def read(self, path: str) -> bytes:
        found: bytes = self.call("read", path, lambda: self._port(path).read(path))
        return found

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        port = self._port(path)

        def half() -> None:
            port.write_atomically(path, data, durable=False)
            if durable:
                port.open(path).sync()  # Its content is synced before it gets the name, which may not last.

        self.call("write", path, lambda: port.write_atomically(path, data, durable=durable), half)

    def exists(self, path: str) -> bool:
        found: bool = self._directory(path) not in self.gone and self._port(path).exists(path)
        return found

    def modified_ms(self, path: str) -> int:
        found: int = self._port(path).modified_ms(path)
        return found

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._port(path).set_modified_ms(path, modified_ms)

    def list_files(self, path: str) -> list[str]:
        found: list[str] = self.call("list", path, lambda: self._port(path).list_files(path))
        return found

    def list_directories(self, path: str) -> list[str]:
        found: list[str] = self.call("list", path, lambda: self._port(path).list_directories(path))
        return found

    def make_directory(self, path: str) -> None:
        self.call("make", path, lambda: self._port(path).make_directory(path))

    def make_new_directory(self, path: str) -> bool:
        found: bool = self.call("make", path, lambda: self._port(path).make_new_directory(path))
        return found

    def remove(self, path: str) -> None:
        self.call("remove", path, lambda: self._port(path).remove(path))

    def remove_directory(self, path: str) -> None:
        self.call("remove", path, lambda: self._port(path).remove_directory(path))

    def rename(self, source: str, target: str) -> None:
        self.call("rename", source, lambda: self._port(source).rename(source, target))

    def sync_directory(self, path: str) -> None:
        self.call("sync names", path, lambda: self._port(path).sync_directory(path))

    def space(self, path: str) -> tuple[int, int]:
        found: tuple[int, int] = self._port(path).space(path)
        return found

    def lock(self, path: str) -> File:
        file: File = self.call("lock", path, lambda: self._port(path).lock(path))
        return file


class NumberedFile:
    """An open file; see `kavka.filesystem.File`."""

    __slots__ = ("_disks", "_file", "path")

    def __init__(self, disks: NumberedDisks, file: File) -> None:
        self._disks = disks
        self._file = file
        self.path = file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def read_at(self, position: int, length: int) -> bytes:
        found: bytes = self._disks.call("read", self.path, lambda: self._file.read_at(position, length))
        return found

    def append(self, data: Buffer) -> None:
        self._disks.call("append", self.path, lambda: self._file.append(data))

    def append_many(self, parts: Sequence[Buffer]) -> None:
        self._disks.call("append", self.path, lambda: self._file.append_many(parts))

    def truncate(self, size: int) -> None:
        self._disks.call("cut", self.path, lambda: self._file.truncate(size))

    def preallocate(self, size: int) -> bool:
        return self._file.preallocate(size)

    def sync(self) -> None:
        self._disks.call("sync", self.path, self._file.sync)

    def close(self) -> None:
        self._file.close()
