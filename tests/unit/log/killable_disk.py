"""A disk whose user dies at a given change of it."""

from __future__ import annotations

from kavka.filesystem import Buffer
from kavka.runtime.disk import LocalFile, LocalFileSystem


class Killed(BaseException):
    """The process ended here."""


class KillableFileSystem(LocalFileSystem):
    """Dies at the `fatal`-th change of the disk, before it is made."""

    def __init__(self) -> None:
        self.fatal = -1
        self.changes = 0

    def change(self) -> None:
        if self.changes == self.fatal:
            raise Killed
        self.changes += 1

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        if create and not self.exists(path):
            self.change()
        return KillableFile(self, super().open(path, create=create, read_only=read_only))

    def rename(self, source: str, target: str) -> None:
        self.change()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.change()
        super().remove(path)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        self.change()
        super().write_atomically(path, data, durable=durable)


class KillableFile(LocalFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: KillableFileSystem, file: LocalFile) -> None:
        super().__init__(file.path, file._descriptor)
        file._descriptor = -1
        self._disk = disk

    def append(self, data: Buffer) -> None:
        self._disk.change()
        super().append(data)

    def truncate(self, size: int) -> None:
        self._disk.change()
        super().truncate(size)
