"""What a recorded partition tells, and what becomes of it on the disk."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, cast

import pytest

from kavka.config.broker import BrokerConfig
from kavka.errors import StorageError
from kavka.filesystem import Buffer
from kavka.flight.format import FLIGHT_FILES, REPEATED, Block, Fetch, blocks, entries
from kavka.flight.recorder import LINGER_S, FlightRecorder
from kavka.log.unified_log import UnifiedLog
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.replay.metadata_log import MetadataLog
from kavka.replication.decide.partition import Partition
from kavka.runtime.disk import LocalFileSystem

ORDERS = TopicPartition("orders", 0)
LEADER, FOLLOWER, OTHER = BrokerId(1), BrokerId(2), BrokerId(3)
REPLICAS = (LEADER, FOLLOWER, OTHER)
SMALL = 64 * 1024


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **arguments: Any) -> None:
        asyncio.run(test(*args, **arguments))

    return run


def names(place: Path) -> list[str]:
    return [path.name for path in place.iterdir()]


def config(place: Path) -> BrokerConfig:
    properties = {"broker.id": "1", "log.dirs": str(place), "kavka.flight.recorder.bytes": str(SMALL)}
    return BrokerConfig.from_properties(properties)


def recorder(place: Path) -> FlightRecorder:
    return FlightRecorder(LocalFileSystem(), config(place), wall_ms=lambda: 2_000_000, clock_ms=lambda: 1_000_000)


def leader(by: FlightRecorder, log: MetadataLog) -> Partition:
    held = cast("UnifiedLog", log)
    partition = by.new_partition(ORDERS, uuid.UUID(int=1), held, local_broker_id=LEADER, min_insync_replicas=2)
    partition.become_leader(LeaderAndIsr(LEADER, 1, REPLICAS, 0), REPLICAS, now_ms=0)
    return partition


def fetch(partition: Partition, log: MetadataLog, follower: BrokerId, now_ms: int) -> None:
    end = log.log_end_offset
    partition.record_follower_fetch(follower, 7, end, leader_end_offset=end, now_ms=now_ms)


def told(place: Path, name: str = FLIGHT_FILES[1]) -> list[Any]:
    found: list[Any] = []
    for block in blocks((place / name).read_bytes()):
        assert isinstance(block, Block)
        found += entries(block.entries)
    return found


@in_a_loop
async def test_fetches_that_repeat_each_other_are_told_once_before_the_timer_looks(tmp_path: Path) -> None:
    by, log = recorder(tmp_path), MetadataLog()
    by.start()
    partition = leader(by, log)
    for now_ms in range(1, 101):
        fetch(partition, log, FOLLOWER, now_ms)
    partition.propose_shrink(200)
    by.stop()

    fetches = [each for each in told(tmp_path) if isinstance(each, Fetch)]
    assert [(each.at_ms, each.flags) for each in fetches] == [(1, 0), (100, REPEATED)]


@in_a_loop
async def test_the_last_of_them_is_told_before_the_followers_next_one_that_differs(tmp_path: Path) -> None:
    by, log = recorder(tmp_path), MetadataLog()
    by.start()
    partition = leader(by, log)
    for now_ms in (1, 2, 3):
        fetch(partition, log, FOLLOWER, now_ms)
    log.log_end_offset = 5
    fetch(partition, log, FOLLOWER, 4)
    by.stop()

    fetches = [each for each in told(tmp_path) if isinstance(each, Fetch)]
    assert [(each.at_ms, each.offset, each.flags) for each in fetches] == [(1, 0, 0), (3, 0, REPEATED), (4, 5, 0)]


@in_a_loop
async def test_nothing_is_written_before_the_directories_are_this_brokers_own(tmp_path: Path) -> None:
    by = recorder(tmp_path)

    await asyncio.sleep(2 * LINGER_S)
    assert names(tmp_path) == []
    by.stop()
    assert names(tmp_path) == []


@in_a_loop
async def test_entries_are_on_the_disk_soon_without_anybody_stopping(tmp_path: Path) -> None:
    by, log = recorder(tmp_path), MetadataLog()
    by.start()
    leader(by, log)

    await asyncio.sleep(10 * LINGER_S)
    assert [each["f"] for each in told(tmp_path) if isinstance(each, dict)] == ["life", "partition", "lead"]
    by.abort()


@pytest.mark.setting("kavka.flight.recorder.bytes")
@in_a_loop
async def test_the_ring_is_bounded_and_each_file_begins_with_the_whole_partition(tmp_path: Path) -> None:
    by, log = recorder(tmp_path), MetadataLog()
    by.start()
    partition = leader(by, log)
    while by.file < 3:
        for _ in range(1_000):
            log.log_end_offset += 3
            fetch(partition, log, FOLLOWER, log.log_end_offset * 7 % 1_000)
        await asyncio.sleep(LINGER_S)
    fetch(partition, log, OTHER, 8)
    by.stop()

    sizes = [(tmp_path / name).stat().st_size for name in FLIGHT_FILES]
    assert sum(sizes) <= 2 * SMALL
    for name in FLIGHT_FILES:
        begin = told(tmp_path, name)[:3]
        assert [each["f"] for each in begin] == ["life", "brokers", "partition"]
        assert begin[0]["again"]


@in_a_loop
async def test_a_ring_whose_file_somebody_took_away_goes_on(tmp_path: Path) -> None:
    by, log = recorder(tmp_path), MetadataLog()
    by.start()
    partition = leader(by, log)
    await asyncio.sleep(10 * LINGER_S)
    (tmp_path / FLIGHT_FILES[1]).unlink()
    while by.file < 3:
        for _ in range(1_000):
            log.log_end_offset += 3
            fetch(partition, log, FOLLOWER, log.log_end_offset * 7 % 1_000)
        await asyncio.sleep(LINGER_S)
    by.stop()
    assert set(names(tmp_path)) == set(FLIGHT_FILES)


class FullFileSystem(LocalFileSystem):
    """A disk on which nothing more fits."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> Any:
        file = super().open(path, create=create, read_only=read_only)
        return _FullFile(file)


class _FullFile:
    def __init__(self, file: Any) -> None:
        self._file = file

    def append(self, data: Buffer) -> None:
        raise StorageError("/logs", "no space left on device")

    def size(self) -> int:
        return int(self._file.size())

    def close(self) -> None:
        self._file.close()


@in_a_loop
async def test_a_disk_that_is_full_costs_the_recording_and_nothing_else(tmp_path: Path) -> None:
    by = FlightRecorder(FullFileSystem(), config(tmp_path), wall_ms=lambda: 0, clock_ms=lambda: 0)
    log = MetadataLog()
    by.start()
    partition = leader(by, log)
    await asyncio.sleep(2 * LINGER_S)
    for now_ms in range(10):
        log.log_end_offset += 1
        fetch(partition, log, FOLLOWER, now_ms)
        fetch(partition, log, OTHER, now_ms)

    assert log.high_watermark == 10
    assert by.written_bytes == 0
    by.stop()


@pytest.mark.parametrize("count", [1, 3])
@in_a_loop
async def test_a_life_that_is_killed_leaves_what_it_wrote(tmp_path: Path, count: int) -> None:
    for _ in range(count):
        by = recorder(tmp_path)
        by.start()
        leader(by, MetadataLog())
        await asyncio.sleep(2 * LINGER_S)
        by.abort()

    lives = [each for each in told(tmp_path) if isinstance(each, dict) and each["f"] == "life"]
    assert len(lives) == count
