"""ShareGroupHeartbeat (key 76): a member of a share group joins, stays or leaves, and learns its partitions.

Behaviour   The rules are in `coordinator.groups.share.decide.heartbeat`. The answer waits until every change that the
            heartbeat caused is in the log, and for the states of new partitions. UNSUPPORTED_VERSION while the
            cluster's share.version is 0.
Versions    1.
Not supported  Version 0, of 4.0's early access.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.coordinator.groups.share.decide.heartbeat import ShareHeartbeat
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kavka.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: ShareGroupHeartbeatRequest
) -> Awaitable[ShareGroupHeartbeatResponse]:
    return _beat(broker, request, message)


async def _beat(
    broker: ShareBroker, request: Request, message: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    try:
        answer = await broker.groups.share_heartbeat(
            ShareHeartbeat(
                message.group_id,
                message.member_id,
                message.member_epoch,
                message.rack_id,
                message.subscribed_topic_names,
                request.header.client_id or "",
                f"/{request.context.client_host}",
            )
        )
    except RequestError as refused:
        return ShareGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message or None)
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None
        if answer.assignment is None
        else Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(answer.assignment[topic_id]))
                for topic_id in sorted(answer.assignment)
            ]
        ),
    )
