"""ListOffsets (key 2): the offset that belongs to a timestamp, and the ends of a log.

Behaviour   A timestamp >= 0 finds the first record that is not older. Special values: -1 latest (high watermark, or
            last stable offset for read_committed), -2 earliest, -3 the record with the largest timestamp, -4 earliest
            on local disk, -5 last in tiered storage (none here: -1), -6 earliest not uploaded yet (none here: -1). A
            record that is not committed yet is not found. A partition named twice is INVALID_REQUEST.
            While the high watermark of a new leader is below the start of its epoch, the answer is OFFSET_NOT_AVAILABLE
            where the offset could lie above it (KIP-207; before version 5 LEADER_NOT_AVAILABLE): otherwise an offset
            could seem to go back. Brokers (replica id >= 0) and debuggers (-2) get the log end; a follower answers
            debuggers too.
            Apache Kafka 3.9 looks for a time in the first segment that reaches it, and nowhere else: it finds nothing
            where DeleteRecords took that segment's record, or where the segment has no timestamps and was written
            later than that. Here the search goes on to the next one.
            Where the record may be in a batch that cannot be read, the partition's answer is an error: INVALID_RECORD
            for malformed records, UNKNOWN_SERVER_ERROR where a codec fails, CORRUPT_MESSAGE for bytes that are no
            batch. Worker threads search by time; answers keep the order of the requests.
Versions    1; 2 isolation level, throttle time; 3; 4 leader epochs (KIP-320); 5; 6 flexible; 7 max timestamp (KIP-734);
            8 earliest local (KIP-405); 9 latest tiered; 10 time-out; 11 earliest pending upload.
Not supported  Version 0, a list of offsets of segments: no client in use sends it, and Apache Kafka 4 dropped it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from kavka.errors import ErrorCode, RecordsError, RequestError, StorageError
from kavka.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from kavka.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kavka.replication.decide.partition import Partition

if TYPE_CHECKING:
    from kavka.broker.api.records.ports import RecordsBroker
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
_CONSUMER, _DEBUGGER = -1, -2
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
_FIRST_VERSION_WITH_ONE_REFUSAL = 10
"""From here on a partition that is named twice is answered once."""


class _Asking(NamedTuple):
    version: int
    replica_id: int
    read_committed: bool


class _Found(NamedTuple):
    timestamp: int = NO_TIMESTAMP
    offset: Offset = NO_OFFSET
    leader_epoch: LeaderEpoch = NO_EPOCH


class _Lookup(NamedTuple):
    """A partition whose answer waits for a worker."""

    topic: str
    wanted: ListOffsetsPartition
    answer: ListOffsetsPartitionResponse


def handle(
    broker: RecordsBroker, request: Request, message: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    version = request.header.api_version
    named = Counter(
        (topic.name, partition.partition_index) for topic in message.topics for partition in topic.partitions
    )
    asking = _Asking(version, message.replica_id, read_committed=message.isolation_level == _READ_COMMITTED)
    topics = []
    lookups: list[_Lookup] = []
    for topic in message.topics:
        answers = []
        twice: set[int] = set()
        for partition in topic.partitions:
            if version >= _FIRST_VERSION_WITH_ONE_REFUSAL and partition.partition_index in twice:
                continue
            if named[topic.name, partition.partition_index] > 1:
                twice.add(partition.partition_index)
                answers.append(_refusal(partition, ErrorCode.INVALID_REQUEST))
                continue
            answer = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
            answers.append(answer)
            try:
                served = _serving(broker, asking, topic.name, partition)
                found = _find_without_records(served, partition.timestamp, asking)
            except RequestError as refused:
                answer.error_code = refused.code
                continue
            if found is None:
                lookups.append(_Lookup(topic.name, partition, answer))
            else:
                _fill(answer, found)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    response = ListOffsetsResponse(topics=topics)
    return _look_up(broker, asking, lookups, response) if lookups else response


def _serving(broker: RecordsBroker, asking: _Asking, topic: str, wanted: ListOffsetsPartition) -> Partition:
    if wanted.timestamp < 0 and asking.version < _FIRST_VERSION.get(wanted.timestamp, asking.version + 1):
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.replicas.require_partition(topic, wanted.partition_index)
    if asking.replica_id == _DEBUGGER:
        partition.check_serves(wanted.current_leader_epoch)
    else:
        partition.check_leads(wanted.current_leader_epoch)
    return partition


def _find_without_records(partition: Partition, timestamp: int, asking: _Asking) -> _Found | None:
    """None where records must be looked at."""
    log = partition.log
    if timestamp == LATEST:
        _check_available(partition, asking)
        return _Found(NO_TIMESTAMP, _fetchable(partition, asking), partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return _Found(NO_TIMESTAMP, start, log.leader_epoch_at(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _Found()
    return None


async def _look_up(
    broker: RecordsBroker, asking: _Asking, lookups: list[_Lookup], response: ListOffsetsResponse
) -> ListOffsetsResponse:
    for topic, wanted, answer in lookups:
        try:
            partition = _serving(broker, asking, topic, wanted)
            time = None if wanted.timestamp == MAX_TIMESTAMP else wanted.timestamp
            hit = await broker.timestamp_lookups().find(partition.log, time)
            # It may have moved, or been deleted, while a worker was reading.
            partition = _serving(broker, asking, topic, wanted)
            if hit is None or hit.offset >= _fetchable(partition, asking):
                _check_available(partition, asking)
                _fill(answer, _Found())
            else:
                _fill(answer, _Found(hit.timestamp, hit.offset, hit.leader_epoch))
        except (RequestError, RecordsError) as refused:
            answer.error_code = refused.code
        except StorageError as failure:
            broker.on_storage_error(failure)
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return response


def _fill(answer: ListOffsetsPartitionResponse, found: _Found) -> None:
    answer.timestamp, answer.offset, answer.leader_epoch = found


def _fetchable(partition: Partition, asking: _Asking) -> Offset:
    """The offset behind what the asking one may see."""
    log = partition.log
    if asking.replica_id != _CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if asking.read_committed else log.high_watermark


def _check_available(partition: Partition, asking: _Asking) -> None:
    """Raises `RequestError` if an offset that an earlier leader showed may be higher than what is known here."""
    if asking.replica_id != _CONSUMER or not partition.offsets_lag:
        return
    knows = asking.version >= _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
    raise RequestError(ErrorCode.OFFSET_NOT_AVAILABLE if knows else ErrorCode.LEADER_NOT_AVAILABLE)


def _refusal(wanted: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)
