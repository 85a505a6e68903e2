"""A disk that notes what is asked of it: what is read, made durable, replaced, renamed and removed, in this order."""

from __future__ import annotations

import os

from kavka.filesystem import Buffer
from kavka.runtime.disk import LocalFile, LocalFileSystem


class NotingFileSystem(LocalFileSystem):
    """`notes`: ("read", name), ("sync", name), ("sync names", name of the directory), ("replace", name) and
    ("replace durably", name), ("rename", new name), ("remove", name), ("cut", name)."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def note(self, what: str, path: str) -> None:
        self.notes.append((what, os.path.basename(path)))

    def take(self, *kinds: str) -> list[str]:
        """The names that were noted for these since the last call; all notes are forgotten."""
        names = [name for what, name in self.notes if what in kinds]
        self.notes.clear()
        return names

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        return NotingFile(self, super().open(path, create=create, read_only=read_only))

    def read(self, path: str) -> bytes:
        self.note("read", path)
        return super().read(path)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        self.note("replace durably" if durable else "replace", path)
        super().write_atomically(path, data, durable=durable)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.note("rename", target)

    def remove(self, path: str) -> None:
        super().remove(path)
        self.note("remove", path)

    def sync_directory(self, path: str) -> None:
        self.note("sync names", path)
        super().sync_directory(path)


class NotingFile(LocalFile):
    __slots__ = ("__weakref__", "_disk")

    def __init__(self, disk: NotingFileSystem, file: LocalFile) -> None:
        super().__init__(file.path, file._descriptor)
        file._descriptor = -1
        self._disk = disk

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.note("read", self.path)
        return super().read_at(position, length)

    def sync(self) -> None:
        self._disk.note("sync", self.path)
        super().sync()

    def truncate(self, size: int) -> None:
        self._disk.note("cut", self.path)
        super().truncate(size)
