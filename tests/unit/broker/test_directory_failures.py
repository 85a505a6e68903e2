"""A log directory that fails: who hears of it, whoever was the first to find out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kavka.broker.upkeep.directory_failures import DirectoryFailurePorts, DirectoryFailures
from kavka.decisions import DecisionKind
from kavka.errors import StorageError
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znodes import LOG_DIR_FAILURE, LogDirEvent
from tests.unit.log.log_support import NOW_MS, FailingFileSystem, append, batch

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Room:
    """A broker's logs in two directories, a log in each, and those who hear of failures."""

    def __init__(self, path: Path) -> None:
        self.disk = FailingFileSystem()
        self.directories = [str(path / "a"), str(path / "b")]
        self.logs = LogManager(
            self.disk, self.directories, LogManagerSettings(1, "c"), lambda topic: LogConfig(retention_ms=1)
        )
        self.logs.load(NOW_MS)
        self.hosted = [
            self.logs.get_or_create(partition, None, NOW_MS, directory=directory)
            for partition, directory in zip((FIRST, SECOND), self.directories, strict=True)
        ]
        for log in self.hosted:
            append(log, batch([b"x"]))
        self.heard: list[str] = []
        self.offline: list[TopicPartition] = []
        self.halted: list[str] = []
        self.recorded: list[Any] = []
        self.flows: list[Coroutine[None, None, None]] = []
        self.announced: list[bytes] = []
        partitions = [SimpleNamespace(topic_partition=log.topic_partition, log=log) for log in self.hosted]
        self.failures = DirectoryFailures(
            BrokerId(1),
            self.logs,
            cast(Any, SimpleNamespace(partitions=lambda: partitions)),
            DirectoryFailurePorts(
                zookeeper=cast(Any, self),
                wall_ms=lambda: NOW_MS,
                take_offline=self.take_offline,
                on_directory_failed=lambda: self.heard.append(" ".join(sorted(self.logs.offline_directories))),
                halt=self.halted.append,
                spawn=self.flows.append,
                record=self.recorded.append,
            ),
        )

    def take_offline(self, partitions: Sequence[TopicPartition]) -> None:
        self.offline = list(partitions)

    async def create(self, path: str, data: bytes, *, mode: object) -> str:
        self.announced.append(data)
        return path

    def settle(self) -> None:
        for flow in self.flows:
            asyncio.run(cast(Coroutine[Any, Any, None], flow))
        self.flows.clear()


def by_a_file_of_a_log(room: Room) -> StorageError:
    return StorageError(f"{room.hosted[0].directory}/0.log", "input/output error")


def by_a_new_log(room: Room) -> StorageError:
    """The manager takes the directory offline, and says so by its exception."""

    def fail(path: str) -> bool:
        raise StorageError(path, "input/output error")

    room.disk.make_new_directory = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError) as raised:
        room.logs.get_or_create(TopicPartition("new", 0), None, NOW_MS, directory=room.directories[0])
    return raised.value


def by_a_deletion(room: Room) -> StorageError:
    other = TopicPartition("other", 0)
    room.logs.get_or_create(other, None, NOW_MS, directory=room.directories[0])
    room.disk.fail_renames = True
    with pytest.raises(StorageError) as raised:
        room.logs.delete(other, NOW_MS)
    return raised.value


def by_retention(room: Room) -> StorageError:
    """The manager takes the directory offline, and whoever looks afterwards tells of it."""
    room.logs.on_storage_error(room.directories[0], StorageError(room.directories[0], "input/output error"))
    return room.logs.offline_directories[room.directories[0]]


@pytest.mark.parametrize("found", [by_a_file_of_a_log, by_a_new_log, by_a_deletion, by_retention])
def test_whoever_finds_it_the_next_process_and_the_controller_hear_of_a_directory_once(
    tmp_path: Path, found: Callable[[Room], StorageError]
) -> None:
    room = Room(tmp_path)
    failure = found(room)
    room.failures.on_storage_error(failure)
    room.settle()
    assert room.heard == [room.directories[0]], "else a start after a kill believes that no log has lost anything"
    assert room.offline == [FIRST]
    assert room.announced == [LogDirEvent(1, LOG_DIR_FAILURE).encode()]
    (record,) = room.recorded
    assert (record.kind, record.evidence["directory"]) == (DecisionKind.LOG_DIRECTORY_OFFLINE, room.directories[0])
    assert record.evidence["left"] == (room.directories[1],)
    room.failures.on_storage_error(failure)
    room.settle()
    assert (len(room.heard), len(room.announced), len(room.recorded), room.halted) == (1, 1, 1, [])


def test_without_a_directory_the_broker_halts(tmp_path: Path) -> None:
    room = Room(tmp_path)
    for directory in room.directories:
        room.failures.on_storage_error(StorageError(directory, "input/output error"))
    assert room.heard == [room.directories[0], " ".join(room.directories)]
    assert room.halted == [f"no usable log directory is left: {room.directories[1]}: input/output error"]
    room.settle()
    assert len(room.announced) == 1


def test_a_failure_of_a_path_elsewhere_is_nobodys(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.failures.on_storage_error(StorageError("/elsewhere/file", "input/output error"))
    assert (room.heard, room.offline, room.flows, room.recorded, room.halted) == ([], [], [], [], [])
