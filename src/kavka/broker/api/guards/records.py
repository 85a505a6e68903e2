"""Guards of records: Produce, ListOffsets, DeleteRecords, OffsetForLeaderEpoch.

Fetch has its questions in its handler: what it asks about is in its fetch session, and a list that changes counts for
partitions that a request does not name again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.api.guards.guard import Then, refuse_topics
from kavka.decisions import DECISIONS_TOPIC
from kavka.errors import ErrorCode
from kavka.protocol.connection import CLOSE_CONNECTION, NO_RESPONSE, Response
from kavka.protocol.messages.delete_records_request import DeleteRecordsRequest, DeleteRecordsTopic
from kavka.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
)
from kavka.protocol.messages.list_offsets_request import ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)
from kavka.protocol.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest, OffsetForLeaderTopic
from kavka.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderTopicResult,
)
from kavka.protocol.messages.produce_request import ProduceRequest, TopicProduceData
from kavka.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kavka.records.batch import CRC_START, HEADER_SIZE, MAGIC, MAGIC_OFFSET, TRANSACTIONAL_FLAG
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_LOW_ATTRIBUTES_OFFSET = CRC_START + 1
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produce(broker: ApiBroker, caller: Caller, message: ProduceRequest) -> Any:
    """W X where a batch is transactional, whatever the request's own field says; W T for each topic.

    Brokers write the decisions of theirs to `__kavka_decisions` for each other.
    """
    if _has_transactional_batch(message.topic_data) and (
        message.transactional_id is None
        or not caller.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id)
    ):
        if message.acks == 0:
            return CLOSE_CONNECTION
        return ProduceResponse(responses=_refused(message.topic_data, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    by_id = caller.request.header.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    left, denied, unknown = [], [], []
    for topic in message.topic_data:
        name = broker.metadata.topic_name(topic.topic_id) if by_id else topic.name
        if name is None:
            unknown.append(topic)  # Refused here: when the handler looks, the id may be known.
        elif _may_write(caller, name):
            left.append(topic)
        else:
            denied.append(topic)
    if not denied and not unknown:
        return None
    if message.acks == 0:
        if not left:
            return CLOSE_CONNECTION
        refused = []
    else:
        refused = [*_refused(denied, _DENIED), *_refused(unknown, ErrorCode.UNKNOWN_TOPIC_ID)]
        if not left:
            return ProduceResponse(responses=refused)
    message.topic_data = left

    def add(answer: Any) -> Any:
        if isinstance(answer, Response):
            # Without acks nobody is answered: a refusal closes the connection.
            return CLOSE_CONNECTION if answer is NO_RESPONSE else answer
        answer.responses = [*answer.responses, *refused]
        return answer

    return Then(add)


def _may_write(caller: Caller, name: str) -> bool:
    if name == DECISIONS_TOPIC and caller.is_broker():
        of_broker = caller.may_on_cluster(Operation.CLUSTER_ACTION, quietly=True)
        return of_broker or caller.may(Operation.WRITE, ResourceType.TOPIC, name)
    return caller.may(Operation.WRITE, ResourceType.TOPIC, name)


def _has_transactional_batch(topics: Iterable[TopicProduceData]) -> bool:
    for topic in topics:
        for partition in topic.partition_data:
            records = partition.records
            if records is None:
                continue
            if not isinstance(records, memoryview):
                return True  # What cannot be looked into may be transactional.
            if (
                len(records) >= HEADER_SIZE
                and records[MAGIC_OFFSET] == MAGIC
                and records[_LOW_ATTRIBUTES_OFFSET] & TRANSACTIONAL_FLAG
            ):
                return True
    return False


def _refused(topics: Iterable[TopicProduceData], error: ErrorCode) -> list[TopicProduceResponse]:
    return [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                PartitionProduceResponse(
                    index=data.index, error_code=error, base_offset=-1, log_append_time_ms=-1, log_start_offset=-1
                )
                for data in topic.partition_data
            ],
        )
        for topic in topics
    ]


def list_offsets(broker: ApiBroker, caller: Caller, message: ListOffsetsRequest) -> Any:
    """De T."""

    def refusal(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
        partitions = [
            ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=_DENIED)
            for partition in topic.partitions
        ]
        return ListOffsetsTopicResponse(name=topic.name, partitions=partitions)

    return refuse_topics(caller, Operation.DESCRIBE, message, refusal)


def delete_records(broker: ApiBroker, caller: Caller, message: DeleteRecordsRequest) -> Any:
    """D T."""

    def refusal(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
        partitions = [
            DeleteRecordsPartitionResult(
                partition_index=partition.partition_index, low_watermark=-1, error_code=_DENIED
            )
            for partition in topic.partitions
        ]
        return DeleteRecordsTopicResult(name=topic.name, partitions=partitions)

    return refuse_topics(caller, Operation.DELETE, message, refusal)


def offset_for_leader_epoch(broker: ApiBroker, caller: Caller, message: OffsetForLeaderEpochRequest) -> Any:
    """CA K, or De T."""
    if caller.may_on_cluster(Operation.CLUSTER_ACTION, quietly=True):
        return None

    def refusal(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
        partitions = [
            EpochEndOffset(partition=partition.partition, error_code=_DENIED) for partition in topic.partitions
        ]
        return OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)

    return refuse_topics(caller, Operation.DESCRIBE, message, refusal, name=lambda topic: str(topic.topic))
