"""DescribeProducers (key 61): the producers that a partition remembers, and their open transactions.

Behaviour   Every replica answers from its own log, so that a hanging transaction can be found on any of them. A broker
            without a replica answers NOT_LEADER_OR_FOLLOWER. -1 stands for no sequence, no coordinator epoch and no
            open transaction.
Versions    0 (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.controller.decide.topic_plans import topic_name_error
from kavka.errors import ErrorCode
from kavka.protocol.messages.describe_producers_request import DescribeProducersRequest
from kavka.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: TransactionsBroker, request: Request, message: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in message.topics
        ]
    )


def _describe(broker: TransactionsBroker, topic: str, index: int) -> PartitionResponse:
    invalid = topic_name_error(topic)
    if invalid is not None:
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=invalid
        )
    partition = broker.replicas.partition(topic, index)
    if partition is None:
        message = None if broker.metadata.topic(topic) else "This server does not host this topic-partition."
        return PartitionResponse(
            partition_index=index, error_code=broker.replicas.absence(topic, index), error_message=message
        )
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
            for entry in partition.log.producers.entries()
        ],
    )
