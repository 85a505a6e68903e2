"""Logs are flushed by one worker at a time, and nobody is told of a flush that began before their records."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

from kavka.broker.upkeep.flushes import Flushes
from kavka.errors import StorageError
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.records.builder import BatchBuilder
from kavka.runtime.disk import LocalFileSystem

NOW_MS = 1_700_000_000_000


class Disk:
    """A worker that syncs when it is let, and fails when it is told to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.syncs = 0
        self.failure: StorageError | None = None

    async def run(self, work: Callable[[], None]) -> None:
        self.syncs += 1
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        work()


def open_log(directory: Path) -> UnifiedLog:
    logs = LogManager(
        LocalFileSystem(), [str(directory)], LogManagerSettings(broker_id=1), lambda _topic: LogConfig(flush_messages=1)
    )
    logs.load(NOW_MS)
    return logs.get_or_create(TopicPartition("t", 0), uuid.UUID(int=7), NOW_MS)


def append(log: UnifiedLog) -> int:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    return log.append_as_leader(bytearray(builder.build()), 0, NOW_MS).last_offset + 1


def test_who_comes_during_a_flush_waits_for_the_next_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = Disk()
        failures: list[StorageError] = []
        flushes = Flushes(wall_ms=lambda: NOW_MS, on_storage_error=failures.append, run_blocking=disk.run)
        log = open_log(tmp_path)
        first = asyncio.ensure_future(flushes.flush(log, append(log)))
        await asyncio.sleep(0.01)
        later = [asyncio.ensure_future(flushes.flush(log, append(log))) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert disk.syncs == 1
        assert not first.done()
        disk.gate.set()
        assert await first
        assert all([await flush for flush in later])
        assert disk.syncs == 2, "the second flush serves all five"
        assert log.recovery_point == log.log_end_offset == 6
        assert not failures

    asyncio.run(scenario())


def test_what_is_durable_needs_no_flush(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = Disk()
        disk.gate.set()
        flushes = Flushes(wall_ms=lambda: NOW_MS, on_storage_error=lambda _failure: None, run_blocking=disk.run)
        log = open_log(tmp_path)
        end = append(log)
        assert await flushes.flush(log, end)
        assert await flushes.flush(log, end)
        assert disk.syncs == 1

    asyncio.run(scenario())


def test_a_disk_that_fails_acknowledges_nothing_and_goes_offline(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = Disk()
        disk.failure = StorageError(str(tmp_path), "input/output error")
        failures: list[StorageError] = []
        flushes = Flushes(wall_ms=lambda: NOW_MS, on_storage_error=failures.append, run_blocking=disk.run)
        log = open_log(tmp_path)
        both = [asyncio.ensure_future(flushes.flush(log, append(log))) for _ in range(2)]
        await asyncio.sleep(0.01)
        disk.gate.set()
        assert [await flush for flush in both] == [False, False]
        assert failures == [disk.failure]
        assert log.failure is disk.failure

    asyncio.run(scenario())


def test_a_file_that_somebody_took_away_is_a_failure_of_its_directory_and_no_bug(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = Disk()
        disk.gate.set()
        failures: list[StorageError] = []
        flushes = Flushes(wall_ms=lambda: NOW_MS, on_storage_error=failures.append, run_blocking=disk.run)
        log = open_log(tmp_path)
        append(log)
        path = tmp_path / "t-0" / "partition.metadata"
        path.unlink()
        await flushes.sync_topic_id(log)
        assert [(failure.path, failure is log.failure) for failure in failures] == [(str(path), True)]

    asyncio.run(scenario())
