"""A log that has moved has nothing more to do with the disk that it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.errors import StorageError
from kavka.log.decide.checkpoint import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kavka.runtime.disk import LocalFile, LocalFileSystem
from tests.unit.log.log_support import NOW_MS, append, batch, records, write_checkpoints
from tests.unit.log.test_log_moves import Disks


class OneFailing(LocalFileSystem):
    """Nothing can be written, renamed or synced below the directory `failing`."""

    failing = "nowhere"

    def check(self, path: str) -> None:
        if path == self.failing or path.startswith(f"{self.failing}/"):
            raise StorageError(path, "input/output error")

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        self.check(path)
        return super().open(path, create=create, read_only=read_only)

    def remove(self, path: str) -> None:
        self.check(path)
        super().remove(path)

    def rename(self, source: str, target: str) -> None:
        self.check(source)
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self.check(path)
        super().sync_directory(path)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_log_that_has_moved_is_flushed_where_it_is_when_the_disk_that_it_came_from_fails(
    tmp_path: Path, is_new: bool
) -> None:
    """Its directory there was not durable by name: it was new, or was found after a kill, and no flush came."""
    disk = OneFailing()
    disks = Disks(tmp_path, disk)
    disks.fill()
    if not is_new:
        disks.logs.release()
        disks.open()
    disks.move(disks.second)
    disk.failing = disks.first
    disks.logs.on_storage_error(disks.first, StorageError(disks.first, "input/output error"))
    log = disks.log
    assert disks.logs.get(log.topic_partition) is log
    append(log, batch([b"acknowledged"]))
    log.flush(NOW_MS)
    assert log.failure is None
    assert log.recovery_point == log.log_end_offset
    log.roll(NOW_MS)
    append(log, batch([b"in another segment"]))
    disks.logs.truncate_to(log.topic_partition, log.log_end_offset - 1, NOW_MS)
    write_checkpoints(disks.logs, RECOVERY_POINT_CHECKPOINT)
    write_checkpoints(disks.logs, HIGH_WATERMARK_CHECKPOINT)
    log.delete_records(log.segments[1].base_offset)
    log.delete_old_segments(NOW_MS)
    before = records(log)
    disks.logs.close(NOW_MS)
    assert list(disks.logs.offline_directories) == [disks.first]
    assert (Path(disks.second) / ".kafka_cleanshutdown").exists()
    assert [record.value for record in before][-1] == b"acknowledged"
