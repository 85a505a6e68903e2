"""Disks in memory: what was written, what of it is synced, and what a crash or a fault takes away.

Decides what is left of a file after its process or its machine died, and which operations fail. It must not know what
the files mean. This disk is exactly as durable as the FileSystem port promises, and no more:

    written, not synced       survives the process; at a power cut any suffix of it may be gone, cut anywhere (torn)
    created, renamed, removed survives the process; at a power cut it may be undone until the directory is synced, also
                              where the file's own bytes are
    a directory made          is gone with all that is in it, synced or not, until its parent is synced
    a file replaced atomically and durably is the old one or the new one
    a directory renamed       keeps its files, under one name or the other: what a power cut undoes are the last renames
                              that were not synced, with what took the old names' places since

A machine has one volume for each directory under its root: they fail one by one, and lose power together.

    I1  a read gives what was written, or raises: bits do not rot by themselves (`damage` makes them)
    I2  after a power cut the synced part of every file is whole
    I3  full, slow and failing are states of a volume, set by the simulation; nothing fails by itself
    I4  an append that fails may have written a part; what a failed sync was to make durable never is, although later
        syncs succeed: the kernel took its pages for clean

Source: ALICE and Pillai et al. (OSDI 2014) for which states a crash may leave; TigerBeetle's storage fault model;
Rebello et al. (ATC 2020) for what file systems do after a failed fsync.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from kavka.errors import LogDirectoryLocked, StorageError
from kavka.filesystem import Buffer
from kavka.simulator.host.scheduler import NodeLoop

UNLIMITED: Final = 1 << 60


@dataclass(slots=True)
class _Content:
    """A file's bytes. The first `synced` of them are durable; `durable_name` says whether its name is."""

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0
    before: bytes | None = None
    """What a truncation or replacement that is not synced yet took away: what a power cut may bring back."""
    modified_ms: int = 0
    """When `data` was last changed, by the machine's wall clock."""
    never_durable: int = UNLIMITED
    """Where the bytes begin that a failed sync left in memory alone (I4)."""


@dataclass(slots=True)
class Volume:
    """What one directory under the root lies on. The first three are probabilities of an input/output error."""

    failing_writes: float = 0.0
    failing_reads: float = 0.0
    failing_syncs: float = 0.0
    is_full: bool = False

    @property
    def is_broken(self) -> bool:
        return self.is_full or max(self.failing_writes, self.failing_reads, self.failing_syncs) > 0.0

    def repair(self) -> None:
        self.failing_writes = self.failing_reads = self.failing_syncs = 0.0
        self.is_full = False


def _directory_of(path: str) -> str:
    """As posixpath.dirname, of what lies in a directory of a simulated machine: one of its hottest lines."""
    return path.rpartition("/")[0]


