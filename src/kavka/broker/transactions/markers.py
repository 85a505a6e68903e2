"""TransactionMarkers: ends transactions in their partitions, here and on other brokers.

Decides which broker a marker goes to, what each answer means, and when a partition is given up. Must not know why a
transaction ends.

    I1  a marker is written until the partition has it, whoever leads the partition meanwhile: what has an unknown
        outcome is written again. A partition may so get a marker twice, never two kinds (P4)
    I2  a partition is given up only when ZooKeeper says that there is no such partition, or that its topic is to be
        deleted. The second may be so for long: a replica on a broker that is away is deleted when that is back
    I3  a marker counts as written when it is committed in its partition; if that is a partition of
        `__consumer_offsets`, the group coordinator is informed then
    I4  the log refuses a marker of an older coordinator or an older producer epoch (P5); the sender gets the error and
        stops

| answer for a partition                                                                | what follows                 |
|---------------------------------------------------------------------------------------|------------------------------|
| NONE                                                                                  | it has its marker            |
| INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED                                | the coordinator stops (I4)   |
| UNSUPPORTED_FOR_MESSAGE_FORMAT                                                        | it needs none                |
| anything else, or no answer                                                           | again, to its leader of then |

Source: Kafka's TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler, KafkaApis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC
from kavka.broker.transactions.peers import PeerAccess, TransactionPeers
from kavka.coordinator.transactions.decide.state import BUMPS_EPOCH, MAX_EPOCH, Transaction, TransactionState
from kavka.errors import ConnectionFailed, ErrorCode
from kavka.log.decide.producer_state import AppendOrigin
from kavka.logger import Logger
from kavka.model import NO_LEADER, NO_OFFSET, BrokerId, LeaderEpoch, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka.replication.decide.partition import ACKS_ALL
from kavka.replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from kavka.protocol.peer import PeerConnection

logger = Logger(__name__)

RETRY_S: Final = 0.02
"""How long after a failure a marker is written again; it doubles up to MAX_RETRY_S."""
MAX_RETRY_S: Final = 1.0
LOOK_AGAIN: Final = 3
"""How often a partition may be unknown before ZooKeeper is asked whether there is one."""
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_DONE: Final = (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)


class Marker(NamedTuple):
    """The end of one transaction, for some of its partitions."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: LeaderEpoch
    transaction_version: int
    partitions: Sequence[TopicPartition]


Errors = Mapping[TopicPartition, ErrorCode]

OnMarker = Callable[[int], Callable[[int, int, bool], None]]
"""Told the partition of `__consumer_offsets` before a marker is appended to it. What it returns is told (producer id,
epoch, committed?) when the marker is there."""


