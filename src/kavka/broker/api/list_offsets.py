"""ListOffsets (key 2): the offset that belongs to a timestamp, and the ends of a log.

Behaviour   A timestamp >= 0 finds the first record that is not older; special values are -1 latest (high watermark, or
            last stable offset for read_committed), -2 earliest, -3 the record with the largest timestamp, -4 earliest
            on local disk, -5 last in tiered storage (none here: -1), -6 earliest not uploaded yet (none here: -1). A
            record that is not committed yet is not found. A partition named twice is INVALID_REQUEST.
Versions    1; 2 isolation level, throttle time; 3; 4 leader epochs (KIP-320); 5; 6 flexible; 7 max timestamp (KIP-734);
            8 earliest local (KIP-405); 9 latest tiered; 10 time-out; 11 earliest pending upload.
Not supported  Version 0, a list of offsets of segments: no client in use sends it, Apache Kafka 4 dropped it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kavka.errors import ErrorCode, RequestError, StorageError
from kavka.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from kavka.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kavka.replication.partition import Partition

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.protocol.connection import Request

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_READ_COMMITTED = 1
_FIRST_VERSION_WITH_ONE_REFUSAL = 10
"""From here on a partition that is named twice is answered once."""


class _Found(NamedTuple):
    timestamp: int = NO_TIMESTAMP
    offset: Offset = NO_OFFSET
    leader_epoch: LeaderEpoch = NO_EPOCH


def handle(broker: Broker, request: Request, message: ListOffsetsRequest) -> ListOffsetsResponse:
    version = request.header.api_version
    named = Counter(
        (topic.name, partition.partition_index) for topic in message.topics for partition in topic.partitions
    )
    read_committed = message.isolation_level == _READ_COMMITTED
    topics = []
    for topic in message.topics:
        answers = []
        refused: set[int] = set()
        for partition in topic.partitions:
            if version >= _FIRST_VERSION_WITH_ONE_REFUSAL and partition.partition_index in refused:
                continue
            if named[topic.name, partition.partition_index] > 1:
                refused.add(partition.partition_index)
                answers.append(_refusal(partition, ErrorCode.INVALID_REQUEST))
                continue
            answers.append(_partition(broker, version, topic.name, partition, read_committed=read_committed))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _partition(
    broker: Broker, version: int, topic: str, wanted: ListOffsetsPartition, *, read_committed: bool
) -> ListOffsetsPartitionResponse:
    try:
        if wanted.timestamp < 0 and version < _FIRST_VERSION.get(wanted.timestamp, version + 1):
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        partition = broker.replicas.require_partition(topic, wanted.partition_index)
        partition.check_leads(wanted.current_leader_epoch)
        found = _find(partition, wanted.timestamp, read_committed=read_committed)
    except RequestError as refused:
        return _refusal(wanted, refused.code)
    except StorageError as failure:
        broker.on_storage_error(failure)
        return _refusal(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find(partition: Partition, timestamp: int, *, read_committed: bool) -> _Found:
    log = partition.log
    fetchable = log.last_stable_offset if read_committed else log.high_watermark
    if timestamp == LATEST:
        return _Found(NO_TIMESTAMP, fetchable, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return _Found(NO_TIMESTAMP, start, log.leader_epoch_at(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _Found()
    hit = log.offset_for_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if hit is None or hit.offset >= fetchable:
        return _Found()
    return _Found(hit.timestamp, hit.offset, hit.leader_epoch)


def _refusal(wanted: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)
