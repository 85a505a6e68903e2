"""Logs in a log directory that belong to no topic."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from kavka.errors import StorageError
from kavka.log.home_loader import STRAYS_NAMED
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import TopicPartition
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import NOW_MS, FailingFileSystem

CLAIMED = {TopicPartition("orders", 0), TopicPartition("orders", 7)}


def started(*homes: Path, filesystem: LocalFileSystem | None = None) -> LogManager:
    draws = iter(range(1, 1 << 20))
    logs = LogManager(
        filesystem or LocalFileSystem(),
        [str(home) for home in homes],
        LogManagerSettings(1, "c"),
        lambda topic: LogConfig(),
        draw=lambda limit: next(draws) % limit,
        is_claimed=CLAIMED.__contains__,
    )
    logs.load(NOW_MS)
    return logs


def lay(home: Path, *names: str) -> None:
    for name in names:
        (home / name).mkdir(parents=True)
        (home / name / "mine.txt").write_text(name)


def test_only_claimed_logs_are_loaded_and_the_others_named_in_one_line(tmp_path: Path) -> None:
    lay(
        tmp_path, "orders-0", "orders-1", "orders-07", "paid-0", "a-0.77-future", "a-0.78-stray", "__cluster_metadata-0"
    )
    files = ["file-0", "orders-7", "paid-0.0123456789abcdef0123456789abcdef-delete", "orders-0.tmp"]
    for name in files:
        (tmp_path / name).write_text("no directory")
    with structlog.testing.capture_logs() as lines:
        logs = started(tmp_path)
    assert [str(log.topic_partition) for log in logs] == ["orders-0"]
    (line,) = [line for line in lines if line["event"] == "logs left alone"]
    assert line["names"] == ["a-0.77-future", "a-0.78-stray", "orders-07", "orders-1", "paid-0"]
    for name in ("orders-1", "orders-07", "paid-0", "__cluster_metadata-0"):
        assert [path.name for path in (tmp_path / name).iterdir()] == ["mine.txt"]
    logs.close(NOW_MS)
    assert all((tmp_path / name).is_file() for name in files)


def test_the_line_names_no_more_than_its_limit(tmp_path: Path) -> None:
    lay(tmp_path, *(f"t-{number}" for number in range(STRAYS_NAMED + 1)))
    with structlog.testing.capture_logs() as lines:
        started(tmp_path)
    assert [(line["logs"], len(line["names"])) for line in lines if line["event"] == "logs left alone"] == [
        (STRAYS_NAMED + 1, STRAYS_NAMED)
    ]


def test_a_stray_gets_out_of_the_way_of_a_new_log_in_whichever_directory_it_lies(tmp_path: Path) -> None:
    lay(tmp_path / "a")
    logs = started(tmp_path / "a", tmp_path / "b")
    lay(tmp_path / "b", "orders-7")
    with structlog.testing.capture_logs() as lines:
        logs.get_or_create(TopicPartition("orders", 7), None, NOW_MS, directory=str(tmp_path / "a"))
    assert [line["event"] for line in lines] == ["log set aside"]
    (aside,) = (tmp_path / "b").glob("orders-7.*-stray")
    assert (aside / "mine.txt").read_text() == "orders-7"
    logs.close(NOW_MS)
    again = started(tmp_path / "a", tmp_path / "b")
    assert [log.directory for log in again] == [str(tmp_path / "a" / "orders-7")]


def test_a_stray_that_cannot_be_moved_takes_its_directory_offline(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    logs = started(tmp_path / "a", tmp_path / "b", filesystem=disk)
    lay(tmp_path / "b", "orders-7")
    disk.fail_renames = True
    with pytest.raises(StorageError):
        logs.get_or_create(TopicPartition("orders", 7), None, NOW_MS, directory=str(tmp_path / "a"))
    assert logs.live_directories == [str(tmp_path / "a")]