class MarkerLog:
    """Writes markers into partitions that are led here."""

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        wall_ms: Callable[[], int],
        commit_timeout_ms: int,
        on_group_marker: OnMarker,
    ) -> None:
        self._replicas = replicas
        self._wall_ms = wall_ms
        self._commit_timeout_ms = commit_timeout_ms
        self._on_group_marker = on_group_marker

    async def write(self, marker: Marker) -> Errors:
        """Writes the marker into each of its partitions; NONE if it is committed."""
        errors = await asyncio.gather(*(self._write_one(marker, partition) for partition in marker.partitions))
        return dict(zip(marker.partitions, errors, strict=True))

    async def _write_one(self, marker: Marker, partition: TopicPartition) -> ErrorCode:
        wall_ms = self._wall_ms()
        data = build_marker(
            EndTransactionMarker(
                ControlType.COMMIT if marker.committed else ControlType.ABORT, marker.coordinator_epoch
            ),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=wall_ms,
        )
        topic, index = partition
        if self._is_late(marker, partition):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        on_ended = self._on_group_marker(index) if topic == GROUP_METADATA_TOPIC else None
        outcome = self._replicas.append(
            topic,
            index,
            memoryview(bytearray(data)),
            required_acks=ACKS_ALL,
            wall_ms=wall_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        if not self._replicas.is_committed(topic, index, outcome):
            outcome = await self._replicas.await_committed(topic, index, outcome, self._commit_timeout_ms)
        if outcome.error is ErrorCode.NONE and on_ended is not None:
            on_ended(marker.producer_id, marker.producer_epoch, marker.committed)
        return outcome.error

    def _is_late(self, marker: Marker, partition: TopicPartition) -> bool:
        """Whether a marker of transaction version 2, which has an epoch above that of its records, would end a later
        transaction than its own: 1. the coordinator sends it, and hears no answer; 2. it sends it again, and that one
        is written; 3. the producer begins the next transaction, with the marker's epoch; 4. the first one arrives.
        Behind MAX_EPOCH there is none to raise: what Apache Kafka let begin with that one is ended with it too."""
        if marker.transaction_version < BUMPS_EPOCH or marker.producer_epoch > MAX_EPOCH:
            return False
        hosted = self._replicas.partition(*partition)
        entry = None if hosted is None else hosted.log.producers.entry(marker.producer_id)
        return (
            entry is not None
            and entry.producer_epoch == marker.producer_epoch
            and entry.current_txn_first_offset != NO_OFFSET
        )


class TransactionMarkers:
    """Has markers written wherever their partitions are led."""

    def __init__(
        self,
        broker_id: BrokerId,
        local: MarkerLog,
        access: PeerAccess,
        *,
        partition_count: Callable[[str], Awaitable[int]],
        transaction_version: Callable[[], int],
    ) -> None:
        """`partition_count` is how many partitions a topic has in ZooKeeper, 0 where it is not there, or is to be
        deleted."""
        self._broker_id = broker_id
        self._local = local
        self._metadata = access.metadata
        self._request_timeout_ms = access.request_timeout_ms
        self._partition_count = partition_count
        self._transaction_version = transaction_version
        self._peers: TransactionPeers[Marker, Errors] = TransactionPeers(access, self._send)

    async def write(self, transaction: Transaction, coordinator_epoch: LeaderEpoch) -> bool:
        """Ends the transaction in all its partitions, and tries until it is done; False if a later coordinator or
        producer was there before (I4)."""
        left = sorted(transaction.partitions)
        pause_s, unknown = RETRY_S, dict.fromkeys(left, 0)
        while left:
            by_leader: dict[BrokerId, list[TopicPartition]] = {}
            for partition in left:
                by_leader.setdefault(self._leader(partition), []).append(partition)
            for partition in by_leader.pop(NO_LEADER, ()):
                unknown[partition] += 1
            markers = [
                (
                    leader,
                    Marker(
                        transaction.producer_id,
                        transaction.producer_epoch,
                        transaction.state is TransactionState.PREPARE_COMMIT,
                        coordinator_epoch,
                        transaction.version,
                        partitions,
                    ),
                )
                for leader, partitions in by_leader.items()
            ]
            answers = await asyncio.gather(*(self._write_at(leader, marker) for leader, marker in markers))
            errors = {partition: error for answer in answers for partition, error in answer.items()}
            if any(errors.get(partition) in _FENCED for partition in left):
                return False
            left = [partition for partition in left if errors.get(partition) not in _DONE]
            left = [partition for partition in left if not await self._is_gone(partition, unknown)]
            if left:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_RETRY_S)
        return True

    def _leader(self, partition: TopicPartition) -> BrokerId:
        known = self._metadata.partition(*partition)
        return NO_LEADER if known is None else known.state.leader

    async def _is_gone(self, partition: TopicPartition, unknown: Mapping[TopicPartition, int]) -> bool:
        if unknown[partition] < LOOK_AGAIN or self._metadata.partition(*partition) is not None:
            return False
        if await self._partition_count(partition.topic) > partition.partition:
            return False
        logger.info("marker given up", partition=str(partition), why="the partition is deleted")
        return True

    async def _write_at(self, leader: BrokerId, marker: Marker) -> Errors:
        if leader == self._broker_id:
            return await self._local.write(marker)
        try:
            return await self._peers.ask(leader, marker)
        except ConnectionFailed as failure:
            logger.info("markers not written yet", broker=leader, why=str(failure))
            return {}

    async def _send(self, connection: PeerConnection, markers: Sequence[Marker]) -> Sequence[Errors]:
        from kavka.protocol.messages.write_txn_markers_request import (
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
        )
        from kavka.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

        request = WriteTxnMarkersRequest(markers=[])
        for marker in markers:
            by_topic: dict[str, list[int]] = {}
            for topic, index in marker.partitions:
                by_topic.setdefault(topic, []).append(index)
            request.markers.append(
                WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.committed,
                    topics=[WritableTxnMarkerTopic(name=name, partition_indexes=ids) for name, ids in by_topic.items()],
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=marker.transaction_version,
                )
            )
        # Where brokers of Apache Kafka 3.9 take part no transaction version 2 is in force, and they know version 1.
        version = 2 if self._transaction_version() >= BUMPS_EPOCH else 1
        answer = await connection.request(
            ApiKey.WRITE_TXN_MARKERS, version, request, WriteTxnMarkersResponse, timeout_ms=self._request_timeout_ms
        )
        # One producer has one transaction that ends at a time, so its id tells which marker an answer is for.
        found = {
            result.producer_id: {
                TopicPartition(topic.name, partition.partition_index): ErrorCode.answered(partition.error_code)
                for topic in result.topics
                for partition in topic.partitions
            }
            for result in answer.markers
        }
        return [found.get(marker.producer_id, {}) for marker in markers]

    def close(self) -> None:
        self._peers.close()
