"""JoinGroup (key 11): a member enters its group's next generation.

Behaviour   The classic group protocol; the rules are in `coordinator.groups.classic.decide.group`. The answer waits
            until the generation begins. From version 4 on, a member without an id first gets one, with
            MEMBER_ID_REQUIRED (KIP-394).
Versions    0 (session time-out for both); 1 rebalance time-out; 2; 3; 4 member id required; 5 static members (KIP-345);
            6 flexible; 7 protocol type (KIP-559); 8 reason (KIP-800); 9 the assignment may be skipped (KIP-814).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol
from kavka.coordinator.groups.classic.decide.membership import JoinRequest as Join
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.join_group_request import JoinGroupRequest
from kavka.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request


def handle(broker: GroupsBroker, request: Request, message: JoinGroupRequest) -> Awaitable[JoinGroupResponse]:
    return _join(broker, request, message)


async def _join(broker: GroupsBroker, request: Request, message: JoinGroupRequest) -> JoinGroupResponse:
    version = request.header.api_version
    instance = message.group_instance_id
    join = Join(
        message.member_id,
        instance,
        request.header.client_id or "",
        f"/{request.context.client_host}",
        message.session_timeout_ms,
        message.rebalance_timeout_ms if version >= 1 else message.session_timeout_ms,
        message.protocol_type,
        [JoinProtocol(protocol.name, bytes(protocol.metadata)) for protocol in message.protocols],
        require_known_member_id=version >= 4 and instance is None,
        supports_skipping_assignment=version >= 9,
        reason=message.reason or "",
    )
    try:
        answer = await broker.groups.join(message.group_id, join)
    except RequestError as refused:
        return _refusal(request, refused.code, message.member_id)
    if answer.error is not ErrorCode.NONE:
        return _refusal(request, answer.error, answer.member_id)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in answer.members
        ],
    )


def _refusal(request: Request, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A join that leads to no generation. Before version 7 the protocol's name cannot be null."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if request.header.api_version >= 7 else "",
        leader="",
        member_id=member_id,
        members=[],
    )
