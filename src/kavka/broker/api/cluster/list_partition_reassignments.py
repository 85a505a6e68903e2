"""ListPartitionReassignments (key 46): partitions on their way to other replicas.

Behaviour   All of them, or those of the named partitions that are moving; the answer leaves out partitions that are not
            moving or do not exist. Only the controller answers; others say NOT_CONTROLLER.
Versions    0 (KIP-455, flexible).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.by_topic import by_topic
from kavka.controller.term.controller_term import NotController
from kavka.errors import ErrorCode
from kavka.model import TopicPartition
from kavka.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kavka.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ClusterBroker, request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    try:
        under_way = broker.controller.reassignments.listing()
    except NotController as not_controller:
        return ListPartitionReassignmentsResponse(
            error_code=ErrorCode.NOT_CONTROLLER, error_message=str(not_controller)
        )
    if message.topics is not None:
        asked = [TopicPartition(topic.name, number) for topic in message.topics for number in topic.partition_indexes]
        under_way = {partition: under_way[partition] for partition in asked if partition in under_way}
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            OngoingTopicReassignment(
                name=topic,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=list(assignment.replicas),
                        adding_replicas=list(assignment.adding),
                        removing_replicas=list(assignment.removing),
                    )
                    for index, assignment in partitions
                ],
            )
            for topic, partitions in by_topic(under_way.items()).items()
        ],
    )
