"""DeleteRecords (key 21): moves a partition's log start offset forward.

Behaviour   -1 means the high watermark. An offset below the log start changes nothing, and the answer is the present
            log start. An offset above the high watermark is OFFSET_OUT_OF_RANGE. A topic that is compacted and nothing
            else is POLICY_VIOLATION, an internal one INVALID_TOPIC_EXCEPTION. With an empty cleanup.policy records stay
            until they are deleted so, as with Kafka 4; 3.9 refuses it. A partition that another broker leads is
            NOT_LEADER_OR_FOLLOWER, an unknown one UNKNOWN_TOPIC_OR_PARTITION.
            The answer waits until the replicas on all live brokers have followed. If they do not follow within
            timeout_ms, the answer is REQUEST_TIMED_OUT, and the leader has deleted the records all the same.
Versions    0; 1; 2 flexible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.metadata.metadata_cache import INTERNAL_TOPICS
from kavka.errors import ErrorCode, OffsetOutOfRange, RequestError, StorageError
from kavka.model import Offset
from kavka.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from kavka.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kavka.replication.decide.partition import Partition

if TYPE_CHECKING:
    from kavka.broker.api.records.ports import RecordsBroker
    from kavka.protocol.connection import Request

HIGH_WATERMARK = -1


def handle(
    broker: RecordsBroker, request: Request, message: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    waiting: list[tuple[DeleteRecordsPartitionResult, Partition, Offset]] = []
    results: dict[str, DeleteRecordsTopicResult] = {}
    for topic in message.topics:
        for wanted in topic.partitions:
            result = results.setdefault(topic.name, DeleteRecordsTopicResult(name=topic.name, partitions=[]))
            result.partitions.append(_partition(broker, topic.name, wanted, waiting))
    response = DeleteRecordsResponse(topics=list(results.values()))
    return _await(broker, response, waiting, message.timeout_ms) if waiting else response


def _partition(
    broker: RecordsBroker,
    topic: str,
    wanted: DeleteRecordsPartition,
    waiting: list[tuple[DeleteRecordsPartitionResult, Partition, Offset]],
) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        if topic in INTERNAL_TOPICS:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = broker.replicas.require_partition(topic, index)
        partition.check_leads()
        log = partition.log
        settings = broker.configs.topic(topic)
        if settings.cleanup_compact and not settings.cleanup_delete:
            raise RequestError(ErrorCode.POLICY_VIOLATION)
        offset = log.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if offset < 0:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if log.delete_records(offset):
            broker.replicas.on_log_start_moved(partition.topic_partition)
    except OffsetOutOfRange:
        return _refusal(index, ErrorCode.OFFSET_OUT_OF_RANGE)
    except RequestError as refused:
        return _refusal(index, refused.code)
    except StorageError as failure:
        broker.on_storage_error(failure)
        return _refusal(index, ErrorCode.KAFKA_STORAGE_ERROR)
    answer = DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=partition.low_watermark, error_code=ErrorCode.NONE
    )
    if answer.low_watermark < offset:
        waiting.append((answer, partition, offset))
    return answer


def _refusal(index: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=error)


async def _await(
    broker: RecordsBroker,
    response: DeleteRecordsResponse,
    waiting: list[tuple[DeleteRecordsPartitionResult, Partition, Offset]],
    timeout_ms: int,
) -> DeleteRecordsResponse:
    outcomes = await asyncio.gather(
        *(broker.replicas.await_deleted(partition, offset, timeout_ms) for _, partition, offset in waiting)
    )
    for (answer, _, _), outcome in zip(waiting, outcomes, strict=True):
        answer.error_code, answer.low_watermark = outcome.error, outcome.low_watermark
    return response