class SimulatedDisk:
    """One machine's disk; it outlives the processes that use it."""

    def __init__(
        self, random: Random, *, capacity_bytes: int = UNLIMITED, wall_ms: Callable[[], int] = lambda: 0
    ) -> None:
        """`wall_ms` is the machine's clock: what files say of when they were written goes by it."""
        self._random = random
        self.wall_ms = wall_ms
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.files: dict[str, _Content] = {}
        self.directories: dict[str, None] = {"/": None}
        self._durable_names: dict[str, _Content] = {}
        """The names as of the last sync of their directories: what a power cut falls back to."""
        self._moves: list[tuple[str | None, str]] = []
        """Directories that were renamed since, or made (None), oldest first: a file system's journal keeps their order.
        """
        self.locks: dict[str, NodeLoop] = {}
        self._volumes: dict[str, Volume] = {}
        self._is_examined = False
        self.crashes = 0

    def port(self, process: NodeLoop) -> SimulatedFileSystem:
        """The FileSystem port of one process."""
        return SimulatedFileSystem(self, process)

    # -- faults

    def draw_from(self, seed: str) -> None:
        """What a power cut leaves, and which operations fail, is drawn from this seed from now on."""
        self._random = Random(seed)

    def volume(self, path: str) -> Volume:
        """What the file or directory lies on."""
        name = _absolute(path).split("/", 2)[1]
        found = self._volumes.get(name)
        if found is None:
            found = self._volumes[name] = Volume()
        return found

    @property
    def is_broken(self) -> bool:
        return any(volume.is_broken for volume in self._volumes.values())

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """No operation fails meanwhile, and nothing is drawn: for observers."""
        self._is_examined = True
        try:
            yield
        finally:
            self._is_examined = False

    def repair(self) -> None:
        """Repairs all volumes: none fails or is full. Their contents stay."""
        for volume in self._volumes.values():
            volume.repair()

    def power_cut(self) -> None:
        """The machine died: of what was not synced, a part is gone."""
        self.crashes += 1
        random = self._random
        if self._moves:
            kept = int(random.random() * (len(self._moves) + 1))
            while len(self._moves) > kept:
                source, target = self._moves.pop()
                if source is None:
                    self._forget(target)
                else:
                    self._undo(source, target)
            self._moves.clear()
        names = dict(self.files)
        named = {id(content) for content in self._durable_names.values()}
        for path, content in self._durable_names.items():
            if names.get(path) is not content and random.random() < 0.5:
                # The rename or removal did not make it.
                names = {other: held for other, held in names.items() if held is not content}
                names[path] = content
        for path, content in list(names.items()):
            # A rename of what has a durable name is done or not: it never loses both names.
            if path not in self._durable_names and id(content) not in named and random.random() < 0.5:
                del names[path]  # The creation did not make it.
                continue
            if content.before is not None and random.random() < 0.5:
                content.data[:] = content.before
                content.synced = len(content.before)
            keep = content.synced + int(random.random() * (len(content.data) - content.synced + 1))
            del content.data[min(keep, content.never_durable) :]
            content.synced = len(content.data)
            content.before = None
            content.never_durable = UNLIMITED
        self.files = names
        self._durable_names = dict(names)
        for path in names:
            self.make_directory(posixpath.dirname(path))
        self.used_bytes = sum(len(content.data) for content in self.files.values())
        self.locks.clear()

    def _undo(self, source: str, target: str) -> None:
        """A rename of a directory did not make it, nor did what happened later under either name."""
        self._forget(source)
        for path in _below(target, self._durable_names):
            self.files.setdefault(path, self._durable_names[path])
        self.make_directory(target)
        self.move_directory(source=target, target=source)

    def _forget(self, directory: str) -> None:
        """The directory is gone, with all that was in it."""
        for table in (self.files, self._durable_names):
            for path in _below(directory, table):
                del table[path]
        for path in [*_below(directory, self.directories), directory]:
            self.directories.pop(path, None)

    def make_directory(self, path: str) -> list[str]:
        """Makes the directory and those above it; returns those that were not there."""
        made = []
        while path not in self.directories:
            self.directories[path] = None
            made.append(path)
            path = posixpath.dirname(path)
        return made[::-1]

    def note_made(self, directories: list[str]) -> None:
        """A power cut may take these away again."""
        self._moves.extend((None, directory) for directory in directories)

    def process_died(self, process: NodeLoop) -> None:
        """A killed process loses its locks; what it wrote is in the kernel's hands."""
        for path in [path for path, holder in self.locks.items() if holder is process]:
            del self.locks[path]

    def damage(self, path: str, position: int) -> None:
        """Flips a bit."""
        self.files[path].data[position] ^= 1 << int(self._random.random() * 8)

    def wipe(self, directory: str = "/") -> None:
        """Somebody put an empty disk in; what lay below `directory` is gone."""
        prefix = _absolute(directory).rstrip("/") + "/"
        tables: tuple[dict[str, Any], ...] = (self.files, self._durable_names, self.locks, self.directories)
        for table in tables:
            for path in [path for path in table if path.startswith(prefix) and path != "/"]:
                del table[path]
        self._moves = [move for move in self._moves if not move[1].startswith(prefix)]
        self.used_bytes = sum(len(content.data) for content in self.files.values())

    # -- for the port

    def check_write(self, volume: Volume, path: str, size: int) -> None:
        """Raises if a write of `size` bytes fails as a whole."""
        if volume.failing_writes and self._random.random() < volume.failing_writes:
            raise StorageError(path, "input/output error")
        if size > 0 and (volume.is_full or self.used_bytes + size > self.capacity_bytes):
            raise StorageError(path, "no space left on device")

    def check_read(self, volume: Volume, path: str) -> None:
        if volume.failing_reads and not self._is_examined and self._random.random() < volume.failing_reads:
            raise StorageError(path, "input/output error")

    def part_written(self, size: int) -> int:
        """How much of a failing append reaches the file all the same (I4)."""
        return int(self._random.random() * size)

    def check_sync(self, path: str, content: _Content | None = None) -> None:
        volume = self.volume(path)
        if volume.failing_syncs and self._random.random() < volume.failing_syncs:
            if content is not None:
                content.never_durable = min(content.never_durable, content.synced)
            raise StorageError(path, "input/output error: not synced")

    def sync_names(self, directory: str) -> None:
        for path in [path for path in self._durable_names if _directory_of(path) == directory]:
            del self._durable_names[path]
        self._durable_names |= {
            path: content for path, content in self.files.items() if _directory_of(path) == directory
        }
        self._moves = [move for move in self._moves if (_directory_of(move[1]) or "/") != directory]

    def rename_directory(self, source: str, target: str) -> None:
        self.move_directory(source, target)
        self._moves.append((source, target))

    def move_directory(self, source: str, target: str) -> None:
        """Gives the directory another name; what is durable in it stays so."""
        for table in (self.files, self._durable_names):
            for path in _below(source, table):
                table[target + path[len(source) :]] = table.pop(path)
        for path in [*_below(source, self.directories), source]:
            del self.directories[path]
            self.directories[target + path[len(source) :]] = None


