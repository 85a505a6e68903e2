"""What a start makes of what lies in its log directories, and how logs are flushed at the end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import structlog

from kavka.errors import StorageError
from kavka.log.decide.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kavka.log.home_loader import LoadReport
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogDirectoryInfo, LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from tests.unit.log.log_support import NOW_MS, append, batch, offsets
from tests.unit.log.test_log_directories import Disk

TOPIC_ID = uuid.UUID(int=7)
ORDERS = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=100, file_delete_delay_ms=1_000, retention_ms=1_000)


class Jobs:
    """Runs jobs one by one, and notes how many were given at a time."""

    def __init__(self) -> None:
        self.given: list[tuple[int, int]] = []
        self.before: Callable[[], None] = lambda: None

    def __call__(self, jobs: Sequence[Callable[[], None]], at_a_time: int) -> None:
        if jobs:
            self.before()
            self.given.append((len(jobs), at_a_time))
        for job in jobs:
            job()


def manager(disk: Disk, jobs: Jobs, threads: int, *directories: Path) -> LogManager:
    return LogManager(
        disk,
        [str(path) for path in directories],
        LogManagerSettings(1, "c", recovery_threads=threads),
        lambda topic: CONFIG,
        run_all=jobs,
    )


def started(*directories: Path, disk: Disk | None = None, jobs: Jobs | None = None, threads: int = 1) -> LogManager:
    logs = manager(disk or Disk(), jobs or Jobs(), threads, *directories)
    logs.load(NOW_MS)
    return logs


def filled(logs: LogManager, *counts: int, directory: Path | None = None) -> None:
    """Logs of so many batches, a segment each, behind those that are there."""
    for number, count in enumerate(counts, len(logs)):
        where = None if directory is None else str(directory)
        log = logs.get_or_create(TopicPartition("orders", number), TOPIC_ID, NOW_MS, directory=where)
        append(log, *(batch([b"x" * 30]) for _ in range(count)))


# -- starts


def test_what_nobody_says_is_not_so(tmp_path: Path) -> None:
    assert not LoadReport(0, 0, [], {}, {}).was_clean
    assert not LogDirectoryInfo("/a", None, 0, 0, []).is_cordoned
    assert LogManagerSettings().recovery_threads == 1
    logs = LogManager(Disk(), [str(tmp_path)], LogManagerSettings(1, "c"), lambda topic: CONFIG)
    assert not logs.load(NOW_MS).was_clean
    assert (logs.recovery_threads, logs.producer_id_expiration_ms) == (1, 86_400_000)
    assert [info.is_cordoned for info in logs.describe()] == [False]


def test_names_are_made_of_zeros_where_nothing_is_drawn(tmp_path: Path) -> None:
    """As in a simulation that wants no chance."""
    logs = started(tmp_path)
    filled(logs, 1)
    logs.delete(ORDERS, NOW_MS)
    assert logs.take_removals(NOW_MS + 1_000) == [f"{tmp_path}/orders-0.{'0' * 32}-delete"]


def test_the_mark_of_a_clean_stop_is_gone_for_good_before_a_log_is_read(tmp_path: Path) -> None:
    logs = started(tmp_path)
    filled(logs, 2)
    logs.close(NOW_MS)
    disk = Disk()
    started(tmp_path, disk=disk)
    removed = disk.done.index(("remove", f"{tmp_path}/.kafka_cleanshutdown"))
    read = disk.done.index(("files", f"{tmp_path}/orders-0"))
    assert ("sync directory", str(tmp_path)) in disk.done[removed:read]


def test_without_a_recovery_point_a_log_is_recovered_from_its_first_record_on(tmp_path: Path) -> None:
    logs = started(tmp_path)
    filled(logs, 4)
    logs.release()
    first = tmp_path / "orders-0" / f"{0:020d}.log"
    data = bytearray(first.read_bytes())
    data[-3] ^= 0xFF
    first.write_bytes(data)
    (tmp_path / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
    logs = manager(Disk(), Jobs(), 1, tmp_path)
    report = logs.load(NOW_MS)
    log = logs.get(ORDERS)
    assert log is not None
    assert (offsets(log), log.log_end_offset) == ([], 0)
    assert min(reason.offset for _, reason in report.reasons if reason.offset >= 0) == 0
    assert not report.was_clean


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_directory_found_after_an_unclean_stop_is_not_durable_before_its_parent_is_synced(
    tmp_path: Path, is_clean: bool
) -> None:
    logs = started(tmp_path)
    filled(logs, 2)
    if is_clean:
        logs.close(NOW_MS)
    else:
        logs.release()
    disk = Disk()
    logs = started(tmp_path, disk=disk)
    log = logs.get(ORDERS)
    assert log is not None
    append(log, batch())
    disk.done.clear()
    log.flush(NOW_MS)
    assert (("sync directory", str(tmp_path)) in disk.done) is not is_clean


def test_a_new_directory_is_not_durable_before_its_parent_is_synced(tmp_path: Path) -> None:
    disk = Disk()
    logs = started(tmp_path, disk=disk)
    filled(logs, 1)
    disk.done.clear()
    log = logs.get(ORDERS)
    assert log is not None
    log.flush(NOW_MS)
    assert ("sync directory", str(tmp_path)) in disk.done


def test_a_log_goes_on_being_compacted_where_the_checkpoint_says(tmp_path: Path) -> None:
    logs = started(tmp_path)
    filled(logs, 3, 3)
    logs.close(NOW_MS)
    (tmp_path / CLEANER_OFFSET_CHECKPOINT).write_text("0\n1\norders 0 2\n")
    logs = started(tmp_path)
    assert [log.cleaned_to for log in logs] == [2, None]


@pytest.mark.parametrize("text", ["version: 7\n", ""])
def test_a_topic_id_that_cannot_be_read_is_told_and_no_sign_of_an_unclean_stop(tmp_path: Path, text: str) -> None:
    logs = started(tmp_path)
    filled(logs, 2)
    logs.close(NOW_MS)
    path = tmp_path / "orders-0" / "partition.metadata"
    path.write_text(text)
    logs = manager(Disk(), Jobs(), 1, tmp_path)
    with structlog.testing.capture_logs() as lines:
        report = logs.load(NOW_MS)
    (line,) = [line for line in lines if line["event"] == "topic id unknown"]
    assert (line["log_level"], line["path"]) == ("warning", str(path))
    assert line["why"].startswith("expected version 0 and a topic id")
    ((partition, reason),) = report.reasons
    assert (partition, reason.what, reason.path, reason.why) == (ORDERS, "topic id unknown", str(path), line["why"])
    assert report.was_clean, "no record is gone"


def test_a_mark_that_vouches_for_more_than_there_is_is_not_believed(tmp_path: Path) -> None:
    logs = started(tmp_path)
    filled(logs, 1)
    logs.close(NOW_MS)
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    report = manager(Disk(), Jobs(), 1, tmp_path).load(NOW_MS)
    assert 0 in [reason.offset for _, reason in report.reasons]
    assert not report.was_clean


def test_a_stop_was_not_clean_where_a_log_begins_behind_all_that_is_there(tmp_path: Path) -> None:
    """The mark is believed, and yet the first segment, at 0, is of no use."""
    logs = started(tmp_path)
    filled(logs, 1)
    logs.close(NOW_MS)
    (tmp_path / LOG_START_OFFSET_CHECKPOINT).write_text("0\n1\norders 0 5\n")
    logs = manager(Disk(), Jobs(), 1, tmp_path)
    report = logs.load(NOW_MS)
    assert [(reason.what, reason.offset) for _, reason in report.reasons] == [("segment dropped", 0)]
    assert not report.was_clean
    log = logs.get(ORDERS)
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


@pytest.mark.parametrize(
    ("threads", "unclean", "expected"),
    [(1, 1, [(3, 1)]), (2, 1, [(3, 2)]), (1, 2, [(6, 2)]), (3, 2, [(6, 6)]), (4, 0, [])],
)
def test_logs_are_read_beside_each_other_where_they_are_recovered(
    tmp_path: Path, threads: int, unclean: int, expected: list[tuple[int, int]]
) -> None:
    paths = tmp_path / "a", tmp_path / "b"
    for number, path in enumerate(paths):
        logs = started(path)
        for partition in range(3):
            append(logs.get_or_create(TopicPartition("abc"[number], partition), TOPIC_ID, NOW_MS), batch(2))
        logs.close(NOW_MS)
        if number < unclean:
            (path / ".kafka_cleanshutdown").unlink()
    jobs = Jobs()
    logs = started(*paths, jobs=jobs, threads=threads)
    assert jobs.given == expected
    assert [log.log_end_offset for log in logs] == [2] * 6


# -- periodic work


def test_a_disk_that_fails_in_retention_keeps_no_other_log_from_it(tmp_path: Path) -> None:
    paths = tmp_path / "a", tmp_path / "b"
    disk = Disk()
    logs = started(*paths, disk=disk)
    filled(logs, 3, directory=paths[0])
    filled(logs, 3, directory=paths[1])
    disk.fails = lambda asked, path: asked == "rename" and path.startswith(str(paths[0]))
    deleted = logs.delete_old_segments(NOW_MS + 10_000)
    assert [partition for partition, _ in deleted] == [TopicPartition("orders", 1)]
    assert list(logs.offline_directories) == [str(paths[0])]
    assert [log.topic_partition for log in logs] == [TopicPartition("orders", 1)]


def test_a_log_that_is_set_aside_is_told(tmp_path: Path) -> None:
    logs = started(tmp_path)
    filled(logs, 1)
    with structlog.testing.capture_logs() as lines:
        path = logs.set_aside(ORDERS)
    assert Path(path).parent == tmp_path
    (line,) = [line for line in lines if line["event"] == "log set aside"]
    assert (line["partition"], line["path"]) == ("orders-0", path)
    assert logs.get(ORDERS) is None


# -- stops


@pytest.mark.parametrize(
    ("threads", "directories", "expected"),
    [
        (1, 1, []),
        (2, 1, [(2, 2), (2, 2), (1, 2)]),
        (4, 1, [(4, 4), (1, 4)]),
        (9, 1, [(5, 9)]),
        (1, 2, [(2, 2), (2, 2), (1, 2)]),
        (2, 2, [(4, 4), (1, 4)]),
    ],
)
def test_what_is_not_durable_is_flushed_beside_each_other_at_the_end(
    tmp_path: Path, threads: int, directories: int, expected: list[tuple[int, int]]
) -> None:
    paths = [tmp_path / name for name in "ab"][:directories]
    jobs = Jobs()
    logs = started(*paths, jobs=jobs, threads=threads)
    filled(logs, 1, 1, 2, 1, 1, 1)
    every = list(logs)
    every[1].flush(NOW_MS)
    done: list[int] = []
    jobs.before = lambda: done.append(sum(log.recovery_point == log.log_end_offset for log in every))
    jobs.given.clear()
    logs.close(NOW_MS)
    assert jobs.given == expected
    assert done == [1 + sum(count for count, _ in expected[:number]) for number in range(len(expected))]
    assert all(log.recovery_point == log.log_end_offset for log in every)
    assert all((path / ".kafka_cleanshutdown").exists() for path in paths)


def test_a_log_that_cannot_be_written_at_the_end_keeps_no_other_from_being_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = tmp_path / "a", tmp_path / "b"
    jobs, disk = Jobs(), Disk()
    logs = started(*paths, jobs=jobs, disk=disk, threads=2)
    filled(logs, 1, directory=paths[0])
    filled(logs, 1, 1, directory=paths[1])
    first, *others = list(logs)
    failure = StorageError(first.directory, "input/output error")

    write_all = UnifiedLog.write_all

    def fail(log: UnifiedLog) -> None:
        if log is first:
            log.failure = failure
            raise failure
        write_all(log)

    monkeypatch.setattr(UnifiedLog, "write_all", fail)
    jobs.given.clear()
    logs.close(NOW_MS)
    assert jobs.given == [(2, 4)]
    assert all(log.recovery_point == 1 for log in others)
    assert [(path / ".kafka_cleanshutdown").exists() for path in paths] == [False, True]


def test_a_start_that_did_not_come_to_its_end_leaves_no_mark(tmp_path: Path) -> None:
    """The mark would vouch for logs that nobody has read."""
    logs = started(tmp_path)
    filled(logs, 2)
    logs.release()
    jobs = Jobs()

    def fail() -> None:
        raise RuntimeError("a bug")

    jobs.before = fail
    logs = manager(Disk(), jobs, 1, tmp_path)
    with pytest.raises(RuntimeError):
        logs.load(NOW_MS)
    logs.close(NOW_MS)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert logs.is_released


def test_a_sync_that_fails_beside_others_fails_its_own_log(tmp_path: Path) -> None:
    paths = tmp_path / "a", tmp_path / "b"
    disk, jobs = Disk(), Jobs()
    logs = started(*paths, disk=disk, jobs=jobs, threads=2)
    filled(logs, 1, 1, directory=paths[0])
    filled(logs, 1, 1, directory=paths[1])
    every = list(logs)
    disk.fails = lambda asked, path: asked == "sync directory" and path == str(paths[0])
    jobs.given.clear()
    logs.close(NOW_MS)
    assert jobs.given == [(4, 4)]
    assert [log.failure is None for log in every] == [False, False, True, True]
    assert [log.recovery_point for log in every] == [0, 0, 1, 1]
    assert [(path / ".kafka_cleanshutdown").exists() for path in paths] == [False, True]
