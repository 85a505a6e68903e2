"""Guards of share groups: of their members and positions. Of records their handlers ask: what these are about is in a
session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka.broker.api.guards.guard import (
    Then,
    hide_members,
    nothing_to_ask,
    refuse_topics,
    show_operations,
    sort_out,
    sort_out_groups,
)
from kavka.errors import ErrorCode
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from kavka.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kavka.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kavka.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kavka.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestTopic,
)
from kavka.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kavka.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kavka.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from kavka.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kavka.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.guards.guard import Guard
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
    message.group_ids, refused = sort_out_groups(
        caller,
        Operation.DESCRIBE,
        message.group_ids,
        lambda group_id: DescribedGroup(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            group_id=group_id,
            group_state="",
            assignor_name="",
            members=[],
        ),
    )

    def change(answer: ShareGroupDescribeResponse) -> ShareGroupDescribeResponse:
        show_operations(caller, answer.groups)
        for group in answer.groups:
            names = (
                name
                for member in group.members
                for name in (
                    *member.subscribed_topic_names,
                    *(part.topic_name for part in member.assignment.topic_partitions),
                )
            )
            hide_members(caller, group, names)
        answer.groups = [*refused, *answer.groups]
        return answer

    return Then(change)


def describe_share_group_offsets(broker: ApiBroker, caller: Caller, message: DescribeShareGroupOffsetsRequest) -> Any:
    """De G; De T, and where all topics are asked for, those that the caller may not see are left out."""
    groups = caller.allowed(Operation.DESCRIBE, ResourceType.GROUP, (group.group_id for group in message.groups))
    message.groups, refused = sort_out(
        message.groups,
        lambda group: (
            None
            if group.group_id in groups
            else DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
        ),
    )
    denied: dict[str, list[DescribeShareGroupOffsetsResponseTopic]] = {}
    for group in message.groups:
        if group.topics is not None:
            names = {topic.topic_name for topic in group.topics}
            seen = caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
            denied[group.group_id] = [_undescribed(topic) for topic in group.topics if topic.topic_name not in seen]
            group.topics = [topic for topic in group.topics if topic.topic_name in seen]

    def change(answer: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
        for group in answer.groups:
            if group.error_code == ErrorCode.NONE:
                names = {topic.topic_name for topic in group.topics}
                seen = caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
                group.topics = [topic for topic in group.topics if topic.topic_name in seen]
                group.topics += denied.get(group.group_id, [])
        answer.groups = [*answer.groups, *refused]
        return answer

    return Then(change)


def _undescribed(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=-1,
                lag=-1,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=ErrorCode.TOPIC_AUTHORIZATION_FAILED.name,
            )
            for index in topic.partitions
        ],
    )


def alter_share_group_offsets(broker: ApiBroker, caller: Caller, message: AlterShareGroupOffsetsRequest) -> Any:
    """R G, then R T; Kafka tells the id of a topic that the caller may not read."""
    if not caller.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def refusal(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
        return AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=ErrorCode.TOPIC_AUTHORIZATION_FAILED.name,
                )
                for partition in topic.partitions
            ],
        )

    return refuse_topics(caller, Operation.READ, message, refusal, name=_topic_name, to="responses")


def delete_share_group_offsets(broker: ApiBroker, caller: Caller, message: DeleteShareGroupOffsetsRequest) -> Any:
    """D G, then R T."""
    if not caller.may(Operation.DELETE, ResourceType.GROUP, message.group_id):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def refusal(topic: DeleteShareGroupOffsetsRequestTopic) -> DeleteShareGroupOffsetsResponseTopic:
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=ErrorCode.TOPIC_AUTHORIZATION_FAILED.name,
        )

    return refuse_topics(caller, Operation.READ, message, refusal, name=_topic_name, to="responses")


def _topic_name(topic: AlterShareGroupOffsetsRequestTopic | DeleteShareGroupOffsetsRequestTopic) -> str:
    return topic.topic_name


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: share_group_describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: delete_share_group_offsets,
    ApiKey.SHARE_FETCH: nothing_to_ask,  # Its handler asks, as for Fetch.
    ApiKey.SHARE_ACKNOWLEDGE: nothing_to_ask,  # The same.
}
