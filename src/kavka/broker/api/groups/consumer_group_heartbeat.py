"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays or leaves, and learns its partitions.

Behaviour   The rules are in `coordinator.groups.consumer.decide.heartbeat`. The answer waits until every change that
            the heartbeat caused is in the log. UNSUPPORTED_VERSION while the cluster's group version is 0 or
            group.coordinator.rebalance.protocols does not name this protocol. With an authorizer, regular expressions
            match what the member may Describe; the member that has them matched decides for all that use them.
Versions    0; 1 regular expressions, and member ids made by clients (KIP-848, KIP-1082).
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kavka.coordinator.groups.consumer.decide.group import Assignment
from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kavka.protocol.messages.consumer_group_heartbeat_request import TopicPartitions as OwnedPartitions
from kavka.protocol.messages.consumer_group_heartbeat_response import (
    Assignment as ToldAssignment,
)
from kavka.protocol.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: GroupsBroker, request: Request, message: ConsumerGroupHeartbeatRequest
) -> Awaitable[ConsumerGroupHeartbeatResponse]:
    return _beat(broker, request, message)


async def _beat(
    broker: GroupsBroker, request: Request, message: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    try:
        answer = await broker.groups.consumer_heartbeat(
            ConsumerHeartbeat(
                message.group_id,
                message.member_id,
                message.member_epoch,
                message.instance_id,
                message.rack_id,
                message.rebalance_timeout_ms,
                message.subscribed_topic_names,
                message.subscribed_topic_regex,
                message.server_assignor,
                None if message.topic_partitions is None else _owned(message.topic_partitions),
                request.header.client_id or "",
                f"/{request.context.client_host}",
                request.header.api_version,
            ),
            sees=_sees(broker, request),
        )
    except RequestError as refused:
        return ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message or None)
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assignment is None else _told(answer.assignment),
    )


def _sees(broker: GroupsBroker, request: Request) -> Callable[[str], bool] | None:
    """What its regular expressions may match: topics that the client may Describe."""
    if broker.authorization is None:
        return None
    caller = broker.authorization.caller(request)
    return lambda topic: caller.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, quietly=True)


def _owned(parts: list[OwnedPartitions]) -> Assignment:
    owned: dict[uuid.UUID, frozenset[int]] = {}
    for part in parts:
        owned[part.topic_id] = owned.get(part.topic_id, frozenset()) | frozenset(part.partitions)
    return owned


def _told(assignment: Assignment) -> ToldAssignment:
    return ToldAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(assignment[topic_id]))
            for topic_id in sorted(assignment)
        ]
    )
