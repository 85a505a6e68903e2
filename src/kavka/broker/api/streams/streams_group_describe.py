"""StreamsGroupDescribe (key 89): the topology of Kafka Streams applications, their members, and which task each has.

Behaviour   Where the protocol is off, each group is UNSUPPORTED_VERSION, whoever asks. A group that is not there, or is
            of another kind, is GROUP_ID_NOT_FOUND. Internal topics have the numbers of partitions that the broker chose
            once the topology is ready, and before that those that the application asked for (0: the broker chooses).
            Tasks that a member must give back are not shown among those it has. A group is described once, however
            often it is named.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kavka.broker.api.found_group import found_group
from kavka.broker.api.security.authorized_operations import GROUP_OPERATIONS_SINCE_4, NOT_ASKED
from kavka.coordinator.groups.streams.decide.group import StreamsGroup, StreamsMember
from kavka.coordinator.groups.streams.decide.tasks import TaskIds as Ids
from kavka.coordinator.groups.streams.decide.tasks import Tasks
from kavka.coordinator.groups.streams.decide.topology import ConfiguredSubtopology, InternalTopic
from kavka.coordinator.groups.streams.decide.topology import Subtopology as KnownSubtopology
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kavka.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

if TYPE_CHECKING:
    from kavka.broker.api.streams.ports import StreamsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: StreamsBroker, request: Request, message: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    operations = GROUP_OPERATIONS_SINCE_4 if message.include_authorized_operations else NOT_ASKED
    return StreamsGroupDescribeResponse(
        groups=[_group(broker, group_id, operations) for group_id in dict.fromkeys(message.group_ids)]
    )


def _group(broker: StreamsBroker, group_id: str, operations: int) -> DescribedGroup:
    try:
        group = found_group(
            broker.groups,
            group_id,
            find=broker.groups.describe_streams_group,
            kind="streams",
            is_served=broker.serves_streams_groups(),
        )
    except RequestError as refused:
        return DescribedGroup(error_code=refused.code, error_message=refused.message or None, group_id=group_id)
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(member, group.target_of(member.member_id)) for member in group.members.values()],
        authorized_operations=operations,
    )


def _topology(group: StreamsGroup) -> Topology | None:
    if group.topology is None:
        return None
    parts: dict[str, KnownSubtopology | ConfiguredSubtopology] = dict(group.topology.subtopologies)
    configured = group.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        parts.update(configured.subtopologies)
    return Topology(
        epoch=group.topology.epoch, subtopologies=[_subtopology(name, parts[name]) for name in sorted(parts)]
    )


def _subtopology(subtopology_id: str, part: KnownSubtopology | ConfiguredSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(part.source_topics),
        repartition_sink_topics=sorted(part.repartition_sinks),
        state_changelog_topics=_topics(part.changelogs),
        repartition_source_topics=_topics(part.repartition_sources),
    )


def _topics(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partition_count,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.settings],
        )
        for topic in sorted(topics)
    ]


def _member(member: StreamsMember, target: Tasks) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: Tasks) -> Assignment:
    return Assignment(
        active_tasks=_ids(tasks.active), standby_tasks=_ids(tasks.standby), warmup_tasks=_ids(tasks.warmup)
    )


def _ids(ids: Ids) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(ids[name])) for name in sorted(ids)]
