"""ConsumerGroupDescribe (key 69): the members of consumer groups, their present and their target assignments.

Behaviour   Where the newer protocol is off, each group is UNSUPPORTED_VERSION, whoever asks. A group that is not there,
            or is a classic one, is GROUP_ID_NOT_FOUND. Topics that no longer exist are left out. A partition that a
            member must give up, and has not given up yet, is still part of its present assignment.
Versions    0; 1 the member's kind: 0 classic, 1 consumer (KIP-1099).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.found_group import found_group
from kavka.broker.api.security.authorized_operations import GROUP_OPERATIONS_SINCE_4, NOT_ASKED
from kavka.coordinator.groups.consumer.decide.assignors import preferred_assignor
from kavka.coordinator.groups.consumer.decide.group import Assignment as Partitions
from kavka.coordinator.groups.consumer.decide.group import ConsumerGroup, ConsumerMember
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kavka.protocol.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def handle(
    broker: GroupsBroker, request: Request, message: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    if not broker.serves_consumer_groups():
        unserved = [_refused(group_id, ErrorCode.UNSUPPORTED_VERSION, None) for group_id in message.group_ids]
        return ConsumerGroupDescribeResponse(groups=unserved)
    operations = GROUP_OPERATIONS_SINCE_4 if message.include_authorized_operations else NOT_ASKED
    return ConsumerGroupDescribeResponse(
        groups=[_group(broker, group_id, operations) for group_id in dict.fromkeys(message.group_ids)]
    )


def _refused(group_id: str, error: ErrorCode, why: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=error, error_message=why, group_id=group_id, group_state="", assignor_name="", members=[]
    )


def _group(broker: GroupsBroker, group_id: str, operations: int) -> DescribedGroup:
    try:
        group = found_group(
            broker.groups,
            group_id,
            find=broker.groups.describe_consumer_group,
            kind="consumer",
            is_served=broker.serves_consumer_groups(),
        )
    except RequestError as refused:
        return _refused(group_id, refused.code, refused.message or None)
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(
            (member.assignor for member in group.members.values()), broker.groups.assignors(group_id)
        ),
        members=[_member(broker, group, member) for member in group.members.values()],
        authorized_operations=operations,
    )


def _member(broker: GroupsBroker, group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(broker, member.held),
        target_assignment=_assignment(broker, group.target_of(member.member_id, member.instance_id)),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(broker: GroupsBroker, partitions: Partitions) -> Assignment:
    named = ((broker.metadata.topic_name(topic_id), topic_id) for topic_id in sorted(partitions))
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id]))
            for name, topic_id in named
            if name is not None
        ]
    )
