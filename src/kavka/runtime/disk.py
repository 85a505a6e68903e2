"""LocalFileSystem: the FileSystem port on a POSIX file system.

Decides nothing but how each operation becomes system calls, and that an `OSError` is a `StorageError` with the path it
happened on. It must not know what the files mean.

Invariants
  I1  `append` writes all of its bytes or raises; a part that the kernel took before the error stays in the file.
  I2  A descriptor is closed exactly once, at `close` or when the last reference to its file goes.
  I3  A missing file is FileNotFoundError, every other failure a `StorageError`; so is a missing directory for a file
      that is to be made, for then somebody took a log directory away, and a link to a file that is not there.

Source: POSIX (openat, writev, fdatasync, rename), KAFKA-16541 (sync before rename, then the directory).
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence

from kavka.errors import DiskFull, LinkLeadsNowhere, LogDirectoryLocked, StorageError
from kavka.filesystem import Buffer

_MAX_VECTORS = 1024
"""IOV_MAX on Linux: more buffers than this in one writev are an error."""
_FILE_MODE = 0o644
_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of Linux: the file's size stays, so that appends go to the end of what was written."""
_NOT_RESERVED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EOPNOTSUPP, errno.ENOSYS)


class LocalFile:
    """An open file; see `kavka.filesystem.File`. Appends go to its end because it is opened with O_APPEND."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise _storage_error(self.path, error) from error

    def read_at(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, position)
            if len(data) == length or not data:
                return data
            return data + self._read_rest(position + len(data), length - len(data))
        except OSError as error:
            raise _storage_error(self.path, error) from error

    def _read_rest(self, position: int, length: int) -> bytes:
        parts = []
        while length:
            part = os.pread(self._descriptor, length, position)
            if not part:
                break
            parts.append(part)
            position += len(part)
            length -= len(part)
        return b"".join(parts)

    def append(self, data: Buffer) -> None:
        try:
            written = os.write(self._descriptor, data)
            if written != len(data):
                self._append_rest(data, written)
        except OSError as error:
            raise _storage_error(self.path, error) from error

    def _append_rest(self, data: Buffer, written: int) -> None:
        view = memoryview(data)
        while written < len(view):
            written += os.write(self._descriptor, view[written:])

    def append_many(self, parts: Sequence[Buffer]) -> None:
        try:
            for start in range(0, len(parts), _MAX_VECTORS):
                some = parts[start : start + _MAX_VECTORS]
                written = os.writev(self._descriptor, some)
                for part in some:
                    if written < len(part):
                        self._append_rest(part, max(written, 0))
                    written -= len(part)
        except OSError as error:
            raise _storage_error(self.path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _storage_error(self.path, error) from error

    def preallocate(self, size: int) -> bool:
        failure = _fallocate(self._descriptor, size)
        if failure and failure not in _NOT_RESERVED:
            raise StorageError(self.path, os.strerror(failure))
        return not failure

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise _storage_error(self.path, error) from error

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                os.close(descriptor)
            except OSError as error:
                raise _storage_error(self.path, error) from error

    def __del__(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            # Nobody is left who could hear of a failure; what matters was synced before.
            try:
                os.close(descriptor)
            except OSError:
                pass


class LocalFileSystem:
    """The disk of this machine; see `kavka.filesystem.FileSystem`."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND)
        if create:
            flags |= os.O_CREAT
        try:
            return LocalFile(path, os.open(path, flags, _FILE_MODE))
        except FileNotFoundError as error:
            if create:
                raise _storage_error(path, error) from error
            _refuse_broken_link(path)
            raise
        except OSError as error:
            raise _storage_error(path, error) from error

    def read(self, path: str) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                size = os.fstat(descriptor).st_size
                data = os.read(descriptor, size + 1)
                if len(data) == size:
                    return data
                parts = [data]
                while part := os.read(descriptor, 1 << 16):
                    parts.append(part)
                return b"".join(parts)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            _refuse_broken_link(path)
            raise
        except OSError as error:
            raise _storage_error(path, error) from error

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        beside = path + ".tmp"
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
            try:
                view = memoryview(data)
                written = os.write(descriptor, view)
                while written < len(view):
                    written += os.write(descriptor, view[written:])
                if durable:
                    os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(beside, path)
            if durable:
                self.sync_directory(os.path.dirname(path) or ".")
        except OSError as error:
            raise _storage_error(path, error) from error

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(path, error) from error

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        modified_ns = modified_ms * 1_000_000
        try:
            os.utime(path, ns=(modified_ns, modified_ns))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(path, error) from error

    def list_files(self, path: str) -> list[str]:
        return self._list(path, lambda entry: not entry.is_dir())

    def list_directories(self, path: str) -> list[str]:
        return self._list(path, lambda entry: entry.is_dir() or _leads_nowhere(entry))

    @staticmethod
    def _list(path: str, is_wanted: Callable[[os.DirEntry[str]], bool]) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if is_wanted(entry))
        except FileNotFoundError:
            _refuse_broken_link(path)
            raise
        except OSError as error:
            raise _storage_error(path, error) from error

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                _refuse_broken_link(path)
                raise StorageError(path, "is in the way and no directory") from None
        except FileNotFoundError:
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                raise _storage_error(path, error) from error
        except OSError as error:
            raise _storage_error(path, error) from error

    def make_new_directory(self, path: str) -> bool:
        try:
            os.mkdir(path)
        except FileExistsError:
            return False
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(path, error) from error
        return True

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(path, error) from error

    def remove_directory(self, path: str) -> None:
        try:
            if not os.path.islink(path):
                shutil.rmtree(path)
                return
            if os.path.isdir(path):
                for entry in list(os.scandir(path)):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path)
                    else:
                        os.unlink(entry.path)
            os.unlink(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(path, error) from error

    def rename(self, source: str, target: str) -> None:
        try:
            os.rename(source, target)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(source, error) from error

    def sync_directory(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(path, error) from error

    def space(self, path: str) -> tuple[int, int]:
        try:
            volume = os.statvfs(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(path, error) from error
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def lock(self, path: str) -> LocalFile:
        file = self.open(path, create=True)
        try:
            # A POSIX record lock over the whole file is what Java's FileChannel.tryLock takes, so that Apache Kafka
            # and kavka keep each other out. It belongs to the process: flock, on top, keeps two brokers of one process
            # apart.
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise LogDirectoryLocked(path, "another broker uses this directory") from None
        except OSError as error:
            file.close()
            raise _storage_error(path, error) from error
        return file


def _fallocate(descriptor: int, size: int) -> int:
    """What the system's call answers: 0 or an errno. Python's own, posix_fallocate, would make the file larger."""
    import ctypes  # late: few brokers preallocate, and it takes milliseconds

    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if call is None:
        return errno.ENOSYS
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return ctypes.get_errno() if call(descriptor, _KEEP_SIZE, 0, size) else 0


def _refuse_broken_link(path: str) -> None:
    """What has its name here is not missing: what the link led to may be on a disk that is not mounted."""
    if os.path.islink(path):
        raise LinkLeadsNowhere(path, f"is a link to {os.readlink(path)}, which is not there")


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not os.path.exists(entry.path)


def _storage_error(path: str, error: OSError) -> StorageError:
    kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
    return kind(path, error.strerror or str(error))
