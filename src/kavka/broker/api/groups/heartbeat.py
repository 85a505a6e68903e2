"""Heartbeat (key 12): a member of a classic group shows that it is alive, and learns of a rebalance.

Behaviour   The answer comes at once. REBALANCE_IN_PROGRESS asks the member to join again.
Versions    0; 1; 2; 3 static members; 4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.heartbeat_request import HeartbeatRequest
from kavka.protocol.messages.heartbeat_response import HeartbeatResponse

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request


def handle(broker: GroupsBroker, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
    try:
        broker.groups.heartbeat(message.group_id, message.member_id, message.group_instance_id, message.generation_id)
    except RequestError as refused:
        return HeartbeatResponse(error_code=refused.code)
    return HeartbeatResponse(error_code=ErrorCode.NONE)
