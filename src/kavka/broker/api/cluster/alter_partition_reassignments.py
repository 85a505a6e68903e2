"""AlterPartitionReassignments (key 45): moves partitions to other replicas, or cancels a move.

Behaviour   Each partition for itself; null replicas cancel. When the answer goes out, the target is written to
            ZooKeeper and survives this controller. The move is complete when ListPartitionReassignments no longer names
            the partition. The rules are in `controller.decide.reassignment`. Only the controller answers; others say
            NOT_CONTROLLER.
Versions    0 (KIP-455, flexible); 1 allow_replication_factor_change (KIP-860).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.by_topic import by_topic
from kavka.controller.term.controller_term import NotController
from kavka.errors import ErrorCode
from kavka.model import TopicPartition
from kavka.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from kavka.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ClusterBroker, request: Request, message: AlterPartitionReassignmentsRequest
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    return _alter(broker, message)


async def _alter(
    broker: ClusterBroker, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    may_change_factor = message.allow_replication_factor_change
    wishes = {
        TopicPartition(topic.name, partition.partition_index): partition.replicas
        for topic in message.topics
        for partition in topic.partitions
    }
    try:
        outcomes = await broker.controller.reassignments.alter(wishes, may_change_factor=may_change_factor)
    except NotController as not_controller:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_change_factor,
            error_code=ErrorCode.NOT_CONTROLLER,
            error_message=str(not_controller),
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=index,
                        error_code=ErrorCode.NONE if refused is None else refused.code,
                        error_message=None if refused is None else refused.message,
                    )
                    for index, refused in partitions
                ],
            )
            for topic, partitions in by_topic(outcomes.items()).items()
        ],
    )
