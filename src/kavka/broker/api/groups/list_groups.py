"""ListGroups (key 16): the groups that this broker coordinates.

Behaviour   Filters on states and types narrow the list together. Case does not matter in them.
Versions    0; 1; 2; 3 flexible; 4 states, and a filter on them (KIP-518); 5 types, and a filter on them (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.list_groups_request import ListGroupsRequest
from kavka.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request


def handle(broker: GroupsBroker, request: Request, message: ListGroupsRequest) -> ListGroupsResponse:
    try:
        groups = broker.groups.list_groups() if broker.has_groups else []
    except RequestError as refused:
        return ListGroupsResponse(error_code=refused.code, groups=[])
    states = {state.lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    return ListGroupsResponse(
        error_code=ErrorCode.NONE,
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.kind,
            )
            for group in groups
            if (not states or group.state.lower() in states) and (not types or group.kind in types)
        ],
    )
