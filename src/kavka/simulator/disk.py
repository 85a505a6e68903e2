"""Disks in memory: what was written, what of it is synced, and what a crash or a fault takes away.

Decides what is left of a file after its process or its machine died, and which operations fail. It must not know what
the files mean. The FileSystem port's own words about durability are taken at their letter here:

    written, not synced       survives the process; at a power cut any suffix of it may be gone, cut anywhere (torn)
    created, renamed, removed survives the process; at a power cut it may be undone until the directory is synced
    a file replaced atomically and durably is the old one or the new one

    I1  a read gives what was written, or raises: bits do not rot by themselves (`damage` makes them)
    I2  after a power cut the synced part of every file is whole
    I3  full, slow and failing are states of a disk, set by the simulation; nothing fails by itself

Source: ALICE and Pillai et al. (OSDI 2014) for which states a crash may leave; TigerBeetle's storage fault model.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kavka.errors import LogDirectoryLocked, StorageError
from kavka.filesystem import Buffer
from kavka.simulator.scheduler import NodeLoop

UNLIMITED: Final = 1 << 60


@dataclass(slots=True)
class _Content:
    """A file's bytes. The first `synced` of them are durable; `durable_name` says whether its name is."""

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0
    before: bytes | None = None
    """What a truncation or replacement that is not synced yet took away: what a power cut may bring back."""


class SimulatedDisk:
    """One machine's disk; it outlives the processes that use it."""

    def __init__(self, random: Random, *, capacity_bytes: int = UNLIMITED) -> None:
        self._random = random
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.files: dict[str, _Content] = {}
        self.directories: dict[str, None] = {"/": None}
        self._durable_names: dict[str, _Content] = {}
        """The names as of the last sync of their directories: what a power cut falls back to."""
        self.locks: dict[str, NodeLoop] = {}
        self.failing_writes = 0.0
        self.failing_reads = 0.0
        """Probabilities of an input/output error."""
        self.crashes = 0

    def port(self, process: NodeLoop) -> SimulatedFileSystem:
        """The FileSystem port of one process."""
        return SimulatedFileSystem(self, process)

    # -- faults

    def power_cut(self) -> None:
        """The machine died: of what was not synced, a part is gone."""
        self.crashes += 1
        random = self._random
        names = dict(self.files)
        for path, content in self._durable_names.items():
            if names.get(path) is not content and random.random() < 0.5:
                # The rename or removal did not make it.
                names = {other: held for other, held in names.items() if held is not content}
                names[path] = content
        for path, content in list(names.items()):
            if path not in self._durable_names and not content.synced and random.random() < 0.5:
                del names[path]  # The creation did not make it.
                continue
            if content.before is not None and random.random() < 0.5:
                content.data[:] = content.before
                content.synced = len(content.before)
            keep = content.synced + int(random.random() * (len(content.data) - content.synced + 1))
            del content.data[keep:]
            content.synced = len(content.data)
            content.before = None
        self.files = names
        self._durable_names = dict(names)
        self.used_bytes = sum(len(content.data) for content in self.files.values())
        self.locks.clear()

    def process_died(self, process: NodeLoop) -> None:
        """A killed process loses its locks; what it wrote is in the kernel's hands."""
        for path in [path for path, holder in self.locks.items() if holder is process]:
            del self.locks[path]

    def damage(self, path: str, position: int) -> None:
        """Flips a bit."""
        self.files[path].data[position] ^= 1 << int(self._random.random() * 8)

    def wipe(self) -> None:
        """Somebody put an empty disk in."""
        self.files.clear()
        self._durable_names.clear()
        self.directories = {"/": None}
        self.locks.clear()
        self.used_bytes = 0

    # -- for the port

    def check_write(self, path: str, size: int) -> None:
        if self.failing_writes and self._random.random() < self.failing_writes:
            raise StorageError(path, "input/output error")
        if size > 0 and self.used_bytes + size > self.capacity_bytes:
            raise StorageError(path, "no space left on device")

    def check_read(self, path: str) -> None:
        if self.failing_reads and self._random.random() < self.failing_reads:
            raise StorageError(path, "input/output error")

    def sync_names(self, directory: str) -> None:
        for path in [path for path in self._durable_names if posixpath.dirname(path) == directory]:
            del self._durable_names[path]
        self._durable_names |= {
            path: content for path, content in self.files.items() if posixpath.dirname(path) == directory
        }


