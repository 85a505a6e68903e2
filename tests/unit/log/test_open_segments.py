"""Files that logs hold open: none when a directory is given up, and no more than a bound while logs are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from kavka.errors import StorageError
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.segment import OpenSegments
from kavka.model import TopicPartition
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import NOW_MS, append, batch, offsets


def started(path: Path, run_all: Callable[[Sequence[Callable[[], None]], int], None], **settings: int) -> LogManager:
    logs = LogManager(
        LocalFileSystem(),
        [str(path)],
        LogManagerSettings(1, "c", **settings),
        lambda topic: LogConfig(segment_bytes=100),
        run_all=run_all,
    )
    logs.load(NOW_MS)
    return logs


def in_turn(jobs: Sequence[Callable[[], None]], at_a_time: int) -> None:
    for job in jobs:
        job()


def filled(path: Path, logs_count: int = 1) -> LogManager:
    logs = started(path, in_turn)
    for number in range(logs_count):
        log = logs.get_or_create(TopicPartition("orders", number), None, NOW_MS)
        append(log, *(batch([b"x" * 30]) for _ in range(4)))
    return logs


def held_open(path: Path) -> int:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if os.path.lexists(link)]
    return sum(target.startswith(str(path)) for target in opened)


@pytest.mark.parametrize("how", ["released", "offline", "closed"])
def test_a_directory_that_is_given_up_has_no_file_open_whoever_still_has_a_log(tmp_path: Path, how: str) -> None:
    """A disk that failed is to be unmounted while the broker runs."""
    logs = filled(tmp_path)
    (log,) = logs
    assert held_open(tmp_path) > 1
    if how == "released":
        logs.release()
    elif how == "closed":
        logs.close(NOW_MS)
    else:
        logs.on_storage_error(log.directory, StorageError(log.directory, "input/output error"))
    assert held_open(tmp_path) == 0
    assert log.log_end_offset == 4


@pytest.mark.parametrize(
    ("threads", "most", "of_each"), [(2, 10, 5), (4, 10, 2), (4, 4, 1), (4, 3, 1), (4, 8, 2), (3, 9, 3)]
)
def test_logs_that_are_read_at_a_time_share_the_bound_and_no_table(
    tmp_path: Path, threads: int, most: int, of_each: int
) -> None:
    """The table of what is open is not made for threads."""
    filled(tmp_path, 5).release()
    tables: list[OpenSegments] = []

    def run_all(jobs: Sequence[Callable[[], None]], at_a_time: int) -> None:
        tables.extend(cast(Any, job).__self__.directory.open_segments for job in jobs)
        in_turn(jobs, at_a_time)

    logs = started(tmp_path, run_all, recovery_threads=threads, max_open_segments=most)
    assert len({id(table) for table in tables}) == 5
    assert {table.max_open for table in tables} == {of_each}
    for log in logs:
        log.advance_high_watermark(log.log_end_offset)
        assert offsets(log) == [0, 1, 2, 3]
    assert 0 < held_open(tmp_path) - 1 <= most, "with the lock"
    logs.release()
