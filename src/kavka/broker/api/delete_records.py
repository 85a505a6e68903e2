"""DeleteRecords (key 21): moves a partition's log start offset forward.

Behaviour   -1 means the high watermark. An offset below the log start is answered with the log start as it is; one
            above the high watermark is OFFSET_OUT_OF_RANGE. A topic whose cleanup.policy lacks "delete" is
            POLICY_VIOLATION. A partition that another broker leads is NOT_LEADER_OR_FOLLOWER, an unknown one
            UNKNOWN_TOPIC_OR_PARTITION.
Versions    0; 1; 2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.metadata_cache import INTERNAL_TOPICS
from kavka.errors import ErrorCode, OffsetOutOfRange, RequestError, StorageError
from kavka.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from kavka.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.protocol.connection import Request

HIGH_WATERMARK = -1


def handle(broker: Broker, request: Request, message: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_partition(broker, topic.name, partition) for partition in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _partition(broker: Broker, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        if topic in INTERNAL_TOPICS:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = broker.replicas.require_partition(topic, index)
        partition.check_leads()
        log = partition.log
        if not broker.configs.topic(topic).cleanup_delete:
            raise RequestError(ErrorCode.POLICY_VIOLATION)
        offset = log.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if offset < 0:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.delete_records(offset)
    except OffsetOutOfRange:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE
        )
    except RequestError as refused:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=refused.code)
    except StorageError as failure:
        broker.on_storage_error(failure)
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=log.log_start_offset, error_code=ErrorCode.NONE
    )
