"""Disk: the FileSystem port on this machine's disk, for a broker that can be stopped, killed and slowed down.

It checks the broker's Life before each access. What was written before a kill -9 is there after it, as the page cache
keeps what a killed process wrote. Use the simulator to test power cuts, which lose more.

I1  Files are closed when the life has ended and no thread of it runs any more, never before: another broker of this
    process could be given the descriptor that a worker is about to use.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from kavka.filesystem import Buffer, File, FileSystem
from kavka.testing.life import Life


class Disk:
    """See `kavka.filesystem.FileSystem`."""

    def __init__(self, life: Life, inner: FileSystem) -> None:
        self._life = life
        self._inner = inner
        self._open: weakref.WeakSet[OpenFile] = weakref.WeakSet()

    def close_all(self) -> None:
        """Closes every file, as the kernel does when a process has ended (I1)."""
        for file in list(self._open):
            file.close()

    def _opened(self, file: File) -> OpenFile:
        opened = OpenFile(self._life, file)
        self._open.add(opened)
        return opened

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> OpenFile:
        self._life.use_disk()
        return self._opened(self._inner.open(path, create=create, read_only=read_only))

    def read(self, path: str) -> bytes:
        self._life.use_disk()
        return self._inner.read(path)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        (self._life.sync_disk if durable else self._life.use_disk)()
        self._inner.write_atomically(path, data, durable=durable)

    def exists(self, path: str) -> bool:
        self._life.require()
        return self._inner.exists(path)

    def modified_ms(self, path: str) -> int:
        self._life.require()
        return self._inner.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._life.use_disk()
        self._inner.set_modified_ms(path, modified_ms)

    def list_files(self, path: str) -> list[str]:
        self._life.require()
        return self._inner.list_files(path)

    def list_directories(self, path: str) -> list[str]:
        self._life.require()
        return self._inner.list_directories(path)

    def make_directory(self, path: str) -> None:
        self._life.use_disk()
        self._inner.make_directory(path)

    def make_new_directory(self, path: str) -> bool:
        self._life.use_disk()
        return self._inner.make_new_directory(path)

    def remove(self, path: str) -> None:
        self._life.use_disk()
        self._inner.remove(path)

    def remove_directory(self, path: str) -> None:
        self._life.use_disk()
        self._inner.remove_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._life.use_disk()
        self._inner.rename(source, target)

    def sync_directory(self, path: str) -> None:
        self._life.sync_disk()
        self._inner.sync_directory(path)

    def space(self, path: str) -> tuple[int, int]:
        self._life.require()
        return self._inner.space(path)

    def lock(self, path: str) -> OpenFile:
        self._life.use_disk()
        return self._opened(self._inner.lock(path))


class OpenFile:
    """See `kavka.filesystem.File`."""

    __slots__ = ("__weakref__", "_inner", "_life", "path")

    def __init__(self, life: Life, inner: File) -> None:
        self.path = inner.path
        self._life = life
        self._inner = inner

    def fileno(self) -> int:
        return self._inner.fileno()

    def size(self) -> int:
        self._life.require()
        return self._inner.size()

    def read_at(self, position: int, length: int) -> bytes:
        self._life.use_disk()
        return self._inner.read_at(position, length)

    def append(self, data: Buffer) -> None:
        self._life.use_disk()
        self._inner.append(data)

    def append_many(self, parts: Sequence[Buffer]) -> None:
        self._life.use_disk()
        self._inner.append_many(parts)

    def truncate(self, size: int) -> None:
        self._life.use_disk()
        self._inner.truncate(size)

    def preallocate(self, size: int) -> bool:
        self._life.use_disk()
        return self._inner.preallocate(size)

    def sync(self) -> None:
        self._life.sync_disk()
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()
