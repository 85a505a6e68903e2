"""The FileSystem port: everything that a broker asks of a disk.

Rooms that keep data (log, zookeeper) are given a `FileSystem`; they never call `os` themselves. In production it is
`runtime.disk.LocalFileSystem`, in the simulator a disk in memory that can lose, tear and refuse writes.

Durability, which every user of the port must assume: bytes written are durable only after `File.sync`; a created,
renamed or removed name is durable only after `sync_directory` of its parent. Every method may raise `StorageError`
(from an OSError: full disk, input/output error, no permission); after one on `append` or `sync` the file's content is
unknown and its log directory must go offline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. It closes when the last reference is gone, so readers may outlive a removal of its name."""

    path: str

    def fileno(self) -> int:
        """The descriptor, for sendfile; only the network room may use it."""
        ...

    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def append(self, data: Buffer) -> None:
        """Writes all of `data` at the end of the file, in a loop where the kernel takes only a part."""
        ...

    def append_many(self, parts: Sequence[Buffer]) -> None:
        """Writes the parts one behind another at the end of the file, with as few system calls as there can be."""
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes; the next append goes there."""
        ...

    def preallocate(self, size: int) -> bool:
        """Reserves room on the disk for the first `size` bytes; `size()` and what is read stay as they are, and a
        `truncate` gives back what is beyond it. False where the disk has not so much room, or cannot reserve any."""
        ...

    def sync(self) -> None:
        """Returns when all that was written is durable. Blocks: call it on a worker thread."""
        ...

    def close(self) -> None: ...


class FileSystem(Protocol):
    """A disk. Paths are absolute or relative strings with '/'; a missing file raises FileNotFoundError."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File: ...

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        ...

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        """Replaces `path` whole or not at all: written beside it, synced if `durable`, then renamed."""
        ...

    def exists(self, path: str) -> bool: ...

    def modified_ms(self, path: str) -> int:
        """When the file's content was last changed, by the wall clock. A power cut may bring back an earlier time."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Has the file's content be as old as another's that it was made of."""
        ...

    def list_files(self, path: str) -> list[str]:
        """Names of the files in the directory, sorted: of all that is no directory, and leads to none."""
        ...

    def list_directories(self, path: str) -> list[str]:
        """Names of the directories in the directory, sorted; with links to directories, and links that lead nowhere.

        What these led to may be a disk that is not mounted, and is not to be passed over."""
        ...

    def make_directory(self, path: str) -> None:
        """Makes the directory and its parents; nothing happens if it is there."""
        ...

    def make_new_directory(self, path: str) -> bool:
        """Makes the directory; False if something of this name is there. Raises FileNotFoundError if its parent is
        gone."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Removes the directory with all that is in it. Of a link, what it leads to is emptied, and the link goes."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Renames a file or directory; a file at `target` is replaced."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that `path` is on."""
        ...

    def lock(self, path: str) -> File:
        """Holds an exclusive lock until the returned file is closed or the process ends.

        Raises `LogDirectoryLocked` where another process holds it.
        """
        ...


def make_durable_directory(filesystem: FileSystem, path: str) -> None:
    """Makes a directory to keep things in, and those above it, if they are not there. Blocks. Raises `StorageError`.

    A power cut that took it away again would take everything with it that is durable in it.
    """
    made = []
    missing = path.rstrip("/")
    while missing and not filesystem.exists(missing):
        made.append(missing)
        missing = missing.rpartition("/")[0]
    filesystem.make_directory(path)
    for directory in reversed(made):
        parent = directory.rpartition("/")[0]
        filesystem.sync_directory(parent or ("/" if directory.startswith("/") else "."))
