"""Guards of share groups' members. Of records their handlers ask: what these are about is in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.api.guards.guard import Then
from kavka.broker.api.security.authorized_operations import NOT_ASKED
from kavka.errors import ErrorCode
from kavka.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kavka.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from kavka.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kavka.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kavka.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller


def share_group_heartbeat(broker: ApiBroker, caller: Caller, message: ShareGroupHeartbeatRequest) -> Any:
    """R G; De T of the topics that it subscribes to."""
    if not broker.serves_share_groups():
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not caller.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = set(message.subscribed_topic_names or ())
    if len(caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(names):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def share_group_describe(broker: ApiBroker, caller: Caller, message: ShareGroupDescribeRequest) -> Any:
    """De G; a group of which the caller may not describe every topic is shown without its members."""
    allowed = caller.allowed(Operation.DESCRIBE, ResourceType.GROUP, message.group_ids)
    refused = [
        DescribedGroup(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            group_id=group_id,
            group_state="",
            assignor_name="",
            members=[],
        )
        for group_id in message.group_ids
        if group_id not in allowed
    ]
    message.group_ids = [group_id for group_id in message.group_ids if group_id in allowed]

    def change(answer: ShareGroupDescribeResponse) -> ShareGroupDescribeResponse:
        for group in answer.groups:
            if group.authorized_operations != NOT_ASKED:
                group.authorized_operations = caller.operations(
                    group.authorized_operations, ResourceType.GROUP, group.group_id
                )
            names = {
                name
                for member in group.members
                for name in (
                    *member.subscribed_topic_names,
                    *(part.topic_name for part in member.assignment.topic_partitions),
                )
            }
            if len(caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(names):
                group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                group.error_message = "The group has described topic(s) that the client is not authorized to describe."
                group.members = []
        answer.groups = [*refused, *answer.groups]
        return answer

    return Then(change)
