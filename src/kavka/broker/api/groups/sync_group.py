"""SyncGroup (key 14): the leader hands in the assignment, and every member gets its part.

Behaviour   The answer waits until the leader's assignment is in the log.
Versions    0; 1; 2; 3 static members; 4 flexible; 5 protocol type and name (KIP-559; required from then on).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.coordinator.groups.classic.decide.membership import SyncRequest
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.sync_group_request import SyncGroupRequest
from kavka.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: GroupsBroker, request: Request, message: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if request.header.api_version >= 5 and (message.protocol_type is None or message.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    return _sync(broker, message)


async def _sync(broker: GroupsBroker, message: SyncGroupRequest) -> SyncGroupResponse:
    try:
        answer = await broker.groups.sync(
            message.group_id,
            SyncRequest(
                message.member_id,
                message.group_instance_id,
                message.generation_id,
                message.protocol_type,
                message.protocol_name,
                {assignment.member_id: bytes(assignment.assignment) for assignment in message.assignments},
            ),
        )
    except RequestError as refused:
        return SyncGroupResponse(error_code=refused.code, assignment=b"")
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )
