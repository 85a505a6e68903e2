"""A disk in memory that knows what was synced, and fails on demand."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.errors import StorageError
from kavka.filesystem import Buffer


class MemoryFile:
    """A file; its bytes are shared by all who opened it."""

    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self.path = path
        self._disk = disk

    def fileno(self) -> int:
        raise AssertionError("nothing here is sent with sendfile")

    def size(self) -> int:
        return len(self._disk.files[self.path])

    def read_at(self, position: int, length: int) -> bytes:
        return bytes(self._disk.files[self.path][position : position + length])

    def append(self, data: Buffer) -> None:
        self.append_many([data])

    def append_many(self, parts: Sequence[Buffer]) -> None:
        self._disk.on_call("append", self.path)
        self._disk.appends += 1
        self._disk.files[self.path] += b"".join(map(bytes, parts))

    def truncate(self, size: int) -> None:
        del self._disk.files[self.path][size:]

    def preallocate(self, size: int) -> bool:
        return True

    def sync(self) -> None:
        self._disk.on_call("sync", self.path)
        self._disk.synced[self.path] = len(self._disk.files[self.path])

    def close(self) -> None:
        pass


class MemoryDisk:
    """A FileSystem. `fail_on` names the calls ("append", "sync") that raise StorageError."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, bytearray] = {path: bytearray(data) for path, data in (files or {}).items()}
        self.synced: dict[str, int] = {path: len(data) for path, data in self.files.items()}
        self.fail_on: set[str] = set()
        self.appends = 0

    def on_call(self, call: str, path: str) -> None:
        if call in self.fail_on:
            raise StorageError(path, f"{call}: no space left on device")

    def copy(self) -> MemoryDisk:
        """What a kill of the process leaves."""
        return MemoryDisk({path: bytes(data) for path, data in self.files.items()})

    def after_power_cut(self) -> MemoryDisk:
        """What is left at least after a power cut."""
        return MemoryDisk({path: bytes(data[: self.synced.get(path, 0)]) for path, data in self.files.items()})

    def names(self) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self.files)

    # ------------------------------------------------------------------------------------------- FileSystem port

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        if path not in self.files:
            if not create:
                raise FileNotFoundError(path)
            self.files[path] = bytearray()
        return MemoryFile(self, path)

    def read(self, path: str) -> bytes:
        return bytes(self.files[path])

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        self.on_call("write_atomically", path)
        self.files[path] = bytearray(data)
        self.synced[path] = len(self.files[path])

    def exists(self, path: str) -> bool:
        return path in self.files

    def modified_ms(self, path: str) -> int:
        """It has no clock, and a database asks for none."""
        raise NotImplementedError

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        raise NotImplementedError

    def list_files(self, path: str) -> list[str]:
        return sorted(name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/"))

    def list_directories(self, path: str) -> list[str]:
        """It has files only."""
        return []

    def make_directory(self, path: str) -> None:
        pass

    def make_new_directory(self, path: str) -> bool:
        """A database makes no directory that must be new."""
        raise NotImplementedError

    def remove(self, path: str) -> None:
        del self.files[path]

    def remove_directory(self, path: str) -> None:
        for name in self.list_files(path):
            del self.files[f"{path}/{name}"]

    def rename(self, source: str, target: str) -> None:
        self.files[target] = self.files.pop(source)

    def sync_directory(self, path: str) -> None:
        self.on_call("sync", path)

    def space(self, path: str) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def lock(self, path: str) -> MemoryFile:
        return self.open(path, create=True)
