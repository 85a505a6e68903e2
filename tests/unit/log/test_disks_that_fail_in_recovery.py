"""A disk that fails at any one call of a recovery, and works again at the next start: nothing more is lost by it.

The log has all that recovery works on: rolled segments, open, committed and aborted transactions, snapshots, a
compaction that a kill ended half way, segments that were about to be removed, indexes that lie or are missing, and a
torn batch at the end. Each call of its recovery that reads, writes, cuts, renames or removes something fails once,
before or after it has done a part of its work.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import StorageError
from kavka.filesystem import Buffer
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_config import LogConfig
from kavka.log.log_loader import load_log
from kavka.log.unified_log import UnifiedLog
from kavka.records.control import ControlType
from kavka.runtime.disk import LocalFile, LocalFileSystem
from tests.unit.log.log_support import (
    NOW_MS,
    PARTITION,
    _error,
    append,
    batch,
    log_directory,
    marker,
    new_log,
    request,
)

SETTINGS: dict[str, Any] = {"segment_bytes": 700, "index_interval_bytes": 1}


class Disk(LocalFileSystem):
    """Its call number `fails_at` fails; with `in_part` after half of what it writes."""

    def __init__(self, fails_at: int, number: int, *, in_part: bool) -> None:
        self.calls = 0
        self.fails_at, self.number, self.in_part = fails_at, number, in_part
        self.failed = ""

    def call(self, what: str, path: str, half: Callable[[], object] | None = None) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            self.failed = f"{what} {Path(path).name}"
            if self.in_part and half is not None:
                half()
            raise _error(path, self.number)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        self.call("open", path, lambda: super(Disk, self).open(path, create=create, read_only=read_only))
        return DiskFile(self, super().open(path, create=create, read_only=read_only))

    def read(self, path: str) -> bytes:
        self.call("read", path)
        return super().read(path)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        def half() -> None:
            Path(f"{path}.tmp").write_bytes(bytes(data)[: len(data) // 2])

        self.call("write", path, half)
        super().write_atomically(path, data, durable=durable)

    def rename(self, source: str, target: str) -> None:
        self.call("rename", source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.call("remove", path)
        super().remove(path)

    def list_files(self, path: str) -> list[str]:
        self.call("list", path)
        return super().list_files(path)

    def sync_directory(self, path: str) -> None:
        self.call("sync directory", path)
        super().sync_directory(path)


class DiskFile(LocalFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: Disk, file: LocalFile) -> None:
        super().__init__(file.path, file._descriptor)
        file._descriptor = -1
        self._disk = disk

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.call("read", self.path)
        return super().read_at(position, length)

    def append(self, data: Buffer) -> None:
        self._disk.call("append", self.path, lambda: super(DiskFile, self).append(memoryview(data)[: len(data) // 2]))
        super().append(data)

    def truncate(self, size: int) -> None:
        self._disk.call("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._disk.call("sync", self.path)
        super().sync()


def killed_log(path: Path) -> None:
    """What a kill left of a log."""
    log = new_log(path, **SETTINGS)
    for number in range(4):
        append(log, batch(3, producer_id=1, sequence=3 * number), leader_epoch=number // 2)
        append(log, batch(2, producer_id=7, epoch=0, sequence=4 * number, transactional=True), leader_epoch=number // 2)
        append(log, batch([b"k" * 100]), leader_epoch=number // 2)
        append(log, batch(2, producer_id=8, epoch=0, sequence=2 * number, transactional=True), leader_epoch=number // 2)
        kind = ControlType.ABORT if number % 2 else ControlType.COMMIT
        log.append_as_leader(marker(kind, producer_id=7), number // 2, NOW_MS, origin=AppendOrigin.COORDINATOR)
        append(log, batch(2, producer_id=7, epoch=0, sequence=4 * number + 2, transactional=True), leader_epoch=1)
        log.append_as_leader(marker(ControlType.ABORT, producer_id=7), 1, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.write_all()
    names = sorted(path.glob("*.log"))
    assert len(names) >= 4
    shutil.copy(names[1], f"{names[1]}.swap")
    (path / f"{names[2].name}.cleaned").write_bytes(b"half a segment")
    (path / "00000000000000000099.log.deleted").write_bytes(b"gone")
    names[2].with_suffix(".index").write_bytes(b"\xff" * 16)
    names[3].with_suffix(".timeindex").unlink()
    with names[-1].open("ab") as file:
        file.write(bytes(batch(3, base_offset=log.log_end_offset))[:70])


def recovered(path: Path, disk: LocalFileSystem) -> UnifiedLog:
    known = request(LogConfig(**SETTINGS), recovery_point=5, cleaned_to=30)
    return UnifiedLog(PARTITION, load_log(log_directory(path, disk), known), known.config, now_ms=NOW_MS)


def looked_at(log: UnifiedLog) -> object:
    """All that the log says of itself."""
    offset, data = log.log_start_offset, b""
    while offset < log.log_end_offset:
        result = log.read(offset, 1 << 20, max_offset=log.log_end_offset, min_one_batch=True)
        data += b"".join(chunk.tobytes() for chunk in result.chunks)
        offset = result.next_offset
    return (
        (log.log_start_offset, log.log_end_offset, [segment.base_offset for segment in log.segments]),
        data,
        log.epoch_entries,
        [repr(entry) for entry in log.producers.entries()],
        log.producers.first_unstable_offset,
        log.aborted_transactions(0, log.log_end_offset),
        [segment.max_timestamp for segment in log.segments],
    )


@pytest.mark.parametrize("in_part", [False, True], ids=["before it", "half way"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_disk_that_fails_once_in_a_recovery_costs_nothing(tmp_path: Path, number: int, in_part: bool) -> None:
    killed_log(tmp_path / "killed")
    shutil.copytree(tmp_path / "killed", tmp_path / "healthy")
    counting = Disk(0, number, in_part=in_part)
    expected = looked_at(recovered(tmp_path / "healthy", counting))
    assert counting.calls > 60
    for fails_at in range(1, counting.calls + 1):
        path = tmp_path / str(fails_at)
        shutil.copytree(tmp_path / "killed", path)
        disk = Disk(fails_at, number, in_part=in_part)
        try:
            found = looked_at(recovered(path, disk))
        except StorageError:
            found = looked_at(recovered(path, LocalFileSystem()))
        assert found == expected, f"{disk.failed}, call {fails_at}"
        shutil.rmtree(path)