class SimulatedFile:
    """An open file; see `kavka.filesystem.File`."""

    __slots__ = ("_content", "_disk", "_process", "path")

    def __init__(self, disk: SimulatedDisk, process: NodeLoop, path: str, content: _Content) -> None:
        self._disk = disk
        self._process = process
        self._content = content
        self.path = path

    def fileno(self) -> int:
        raise OSError("a simulated file has no descriptor")

    def size(self) -> int:
        return len(self._content.data)

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.check_read(self.path)
        return bytes(memoryview(self._content.data)[position : position + length])

    def append(self, data: Buffer) -> None:
        self._check(len(data))
        self._content.data += data
        self._disk.used_bytes += len(data)

    def append_many(self, parts: Sequence[Buffer]) -> None:
        self.append(b"".join(parts))

    def truncate(self, size: int) -> None:
        self._check(0)
        content = self._content
        if size < content.synced:
            if content.before is None:
                content.before = bytes(memoryview(content.data)[: content.synced])
            content.synced = size
        self._disk.used_bytes -= max(len(content.data) - size, 0)
        del content.data[size:]

    def sync(self) -> None:
        self._check(0)
        self._content.synced = len(self._content.data)
        self._content.before = None

    def close(self) -> None:
        if self._disk.locks.get(self.path) is self._process:
            del self._disk.locks[self.path]

    def _check(self, size: int) -> None:
        if self._process.is_killed:
            raise StorageError(self.path, "its process is dead")
        self._disk.check_write(self.path, size)


class SimulatedFileSystem:
    """The FileSystem port on a simulated disk."""

    def __init__(self, disk: SimulatedDisk, process: NodeLoop) -> None:
        self._disk = disk
        self._process = process

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SimulatedFile:
        path = _absolute(path)
        content = self._disk.files.get(path)
        if content is None:
            if not create:
                raise FileNotFoundError(path)
            self._check(path, 0)
            self._require_parent(path)
            content = self._disk.files[path] = _Content()
        return SimulatedFile(self._disk, self._process, path, content)

    def read(self, path: str) -> bytes:
        path = _absolute(path)
        content = self._disk.files.get(path)
        if content is None:
            raise FileNotFoundError(path)
        self._disk.check_read(path)
        return bytes(content.data)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        path = _absolute(path)
        self._check(path, len(data))
        self._require_parent(path)
        old = self._disk.files.get(path)
        new = _Content(bytearray(data), len(data) if durable else 0)
        self._disk.files[path] = new
        self._disk.used_bytes += len(data) - (len(old.data) if old is not None else 0)
        if durable:
            self._disk.sync_names(posixpath.dirname(path))

    def exists(self, path: str) -> bool:
        path = _absolute(path)
        return path in self._disk.files or path in self._disk.directories

    def list_directory(self, path: str) -> list[str]:
        path = _absolute(path)
        if path not in self._disk.directories:
            raise FileNotFoundError(path)
        prefix = path.rstrip("/") + "/"
        names = {
            entry[len(prefix) :].split("/", 1)[0]: None
            for entry in (*self._disk.files, *self._disk.directories)
            if entry.startswith(prefix) and entry != path
        }
        return sorted(names)

    def make_directory(self, path: str) -> None:
        path = _absolute(path)
        self._check(path, 0)
        while path not in self._disk.directories:
            self._disk.directories[path] = None
            path = posixpath.dirname(path)

    def remove(self, path: str) -> None:
        path = _absolute(path)
        self._check(path, 0)
        content = self._disk.files.pop(path, None)
        if content is None:
            raise FileNotFoundError(path)
        self._disk.used_bytes -= len(content.data)

    def remove_directory(self, path: str) -> None:
        path = _absolute(path)
        self._check(path, 0)
        for file in self._below(path, self._disk.files):
            self._disk.used_bytes -= len(self._disk.files.pop(file).data)
        for directory in [*self._below(path, self._disk.directories), path]:
            self._disk.directories.pop(directory, None)

    def rename(self, source: str, target: str) -> None:
        source, target = _absolute(source), _absolute(target)
        self._check(source, 0)
        if source in self._disk.files:
            replaced = self._disk.files.get(target)
            if replaced is not None:
                self._disk.used_bytes -= len(replaced.data)
            self._disk.files[target] = self._disk.files.pop(source)
            return
        if source not in self._disk.directories:
            raise FileNotFoundError(source)
        for path in self._below(source, self._disk.files):
            self._disk.files[target + path[len(source) :]] = self._disk.files.pop(path)
        for path in self._below(source, self._disk.directories):
            del self._disk.directories[path]
            self._disk.directories[target + path[len(source) :]] = None
        del self._disk.directories[source]
        self._disk.directories[target] = None

    def sync_directory(self, path: str) -> None:
        self._check(path, 0)
        self._disk.sync_names(_absolute(path))

    def space(self, path: str) -> tuple[int, int]:
        return self._disk.capacity_bytes, max(self._disk.capacity_bytes - self._disk.used_bytes, 0)

    def lock(self, path: str) -> SimulatedFile:
        path = _absolute(path)
        holder = self._disk.locks.get(path)
        if holder is not None and not holder.is_killed:
            raise LogDirectoryLocked(path, f"held by {holder.name}")
        file = self.open(path, create=True)
        self._disk.locks[path] = self._process
        return file

    def _check(self, path: str, size: int) -> None:
        if self._process.is_killed:
            raise StorageError(path, "its process is dead")
        self._disk.check_write(path, size)

    def _require_parent(self, path: str) -> None:
        if posixpath.dirname(path) not in self._disk.directories:
            raise StorageError(path, "its directory is not there")

    @staticmethod
    def _below(path: str, table: Iterable[str]) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return [entry for entry in table if entry.startswith(prefix)]


def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path))
