"""Guards of groups: their members, their committed offsets, and those who look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.api.guards.guard import (
    Then,
    hide_members,
    refuse_topics,
    show_operations,
    sort_out,
    sort_out_groups,
    then_add,
    then_join,
)
from kavka.errors import ErrorCode
from kavka.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kavka.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kavka.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from kavka.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kavka.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kavka.protocol.messages.delete_groups_response import DeletableGroupResult
from kavka.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kavka.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kavka.protocol.messages.heartbeat_request import HeartbeatRequest
from kavka.protocol.messages.heartbeat_response import HeartbeatResponse
from kavka.protocol.messages.join_group_request import JoinGroupRequest
from kavka.protocol.messages.join_group_response import JoinGroupResponse
from kavka.protocol.messages.leave_group_request import LeaveGroupRequest
from kavka.protocol.messages.leave_group_response import LeaveGroupResponse
from kavka.protocol.messages.list_groups_request import ListGroupsRequest
from kavka.protocol.messages.list_groups_response import ListGroupsResponse
from kavka.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from kavka.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kavka.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kavka.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kavka.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kavka.protocol.messages.sync_group_request import SyncGroupRequest
from kavka.protocol.messages.sync_group_response import SyncGroupResponse
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller

_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_TOPIC_IDS_IN_COMMIT = 10
_TOPIC_IDS_IN_FETCH = 10


def _may_read(caller: Caller, group_id: str) -> bool:
    return caller.may(Operation.READ, ResourceType.GROUP, group_id)


def join_group(broker: ApiBroker, caller: Caller, message: JoinGroupRequest) -> Any:
    """R G."""
    if _may_read(caller, message.group_id):
        return None
    return JoinGroupResponse(
        error_code=_GROUP,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if caller.request.header.api_version >= 7 else "",
        leader="",
        member_id="",
        members=[],
    )


def sync_group(broker: ApiBroker, caller: Caller, message: SyncGroupRequest) -> Any:
    """R G. A request that lacks what its version requires is the handler's to refuse."""
    lacks = caller.request.header.api_version >= 5 and (message.protocol_type is None or message.protocol_name is None)
    if lacks or _may_read(caller, message.group_id):
        return None
    return SyncGroupResponse(error_code=_GROUP, assignment=b"")


def heartbeat(broker: ApiBroker, caller: Caller, message: HeartbeatRequest) -> Any:
    """R G."""
    return None if _may_read(caller, message.group_id) else HeartbeatResponse(error_code=_GROUP)


def leave_group(broker: ApiBroker, caller: Caller, message: LeaveGroupRequest) -> Any:
    """R G."""
    return None if _may_read(caller, message.group_id) else LeaveGroupResponse(error_code=_GROUP, members=[])


def find_coordinator(broker: ApiBroker, caller: Caller, message: FindCoordinatorRequest) -> Any:
    """De G or De X, by the key's type; CA K for share groups."""
    many = caller.request.header.api_version >= 4
    if not many:
        error = _lookup_error(caller, message.key_type, message.key)
        if error is None:
            return None
        return FindCoordinatorResponse(error_code=error, error_message=error.name, node_id=-1, host="", port=-1)
    errors = {key: _lookup_error(caller, message.key_type, key) for key in message.coordinator_keys}
    refused = [
        None
        if error is None
        else Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message="")
        for key, error in ((key, errors[key]) for key in message.coordinator_keys)
    ]
    message.coordinator_keys = [key for key in message.coordinator_keys if errors[key] is None]
    return then_join(refused, to="coordinators")


def _lookup_error(caller: Caller, key_type: int, key: str) -> ErrorCode | None:
    match key_type:
        case 0 if not caller.may(Operation.DESCRIBE, ResourceType.GROUP, key):
            return _GROUP
        case 1 if not caller.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        case 2 if caller.request.header.api_version >= 6 and not caller.may_on_cluster(Operation.CLUSTER_ACTION):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


def describe_groups(broker: ApiBroker, caller: Caller, message: DescribeGroupsRequest) -> Any:
    """De G."""
    message.groups, refused = sort_out_groups(
        caller,
        Operation.DESCRIBE,
        message.groups,
        lambda group_id: DescribedGroup(
            error_code=_GROUP, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
        ),
    )

    def change(answer: DescribeGroupsResponse) -> DescribeGroupsResponse:
        show_operations(caller, answer.groups)
        answer.groups = [*refused, *answer.groups]
        return answer

    return Then(change)


def list_groups(broker: ApiBroker, caller: Caller, message: ListGroupsRequest) -> Any:
    """De K, else filtered by De G."""
    if caller.may_on_cluster(Operation.DESCRIBE, quietly=True):
        return None

    def change(answer: ListGroupsResponse) -> ListGroupsResponse:
        allowed = caller.allowed(
            Operation.DESCRIBE, ResourceType.GROUP, (group.group_id for group in answer.groups), quietly=True
        )
        answer.groups = [group for group in answer.groups if group.group_id in allowed]
        return answer

    return Then(change)


def delete_groups(broker: ApiBroker, caller: Caller, message: DeleteGroupsRequest) -> Any:
    """D G."""
    allowed = caller.allowed(Operation.DELETE, ResourceType.GROUP, message.groups_names)
    refused = [
        DeletableGroupResult(group_id=group_id, error_code=_GROUP)
        for group_id in dict.fromkeys(message.groups_names)
        if group_id not in allowed
    ]
    message.groups_names = [group_id for group_id in message.groups_names if group_id in allowed]
    return then_add(refused, to="results")


