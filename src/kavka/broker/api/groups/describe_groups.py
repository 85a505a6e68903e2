"""DescribeGroups (key 15): members and assignments of groups.

Behaviour   An unknown group is in state Dead; from version 6 on it is GROUP_ID_NOT_FOUND as well. The answer shows
            assignments and metadata only while the group is stable.
Versions    0; 1; 2; 3 authorised operations; 4 static members; 5 flexible; 6 GROUP_ID_NOT_FOUND (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.found_group import not_found
from kavka.broker.api.security.authorized_operations import GROUP_OPERATIONS, GROUP_OPERATIONS_SINCE_4, NOT_ASKED
from kavka.coordinator.groups.classic.decide.membership import GroupState
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kavka.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request


def handle(broker: GroupsBroker, request: Request, message: DescribeGroupsRequest) -> DescribeGroupsResponse:
    allowed = GROUP_OPERATIONS_SINCE_4 if request.header.api_version >= 6 else GROUP_OPERATIONS
    operations = allowed if message.include_authorized_operations else NOT_ASKED
    return DescribeGroupsResponse(
        groups=[_group(broker, request.header.api_version, group_id, operations) for group_id in message.groups]
    )


def _group(broker: GroupsBroker, version: int, group_id: str, operations: int) -> DescribedGroup:
    try:
        group = broker.groups.describe_group(group_id)
    except RequestError as refused:
        return DescribedGroup(
            error_code=refused.code,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        )
    if group is None:
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE,
            error_message=not_found(broker.groups, group_id, "classic") if version >= 6 else None,
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=[],
            # Nobody may do anything with what is not there; as Dead, in older versions, it is a group like others.
            authorized_operations=NOT_ASKED if version >= 6 else operations,
        )
    stable = group.state is GroupState.STABLE and group.protocol is not None
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol or "") if stable else b"",
                member_assignment=member.assignment if stable else b"",
            )
            for member in group.members.values()
        ],
        authorized_operations=operations,
    )
