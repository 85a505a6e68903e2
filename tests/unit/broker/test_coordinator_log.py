"""A coordinator's log: what is committed, what may be, and what transactions in it have left open."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kavka.broker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogSettings
from kavka.broker.settings.topic_settings import log_config
from kavka.config.broker import BrokerConfig
from kavka.config.topic import TopicConfig
from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.errors import ErrorCode, StorageError
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.records.compression import Compression
from kavka.replication.decide.partition import Partition
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from kavka.runtime.disk import LocalFileSystem

TOPIC = TopicPartition("__state", 0)
OWN, OTHER = BrokerId(1), BrokerId(2)
NOW_MS = 1_700_000_000_000
RECORD = CoordinatorRecord(b"key", b"value")


class Room:
    """A log that this broker leads, with a follower in sync where `isr` says so."""

    def __init__(self, path: Path, *isr: int, compression: Compression = Compression.NONE) -> None:
        config = BrokerConfig.from_properties({"broker.id": "1", "log.dirs": str(path)})
        self.failures: list[StorageError] = []
        self.replicas = ReplicaManager(asyncio.get_running_loop(), ReplicaPorts(self.failures.append))
        logs = LogManager(
            LocalFileSystem(), [str(path)], LogManagerSettings(), lambda topic: log_config(TopicConfig({}, config))
        )
        logs.load(NOW_MS)
        topic_id = uuid.UUID(int=7)
        log = logs.get_or_create(TOPIC, topic_id, NOW_MS)
        self.partition = Partition(TOPIC, topic_id, log, local_broker_id=OWN, min_insync_replicas=1)
        self.replicas.host(self.partition)
        self.members = tuple(BrokerId(member) for member in isr)
        self.replicas.lead(self.partition, LeaderAndIsr(OWN, 3, self.members, 0), self.members)
        self.log = CoordinatorLog(
            TOPIC.topic,
            self.replicas,
            CoordinatorLogSettings(load_bytes=1 << 20, commit_timeout_ms=30, compression=compression),
            wall_ms=lambda: NOW_MS,
            on_storage_error=self.failures.append,
        )

    def commit(self) -> None:
        self.partition.log.advance_high_watermark(self.partition.log.log_end_offset)
        self.replicas.on_high_watermark_advanced(self.partition)

    async def read(self) -> list[object]:
        found: list[object] = []
        async for records in self.log.read(0):
            found += [records] if isinstance(records, OpenTransaction) else list(records)
        return found


def runs(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))  # type: ignore[arg-type]


def test_what_is_committed_is_read_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, OWN)
        assert await room.log.append(0, [RECORD, CoordinatorRecord(b"gone", None)]) is ErrorCode.NONE
        assert await room.read() == [RECORD, CoordinatorRecord(b"gone", None)]

    runs(scenario)


def test_records_are_in_the_log_before_their_commit_is_waited_for(tmp_path: Path) -> None:
    """So a coordinator can append several batches with no other record between them."""

    async def scenario() -> None:
        room = Room(tmp_path, OWN)
        commits = [room.log.append(0, [RECORD]), room.log.append(0, [CoordinatorRecord(b"gone", None)])]
        assert room.partition.log.log_end_offset == 2
        assert [await commit for commit in commits] == [ErrorCode.NONE] * 2

    runs(scenario)


@pytest.mark.setting("offsets.topic.compression.codec")
@pytest.mark.parametrize("codec", Compression)
def test_batches_have_the_codec_that_is_asked_for_and_are_read_back(tmp_path: Path, codec: Compression) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, OWN, compression=codec)
        assert await room.log.append(0, [RECORD] * 3) is ErrorCode.NONE
        headers = [header for segment in room.partition.log.segments for _, header in segment.headers()]
        assert [header.compression for header in headers] == [codec]
        assert await room.read() == [RECORD] * 3

    runs(scenario)


def test_it_may_stay_unknown_whether_records_are_committed_until_they_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, OWN, OTHER)
        error = await room.log.append(0, [RECORD])
        assert error is ErrorCode.REQUEST_TIMED_OUT
        assert error in OUTCOME_UNKNOWN
        settling = asyncio.ensure_future(room.log.settle(0))
        await asyncio.sleep(0.1)
        assert not settling.done()
        room.commit()
        assert await settling

    runs(scenario)


def test_who_leads_no_more_learns_nothing_of_its_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, OWN, OTHER)
        assert await room.log.append(0, [RECORD]) is ErrorCode.REQUEST_TIMED_OUT
        settling = asyncio.ensure_future(room.log.settle(0))
        await asyncio.sleep(0)
        room.replicas.follow(room.partition, LeaderAndIsr(OTHER, 4, room.members, 1), room.members)
        assert not await settling
        assert not await room.log.settle(0)
        error = await room.log.append(0, [RECORD])
        assert error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error not in OUTCOME_UNKNOWN

    runs(scenario)


def test_records_of_a_transaction_count_when_it_ends_and_are_told_while_it_is_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, OWN)
        refused = await room.log.append(0, [RECORD], producer_id=7, producer_epoch=2)
        assert refused is ErrorCode.INVALID_TXN_STATE, "nobody said that its transaction is open"
        verification = room.partition.log.producers.verification(7, 2, -1, NOW_MS)
        assert verification is not None
        verification.grant(2)
        assert await room.log.append(0, [RECORD], producer_id=7, producer_epoch=2) is ErrorCode.NONE
        assert await room.read() == [OpenTransaction(7, 2, [RECORD])]

    runs(scenario)


def test_a_log_whose_file_lost_its_end_is_read_up_to_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, OWN)
        for _ in range(2):
            assert await room.log.append(0, [RECORD]) is ErrorCode.NONE
        log = room.partition.log
        os.truncate(log.segments[0].path(".log"), log.size_bytes - 3)
        assert await room.read() == [RECORD]

    runs(scenario)
