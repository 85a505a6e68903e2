"""DeleteGroups (key 42): deletes groups without members, with their offsets.

Behaviour   Each group is deleted for itself, and one that is named twice is deleted once.
Versions    0; 1; 2 flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kavka.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request


def handle(broker: GroupsBroker, request: Request, message: DeleteGroupsRequest) -> Awaitable[DeleteGroupsResponse]:
    return _delete(broker, message)


async def _delete(broker: GroupsBroker, message: DeleteGroupsRequest) -> DeleteGroupsResponse:
    results = []
    for group_id in dict.fromkeys(message.groups_names):
        error = ErrorCode.NONE
        try:
            await broker.groups.delete_group(group_id)
        except RequestError as refused:
            error = refused.code
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    return DeleteGroupsResponse(results=results)
