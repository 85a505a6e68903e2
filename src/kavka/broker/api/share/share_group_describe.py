"""ShareGroupDescribe (key 77): the members of share groups, and what each of them reads.

Behaviour   A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND. Topics that no longer exist are
            left out. A group is described once, however often it is named.
Versions    1.
Not supported  Version 0, of 4.0's early access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.found_group import found_group
from kavka.broker.api.security.authorized_operations import GROUP_OPERATIONS_SINCE_4, NOT_ASKED
from kavka.coordinator.groups.share.decide.group import ShareMember
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kavka.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request

_ASSIGNOR = "simple"


def handle(broker: ShareBroker, request: Request, message: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    operations = GROUP_OPERATIONS_SINCE_4 if message.include_authorized_operations else NOT_ASKED
    return ShareGroupDescribeResponse(
        groups=[_group(broker, group_id, operations) for group_id in dict.fromkeys(message.group_ids)]
    )


def _group(broker: ShareBroker, group_id: str, operations: int) -> DescribedGroup:
    try:
        group = found_group(
            broker.groups,
            group_id,
            find=broker.groups.describe_share_group,
            kind="share",
            is_served=broker.serves_share_groups(),
        )
    except RequestError as refused:
        return DescribedGroup(
            error_code=refused.code,
            error_message=refused.message or None,
            group_id=group_id,
            group_state="",
            assignor_name="",
            members=[],
        )
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=_ASSIGNOR,
        members=[_member(broker, member) for member in group.members.values()],
        authorized_operations=operations,
    )


def _member(broker: ShareBroker, member: ShareMember) -> Member:
    named = ((broker.metadata.topic_name(topic_id), topic_id) for topic_id in sorted(member.assigned))
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(member.assigned[topic_id]))
                for name, topic_id in named
                if name is not None
            ]
        ),
    )
