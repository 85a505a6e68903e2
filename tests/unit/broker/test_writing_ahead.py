"""What a broker that leaves writes while the controller moves its leaders: the topic ids of its empty logs."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.upkeep.log_maintenance import WRITTEN_AHEAD_AT_ONCE, LogMaintenance, MaintenancePorts
from kavka.config.broker import BrokerConfig
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import TopicPartition
from kavka.simulator.host.disk import SimulatedDisk
from tests.unit.log.log_support import NOW_MS, append, batch

HOME = "/machine/logs"
COUNT = 2 * WRITTEN_AHEAD_AT_ONCE + 5
PARTITIONS = [TopicPartition("orders", number) for number in range(COUNT)]
TOPIC_ID = uuid.UUID(int=1)


class _Process:
    is_killed = False
    name = "broker"


def started(disk: SimulatedDisk) -> LogManager:
    process: Any = _Process()
    logs = LogManager(disk.port(process), [HOME], LogManagerSettings(1, "c"), lambda topic: LogConfig())
    logs.load(NOW_MS)
    return logs


def fail(problem: BaseException) -> None:
    raise AssertionError(problem)


async def not_asked(work: Callable[[], None]) -> None:
    raise AssertionError("nothing blocks")


def write_ahead(logs: LogManager) -> None:
    ports = MaintenancePorts(wall_ms=lambda: NOW_MS, on_storage_error=fail, on_bug=fail, run_blocking=not_asked)
    asyncio.run(LogMaintenance(logs, BrokerConfig.from_properties({}), ports, cleaner=None).write_ahead())


def written(disk: SimulatedDisk, logs: LogManager) -> list[TopicPartition]:
    process: Any = _Process()
    files = disk.port(process)
    return [partition for partition in PARTITIONS if files.exists(f"{HOME}/{partition}/partition.metadata")]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(1))


@pytest.fixture
def logs(disk: SimulatedDisk) -> LogManager:
    logs = started(disk)
    for partition in PARTITIONS:
        logs.get_or_create(partition, TOPIC_ID, NOW_MS)
    return logs


def test_all_empty_logs_have_their_topic_id_before_they_are_closed(disk: SimulatedDisk, logs: LogManager) -> None:
    assert written(disk, logs) == []
    write_ahead(logs)
    assert written(disk, logs) == PARTITIONS
    logs.close(NOW_MS)
    again = started(disk)
    assert [log.topic_id for log in again] == [TOPIC_ID] * COUNT


def test_what_is_deleted_or_gets_records_meanwhile_is_left_alone(disk: SimulatedDisk, logs: LogManager) -> None:
    waiting = logs.written_at_close()
    logs.delete(PARTITIONS[0], NOW_MS)
    append(waiting[1], batch(1))
    logs.write_ahead(waiting)
    assert written(disk, logs) == PARTITIONS[1:]
    assert waiting[1].topic_id_due, "its first record made the id due for a sync"
    assert not waiting[2].topic_id_due


def test_a_full_disk_is_the_close_to_tell(disk: SimulatedDisk, logs: LogManager) -> None:
    disk.volume(HOME).is_full = True
    write_ahead(logs)
    assert logs.offline_directories == {}
    disk.repair()
    logs.close(NOW_MS)
    assert [log.topic_id for log in started(disk)] == [TOPIC_ID] * COUNT


def test_power_that_goes_between_the_two_writes_harms_no_start(disk: SimulatedDisk, logs: LogManager) -> None:
    write_ahead(logs)
    logs.release()
    disk.power_cut()
    assert {log.topic_id for log in started(disk)} <= {TOPIC_ID, None}
