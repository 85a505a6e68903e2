"""Guards of streams groups: their members, and those who look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.api.guards.guard import Then, show_operations, sort_out_groups
from kavka.broker.api.topology_names import flaw, topic_names
from kavka.errors import ErrorCode
from kavka.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kavka.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from kavka.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kavka.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller


def streams_group_heartbeat(broker: ApiBroker, caller: Caller, message: StreamsGroupHeartbeatRequest) -> Any:
    """R G; De T of all topics of the topology. The handler asks for C K or C T of internal topics that are missing."""
    if not broker.serves_streams_groups():
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not caller.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [] if message.topology is None else topic_names(message.topology.subtopologies)
    if flaw(broker, names) is not None:
        return None  # The handler says what is wrong with it.
    if len(caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(names):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def streams_group_describe(broker: ApiBroker, caller: Caller, message: StreamsGroupDescribeRequest) -> Any:
    """De G; a group of which the caller may not describe every topic is not shown. Where the protocol is off, nobody
    learns what he may see."""
    if not broker.serves_streams_groups():
        return None
    message.group_ids, refused = sort_out_groups(
        caller,
        Operation.DESCRIBE,
        message.group_ids,
        lambda group_id: DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id),
    )

    def change(answer: StreamsGroupDescribeResponse) -> StreamsGroupDescribeResponse:
        show_operations(caller, answer.groups)
        answer.groups = [*refused, *(_shown(caller, group) for group in answer.groups)]
        return answer

    return Then(change)


def _shown(caller: Caller, group: DescribedGroup) -> DescribedGroup:
    names = [] if group.topology is None else topic_names(group.topology.subtopologies or ())
    if len(caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) == len(names):
        return group
    return DescribedGroup(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The described group uses topics that the client is not authorized to describe.",
        group_id=group.group_id,
    )