class SimulatedFile:
    """An open file; see `kavka.filesystem.File`."""

    __slots__ = ("_content", "_disk", "_process", "_volume", "path")

    def __init__(self, disk: SimulatedDisk, process: NodeLoop, path: str, content: _Content) -> None:
        self._disk = disk
        self._volume = disk.volume(path)
        self._process = process
        self._content = content
        self.path = path

    def fileno(self) -> int:
        raise OSError("a simulated file has no descriptor")

    def size(self) -> int:
        return len(self._content.data)

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.check_read(self._volume, self.path)
        return bytes(memoryview(self._content.data)[position : position + length])

    def append(self, data: Buffer) -> None:
        try:
            self._check(len(data))
        except StorageError:
            if not self._process.is_killed:
                written = memoryview(data)[: self._disk.part_written(len(data))]
                self._content.data += written
                self._content.modified_ms = self._disk.wall_ms()
                self._disk.used_bytes += len(written)
            raise
        self._content.data += data
        self._content.modified_ms = self._disk.wall_ms()
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
        if size <= content.never_durable:
            content.never_durable = UNLIMITED
        self._disk.used_bytes -= max(len(content.data) - size, 0)
        del content.data[size:]
        content.modified_ms = self._disk.wall_ms()

    def preallocate(self, size: int) -> bool:
        self._check(0)
        missing = max(size - len(self._content.data), 0)
        return self._disk.used_bytes + missing <= self._disk.capacity_bytes

    def sync(self) -> None:
        self._check(0)
        self._disk.check_sync(self.path, self._content)
        self._content.synced = len(self._content.data)
        self._content.before = None

    def close(self) -> None:
        if self._disk.locks.get(self.path) is self._process:
            del self._disk.locks[self.path]

    def _check(self, size: int) -> None:
        if self._process.is_killed:
            raise StorageError(self.path, "its process is dead")
        self._disk.check_write(self._volume, self.path, size)


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
            content = self._disk.files[path] = _Content(modified_ms=self._disk.wall_ms())
        return SimulatedFile(self._disk, self._process, path, content)

    def read(self, path: str) -> bytes:
        path = _absolute(path)
        content = self._disk.files.get(path)
        if content is None:
            raise FileNotFoundError(path)
        self._disk.check_read(self._disk.volume(path), path)
        return bytes(content.data)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        path = _absolute(path)
        self._check(path, len(data))
        self._require_parent(path)
        if durable:
            self._disk.check_sync(path)
        old = self._disk.files.get(path)
        new = _Content(bytearray(data), len(data) if durable else 0, modified_ms=self._disk.wall_ms())
        self._disk.files[path] = new
        self._disk.used_bytes += len(data) - (len(old.data) if old is not None else 0)
        if durable:
            self._disk.sync_names(posixpath.dirname(path))

    def exists(self, path: str) -> bool:
        path = _absolute(path)
        return path in self._disk.files or path in self._disk.directories

    def modified_ms(self, path: str) -> int:
        return self._content(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._check(_absolute(path), 0)
        self._content(path).modified_ms = modified_ms

    def _content(self, path: str) -> _Content:
        content = self._disk.files.get(_absolute(path))
        if content is None:
            raise FileNotFoundError(path)
        return content

    def list_files(self, path: str) -> list[str]:
        return self._list(path, self._disk.files)

    def list_directories(self, path: str) -> list[str]:
        return self._list(path, self._disk.directories)

    def _list(self, path: str, among: Iterable[str]) -> list[str]:
        path = _absolute(path)
        if path not in self._disk.directories:
            raise FileNotFoundError(path)
        prefix = path.rstrip("/") + "/"
        return sorted(
            name for entry in among if entry.startswith(prefix) and (name := entry[len(prefix) :]) and "/" not in name
        )

    def make_directory(self, path: str) -> None:
        path = _absolute(path)
        self._check(path, 0)
        self._disk.note_made(self._disk.make_directory(path))

    def make_new_directory(self, path: str) -> bool:
        if self.exists(path):
            return False
        if not self.exists(posixpath.dirname(_absolute(path))):
            raise FileNotFoundError(path)
        self.make_directory(path)
        return True

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
        for file in _below(path, self._disk.files):
            self._disk.used_bytes -= len(self._disk.files.pop(file).data)
        for directory in [*_below(path, self._disk.directories), path]:
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
        self._disk.rename_directory(source, target)

    def sync_directory(self, path: str) -> None:
        path = _absolute(path)
        self._check(path, 0)
        self._disk.check_sync(path)
        self._disk.sync_names(path)

    def space(self, path: str) -> tuple[int, int]:
        if self._disk.volume(path).is_full:
            return self._disk.capacity_bytes, 0
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
        self._disk.check_write(self._disk.volume(path), path, size)

    def _require_parent(self, path: str) -> None:
        if posixpath.dirname(path) not in self._disk.directories:
            raise StorageError(path, "its directory is not there")


def _below(path: str, table: Iterable[str]) -> list[str]:
    prefix = path.rstrip("/") + "/"
    return [entry for entry in table if entry.startswith(prefix)]


def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path))
