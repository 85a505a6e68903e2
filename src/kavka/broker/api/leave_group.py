"""LeaveGroup (key 13): members leave, each by its id, or (static) by its instance id.

Versions    0-2 one member; 3 many, with an error for each (KIP-345); 4 flexible; 5 reason (KIP-800).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.leave_group_request import LeaveGroupRequest
from kavka.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.protocol.connection import Request

_WHOLE_GROUP = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
"""Errors that concern the group and stand above its members."""


def handle(broker: Broker, request: Request, message: LeaveGroupRequest) -> Awaitable[LeaveGroupResponse]:
    return _leave(broker, request, message)


async def _leave(broker: Broker, request: Request, message: LeaveGroupRequest) -> LeaveGroupResponse:
    if request.header.api_version < 3:
        try:
            await broker.groups.leave(message.group_id, message.member_id, None)
        except RequestError as refused:
            return LeaveGroupResponse(error_code=refused.code)
        return LeaveGroupResponse(error_code=ErrorCode.NONE)
    members = []
    for member in message.members:
        error = ErrorCode.NONE
        try:
            await broker.groups.leave(message.group_id, member.member_id, member.group_instance_id, member.reason or "")
        except RequestError as refused:
            if refused.code in _WHOLE_GROUP:
                return LeaveGroupResponse(error_code=refused.code, members=[])
            error = refused.code
        members.append(
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
        )
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=members)
