"""Markers in partitions that are led here: which are too late, and what the groups' coordinator hears of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kavka.broker.settings.topic_settings import log_config
from kavka.broker.transactions.markers import Marker, MarkerLog
from kavka.config.broker import BrokerConfig
from kavka.config.topic import TopicConfig
from kavka.coordinator.transactions.decide.state import MAX_EPOCH
from kavka.errors import ErrorCode
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.replication.decide.partition import ACKS_ALL, Partition
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from kavka.runtime.disk import LocalFileSystem

ORDERS = TopicPartition("orders", 0)
OWN = BrokerId(1)
NOW_MS = 1_700_000_000_000
PRODUCER_ID = 7


def _no_group(partition: int) -> Callable[[int, int, bool], None]:
    raise AssertionError("no group is asked about")


class Room:
    """A partition that this broker leads."""

    def __init__(self, path: Path) -> None:
        config = BrokerConfig.from_properties({"broker.id": "1", "log.dirs": str(path)})
        self.replicas = ReplicaManager(asyncio.get_running_loop(), ReplicaPorts(lambda failure: None))
        logs = LogManager(
            LocalFileSystem(), [str(path)], LogManagerSettings(), lambda topic: log_config(TopicConfig({}, config))
        )
        logs.load(NOW_MS)
        topic_id = uuid.UUID(int=7)
        self.log = logs.get_or_create(ORDERS, topic_id, NOW_MS)
        partition = Partition(ORDERS, topic_id, self.log, local_broker_id=OWN, min_insync_replicas=1)
        self.replicas.host(partition)
        self.replicas.lead(partition, LeaderAndIsr(OWN, 3, (OWN,), 0), (OWN,))
        self.markers = MarkerLog(self.replicas, wall_ms=lambda: NOW_MS, commit_timeout_ms=30, on_group_marker=_no_group)

    def begin(self, epoch: int) -> None:
        """The producer's transaction is open from here on."""
        verification = self.log.producers.verification(PRODUCER_ID, epoch, 0, NOW_MS)
        assert verification is not None
        verification.grant(epoch)
        builder = BatchBuilder()
        builder.append(NOW_MS, None, b"v")
        data = memoryview(bytearray(builder.build(ProducerStamp(PRODUCER_ID, epoch, 0, is_transactional=True))))
        outcome = self.replicas.append(*ORDERS, data, required_acks=ACKS_ALL, wall_ms=NOW_MS)
        assert outcome.error is ErrorCode.NONE

    @property
    def is_open(self) -> bool:
        entry = self.log.producers.entry(PRODUCER_ID)
        assert entry is not None
        return entry.current_txn_first_offset >= 0

    async def end(self, epoch: int, version: int, *, coordinator_epoch: int = 0) -> ErrorCode:
        marker = Marker(PRODUCER_ID, epoch, True, coordinator_epoch, version, [ORDERS])
        return (await self.markers.write(marker))[ORDERS]


def runs(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "epoch", "error"),
    [
        (1, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 5, ErrorCode.NONE),
        (1, 6, ErrorCode.NONE),
        (2, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 6, ErrorCode.NONE),
    ],
)
def test_with_version_2_a_marker_has_an_epoch_above_that_of_the_records(
    tmp_path: Path, version: int, epoch: int, error: ErrorCode
) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.begin(5)
        assert await room.end(epoch, version) is error
        assert room.is_open == (error is not ErrorCode.NONE)

    runs(scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_that_comes_twice_is_written_twice(tmp_path: Path, version: int) -> None:
    """The answer to the first one was lost. A coordinator of before is late."""

    async def scenario() -> None:
        room = Room(tmp_path)
        room.begin(5)
        for _ in range(2):
            assert await room.end(6, version, coordinator_epoch=1) is ErrorCode.NONE
        assert await room.end(6, version) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert room.log.log_end_offset == 3

    runs(scenario)


def test_what_was_begun_with_the_very_last_epoch_can_be_ended(tmp_path: Path) -> None:
    """No end may raise that one. The transaction, as Apache Kafka may have left it, stayed open for ever, and nothing
    behind it was readable."""

    async def scenario() -> None:
        room = Room(tmp_path)
        room.begin(MAX_EPOCH + 1)
        assert await room.end(MAX_EPOCH + 1, 2) is ErrorCode.NONE
        assert not room.is_open

    runs(scenario)
