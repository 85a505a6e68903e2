"""What the group APIs share: the coordinator's own topic, and refusals that become answers. Not an API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.join_group_response import JoinGroupResponse

if TYPE_CHECKING:
    from kavka.protocol.connection import Request


def join_refusal(request: Request, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A JoinGroup that leads to no generation. Before version 7 the protocol's name cannot be null."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if request.header.api_version >= 7 else "",
        leader="",
        member_id=member_id,
        members=[],
    )
