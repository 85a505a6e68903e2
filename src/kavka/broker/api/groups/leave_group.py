"""LeaveGroup (key 13): members leave, each by its member id or, if static, by its instance id.

Behaviour   A member names itself. Administrators remove members of both protocols, static ones by their instance ids
            with no member id (Java's removeMembersFromConsumerGroup). All members of one request leave at once, so that
            the others rebalance once.
Versions    0-2 one member; 3 many, with an error for each (KIP-345); 4 flexible; 5 reason (KIP-800).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.coordinator.groups.classic.decide.membership import Leaver
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.leave_group_request import LeaveGroupRequest
from kavka.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request

_FIRST_VERSION_WITH_MEMBERS = 3


def handle(broker: GroupsBroker, request: Request, message: LeaveGroupRequest) -> Awaitable[LeaveGroupResponse]:
    return _leave(broker, request, message)


async def _leave(broker: GroupsBroker, request: Request, message: LeaveGroupRequest) -> LeaveGroupResponse:
    if request.header.api_version < _FIRST_VERSION_WITH_MEMBERS:
        leavers = [Leaver(message.member_id)]
    else:
        leavers = [Leaver(one.member_id, one.group_instance_id, one.reason or "") for one in message.members]
    try:
        errors = await broker.groups.leave(message.group_id, leavers)
    except RequestError as refused:
        return LeaveGroupResponse(error_code=refused.code, members=[])
    if request.header.api_version < _FIRST_VERSION_WITH_MEMBERS:
        return LeaveGroupResponse(error_code=errors[0])
    members = [
        MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error)
        for leaver, error in zip(leavers, errors, strict=True)
    ]
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=members)
