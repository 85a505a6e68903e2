"""num.recovery.threads.per.data.dir: logs are recovered, and flushed at the end, several at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kavka.errors import StorageError
from kavka.log.decide.directory_names import parse_directory_name
from kavka.log.home_loader import LoadReport
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import TopicPartition
from kavka.runtime.disk import LocalFile
from kavka.runtime.server import run_all
from tests.unit.log.log_support import NOW_MS, FailingFile, FailingFileSystem, append, batch, offsets

PARTITIONS = [TopicPartition("orders", number) for number in range(8)]


class Crowd:
    """Counts who is inside at a time; each waits until `expected` have been, so that nobody is alone by chance."""

    def __init__(self, expected: int) -> None:
        self.most = 0
        self._expected = expected
        self._inside = 0
        self._changed = threading.Condition()

    def pass_through(self) -> None:
        with self._changed:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._expected, timeout=20)
            self._inside -= 1


class CrowdedDisk(FailingFileSystem):
    """A disk that knows how many logs are read, and how many files are synced, at a time."""

    def __init__(self, expected: int) -> None:
        super().__init__()
        self.loading = Crowd(expected)
        self.syncing = Crowd(expected)
        self.unreadable = ""

    def list_files(self, path: str) -> list[str]:
        name = path.rpartition("/")[2]
        if parse_directory_name(name) is not None:
            self.loading.pass_through()
            if name == self.unreadable:
                raise StorageError(path, "input/output error")
        return super().list_files(path)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        return CrowdedFile(self, super().open(path, create=create, read_only=read_only))


class CrowdedFile(FailingFile):
    __slots__ = ("_crowded",)

    def __init__(self, disk: CrowdedDisk, file: LocalFile) -> None:
        super().__init__(disk, file)
        self._crowded = disk

    def sync(self) -> None:
        if self.path.endswith(".log"):
            self._crowded.syncing.pass_through()
        super().sync()


def started(disk: CrowdedDisk, threads: int, *directories: Path) -> tuple[LogManager, LoadReport]:
    logs = LogManager(
        disk,
        [str(directory) for directory in directories],
        LogManagerSettings(1, "c", recovery_threads=threads),
        lambda topic: LogConfig(segment_bytes=400),
        run_all=run_all,
    )
    return logs, logs.load(NOW_MS)


def filled(*directories: Path) -> None:
    """Eight logs of several segments each, and no clean stop."""
    logs, _ = started(CrowdedDisk(1), 1, *directories)
    for partition in PARTITIONS:
        log = logs.get_or_create(partition, None, NOW_MS)
        for _ in range(20 + partition.partition):
            append(log, batch([b"x" * 50]))
    logs.release()


@pytest.mark.setting("num.recovery.threads.per.data.dir")
@pytest.mark.parametrize(("threads", "directories", "at_a_time"), [(1, 1, 1), (3, 1, 3), (1, 2, 2), (2, 2, 4)])
def test_so_many_logs_of_each_directory_are_recovered_and_flushed_at_a_time(
    tmp_path: Path, threads: int, directories: int, at_a_time: int
) -> None:
    paths = [tmp_path / str(number) for number in range(directories)]
    filled(*paths)
    disk = CrowdedDisk(at_a_time)
    logs, report = started(disk, threads, *paths)
    assert disk.loading.most == at_a_time
    assert report.recovered == len(PARTITIONS)
    for log in logs:
        log.advance_high_watermark(log.log_end_offset)
        assert offsets(log) == list(range(20 + log.topic_partition.partition))
        append(log, batch())
    logs.close(NOW_MS)
    assert disk.syncing.most == at_a_time
    _, report = started(CrowdedDisk(1), threads, *paths)
    assert (report.recovered, report.loaded, report.was_clean) == (0, len(PARTITIONS), True)


def test_a_log_that_cannot_be_read_takes_its_directory_offline_and_no_other(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    filled(*paths)
    disk = CrowdedDisk(1)
    disk.unreadable = "orders-0"
    (home,) = [path for path in paths if (path / "orders-0").exists()]
    logs, report = started(disk, 4, *paths)
    assert list(report.offline) == [str(home)]
    assert report.recovered == 4
    assert len(logs) == 4


def test_a_sync_that_fails_at_the_end_leaves_its_directory_without_a_clean_mark(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    disk = CrowdedDisk(1)
    logs, _ = started(disk, 2, *paths)
    for partition in PARTITIONS:
        append(logs.get_or_create(partition, None, NOW_MS), batch())
    disk.fail_syncs = True
    logs.close(NOW_MS)
    assert not [path for path in paths if (path / ".kafka_cleanshutdown").exists()]


def test_files_that_may_be_open_are_bounded_with_threads_too(tmp_path: Path) -> None:
    filled(tmp_path)
    logs = LogManager(
        CrowdedDisk(1),
        [str(tmp_path)],
        LogManagerSettings(1, "c", recovery_threads=4, max_open_segments=10),
        lambda topic: LogConfig(segment_bytes=400),
        run_all=run_all,
    )
    logs.load(NOW_MS)
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if os.path.lexists(link)]
    assert 0 < sum(path.startswith(str(tmp_path)) and path.endswith(".log") for path in opened) <= 10