def offset_commit(broker: ApiBroker, caller: Caller, message: OffsetCommitRequest) -> Any:
    """R G, then R T."""
    if not _may_read(caller, message.group_id):
        return OffsetCommitResponse(topics=[_uncommitted(topic, _GROUP) for topic in message.topics])
    by_id = caller.request.header.api_version >= _TOPIC_IDS_IN_COMMIT

    def refusal(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic | None:
        name = broker.metadata.topic_name(topic.topic_id) if by_id else topic.name
        if name is None:  # Refused here: when the handler looks, the id may be known.
            return _uncommitted(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        return None if caller.may(Operation.READ, ResourceType.TOPIC, name) else _uncommitted(topic, _TOPIC)

    message.topics, refused = sort_out(message.topics, refusal)
    if refused and not message.topics:
        return OffsetCommitResponse(topics=refused)
    return then_add(refused, to="topics")


def _uncommitted(topic: Any, error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in topic.partitions
        ],
    )


def offset_delete(broker: ApiBroker, caller: Caller, message: OffsetDeleteRequest) -> Any:
    """D G, then R T."""
    if not caller.may(Operation.DELETE, ResourceType.GROUP, message.group_id):
        return OffsetDeleteResponse(error_code=_GROUP, topics=[])

    def refusal(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
        partitions = [
            OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=_TOPIC)
            for partition in topic.partitions
        ]
        return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)

    return refuse_topics(caller, Operation.READ, message, refusal)


# -- OffsetFetch


def offset_fetch(broker: ApiBroker, caller: Caller, message: OffsetFetchRequest) -> Any:
    """De G, then De T; where all offsets are asked for, they are filtered."""
    if caller.request.header.api_version >= 8:
        return _fetch_of_groups(broker, caller, message)
    if not caller.may(Operation.DESCRIBE, ResourceType.GROUP, message.group_id):
        return _denied_group(caller.request.header.api_version, message)
    if message.topics is None:
        return Then(lambda answer: _filter(caller, answer))
    return refuse_topics(caller, Operation.DESCRIBE, message, lambda topic: _old_topic(topic, _TOPIC))


def _denied_group(version: int, message: OffsetFetchRequest) -> OffsetFetchResponse:
    if version >= 2:
        return OffsetFetchResponse(error_code=_GROUP, topics=[])
    return OffsetFetchResponse(topics=[_old_topic(topic, _GROUP) for topic in message.topics or ()])


def _old_topic(topic: Any, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ],
    )


def _filter(caller: Caller, answer: OffsetFetchResponse) -> OffsetFetchResponse:
    answer.topics = [
        topic for topic in answer.topics if caller.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True)
    ]
    return answer


def _fetch_of_groups(broker: ApiBroker, caller: Caller, message: OffsetFetchRequest) -> Any:
    by_id = caller.request.header.api_version >= _TOPIC_IDS_IN_FETCH
    denied_groups: list[OffsetFetchResponseGroup] = []
    denied_topics: dict[str, list[OffsetFetchResponseTopics]] = {}
    filtered: set[str] = set()
    left: list[OffsetFetchRequestGroup] = []
    for group in message.groups:
        if not caller.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            denied_groups.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=_GROUP, topics=[]))
            continue
        left.append(group)
        if group.topics is None:
            filtered.add(group.group_id)
            continue
        kept = []
        for topic in group.topics:
            name = broker.metadata.topic_name(topic.topic_id) if by_id else topic.name
            if name is None or caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
                kept.append(topic)
            else:
                denied_topics.setdefault(group.group_id, []).append(_topic(topic))
        group.topics = kept
    message.groups = left

    def change(answer: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in answer.groups:
            if group.group_id in filtered:
                group.topics = [
                    topic
                    for topic in group.topics
                    if caller.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True)
                ]
            if group.error_code == ErrorCode.NONE:
                group.topics = [*group.topics, *denied_topics.pop(group.group_id, ())]
        answer.groups = [*answer.groups, *denied_groups]
        return answer

    return Then(change)


def _topic(topic: Any) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=_TOPIC
            )
            for index in topic.partition_indexes
        ],
    )


# -- the newer protocol


def consumer_group_heartbeat(broker: ApiBroker, caller: Caller, message: ConsumerGroupHeartbeatRequest) -> Any:
    """R G; De T of the topics that it subscribes to by name. Of those that an expression matches the handler asks."""
    if not broker.serves_consumer_groups():
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not _may_read(caller, message.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=_GROUP)
    names = set(message.subscribed_topic_names or ())
    if len(caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(names):
        return ConsumerGroupHeartbeatResponse(error_code=_TOPIC)
    return None


def consumer_group_describe(broker: ApiBroker, caller: Caller, message: ConsumerGroupDescribeRequest) -> Any:
    """De G; a group of which the caller may not describe every topic is shown without its members. Where the newer
    protocol is off, nobody learns what he may see."""
    if not broker.serves_consumer_groups():
        unserved = [_undescribed(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in message.group_ids]
        return ConsumerGroupDescribeResponse(groups=unserved)
    message.group_ids, refused = sort_out_groups(
        caller, Operation.DESCRIBE, message.group_ids, lambda group_id: _undescribed(group_id, _GROUP)
    )

    def change(answer: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        show_operations(caller, answer.groups)
        for group in answer.groups:
            names = (
                name
                for member in group.members
                for name in (
                    *member.subscribed_topic_names,
                    *(part.topic_name for part in member.assignment.topic_partitions),
                    *(part.topic_name for part in member.target_assignment.topic_partitions),
                )
            )
            hide_members(caller, group, names)
        answer.groups = [*refused, *answer.groups]
        return answer

    return Then(change)


def _undescribed(group_id: str, error: ErrorCode) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(error_code=error, group_id=group_id, group_state="", assignor_name="", members=[])
