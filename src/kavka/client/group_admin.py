"""GroupAdmin: groups of every kind as an administrator sees them: lists, members, offsets, deletions.

Decides which request shows a group, by what its coordinator says of it: DescribeGroups for classic groups,
ConsumerGroupDescribe for those of KIP-848, ShareGroupDescribe for those of KIP-932, StreamsGroupDescribe for those of
KIP-1071. Must not know how a group is
shown to people.

Source: KIP-222, KIP-496 (offsets deleted), KIP-518 and KIP-848 (states and types of groups).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.client.answers import raise_for
from kavka.client.assignor import PROTOCOL_TYPE, decode_assignment
from kavka.client.cluster import Cluster
from kavka.client.described_group import ask_about_group
from kavka.client.group import HIGHEST_OFFSET_FETCH, CommittedOffset, GroupMember
from kavka.client.settings import ConsumerSettings
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kavka.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kavka.protocol.messages.delete_groups_response import DeleteGroupsResponse
from kavka.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kavka.protocol.messages.describe_groups_response import DescribedGroupMember, DescribeGroupsResponse
from kavka.protocol.messages.list_groups_request import ListGroupsRequest
from kavka.protocol.messages.list_groups_response import ListGroupsResponse
from kavka.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kavka.protocol.messages.offset_delete_response import OffsetDeleteResponse
from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kavka.protocol.messages.offset_fetch_response import OffsetFetchResponse
from kavka.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kavka.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
from kavka.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kavka.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    Member,
    StreamsGroupDescribeResponse,
    TaskIds,
)

SHARE: Final = "share"
"""The kind of groups of KIP-932, which have positions of their own (`ShareGroupAdmin`), and commit no offsets."""
DEAD: Final = "Dead"
"""The state of a group that does not exist."""
NO_MEMBERS: Final = ("Empty", DEAD)
"""States of a group that nobody is a member of."""


class ListedGroup(NamedTuple):
    """`kind` is classic, consumer, share or streams; empty if the broker is too old to report it."""

    group_id: str
    kind: str
    protocol_type: str
    state: str
    coordinator: int


class ShownTasks(NamedTuple):
    """The tasks of a streams group's member, by subtopology."""

    active: Mapping[str, Sequence[int]]
    standby: Mapping[str, Sequence[int]]
    warmup: Mapping[str, Sequence[int]]


class ShownMember(NamedTuple):
    """A member; `epoch` is None in a classic group, `tasks` in all but streams groups, whose members' `assignment` is
    what their active tasks read."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int | None
    tasks: ShownTasks | None = None
    process_id: str = ""


class ShownGroup(NamedTuple):
    """A group; `protocol` is its assignor, `epoch` and `assignment_epoch` None in a classic group."""

    group_id: str
    kind: str
    state: str
    protocol: str
    coordinator: int
    epoch: int | None
    assignment_epoch: int | None
    members: tuple[ShownMember, ...]


class GroupAdmin:
    """Groups of one cluster, over its connections."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_groups(self) -> list[ListedGroup]:
        """All groups of all brokers, by id."""
        await self._cluster.refresh([])
        found = await asyncio.gather(*map(self._of_broker, sorted(self._cluster.brokers)))
        return sorted(group for groups in found for group in groups)

    async def describe(self, group_id: str) -> ShownGroup:
        """The group. A group that does not exist is Dead, without members. Raises `RequestError`."""
        classic = await self._describe_classic(group_id)
        if classic.state != DEAD:
            return classic
        for look in (self._describe_consumer, self._describe_share, self._describe_streams):
            try:
                return await look(group_id)
            except RequestError as refused:
                # Older brokers do not know the newer protocols, and others know no such group.
                if refused.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                    raise
        return classic

    async def delete(self, group_id: str) -> None:
        """Deletes a group without members, with its offsets; raises `RequestError`."""

        async def ask() -> None:
            node_id = await self._cluster.find_coordinator(group_id)
            answer = await self._cluster.ask(
                ApiKey.DELETE_GROUPS,
                DeleteGroupsRequest(groups_names=[group_id]),
                DeleteGroupsResponse,
                node_id=node_id,
            )
            raise_for(answer.results[0].error_code, f"group {group_id!r}")

        await self._cluster.retry(ask, what=f"delete group {group_id!r}")

    async def offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All committed offsets of a group."""

        async def ask() -> dict[TopicPartition, CommittedOffset]:
            node_id = await self._cluster.find_coordinator(group_id)
            answer = await self._cluster.ask(
                ApiKey.OFFSET_FETCH,
                OffsetFetchRequest(group_id=group_id, topics=None),
                OffsetFetchResponse,
                node_id=node_id,
                highest=HIGHEST_OFFSET_FETCH,
            )
            raise_for(answer.error_code, f"offsets of group {group_id!r}")
            return {
                TopicPartition(topic.name, partition.partition_index): CommittedOffset(
                    partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                )
                for topic in answer.topics
                for partition in topic.partitions
                if partition.committed_offset >= 0
            }

        return await self._cluster.retry(ask, what=f"fetch offsets of group {group_id!r}")

    async def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits offsets for a group without members. Raises `RequestError` if it has members."""
        member = GroupMember(self._cluster, ConsumerSettings(group_id=group_id))
        await member.commit({partition: CommittedOffset(offset) for partition, offset in offsets.items()})

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Deletes the committed offsets of these partitions. Returns an error code for each. Raises `RequestError` if
        all fail."""
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for topic, partition in partitions:
            entry = topics.setdefault(topic, OffsetDeleteRequestTopic(name=topic, partitions=[]))
            entry.partitions.append(OffsetDeleteRequestPartition(partition_index=partition))

        async def ask() -> dict[TopicPartition, ErrorCode]:
            node_id = await self._cluster.find_coordinator(group_id)
            answer = await self._cluster.ask(
                ApiKey.OFFSET_DELETE,
                OffsetDeleteRequest(group_id=group_id, topics=list(topics.values())),
                OffsetDeleteResponse,
                node_id=node_id,
            )
            raise_for(answer.error_code, f"offsets of group {group_id!r}")
            return {
                TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
                for topic in answer.topics
                for partition in topic.partitions
            }

        return await self._cluster.retry(ask, what=f"delete offsets of group {group_id!r}")

    async def _of_broker(self, node_id: int) -> list[ListedGroup]:
        async def ask() -> list[ListedGroup]:
            answer = await self._cluster.ask(
                ApiKey.LIST_GROUPS, ListGroupsRequest(), ListGroupsResponse, node_id=node_id
            )
            raise_for(answer.error_code, f"groups of broker {node_id}")
            return [
                ListedGroup(group.group_id, group.group_type.lower(), group.protocol_type, group.group_state, node_id)
                for group in answer.groups
            ]

        return await self._cluster.retry(ask, what=f"list groups of broker {node_id}")

    async def _describe_classic(self, group_id: str) -> ShownGroup:
        async def ask() -> ShownGroup:
            node_id = await self._cluster.find_coordinator(group_id)
            answer = await self._cluster.ask(
                ApiKey.DESCRIBE_GROUPS,
                DescribeGroupsRequest(groups=[group_id]),
                DescribeGroupsResponse,
                node_id=node_id,
            )
            group = answer.groups[0]
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                return ShownGroup(group_id, "", "Dead", "", node_id, None, None, ())
            raise_for(group.error_code, f"group {group_id!r}")
            reads = group.protocol_type == PROTOCOL_TYPE
            members = tuple(_classic_member(member, reads=reads) for member in group.members)
            return ShownGroup(group_id, "classic", group.group_state, group.protocol_data, node_id, None, None, members)

        return await self._cluster.retry(ask, what=f"describe group {group_id!r}")

    async def _describe_share(self, group_id: str) -> ShownGroup:
        node_id, group = await ask_about_group(
            self._cluster,
            group_id,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ShareGroupDescribeRequest(group_ids=[group_id]),
            ShareGroupDescribeResponse,
        )
        members = tuple(_member(member, None) for member in group.members)
        return _shown(SHARE, node_id, group, members, group.assignor_name)

    async def _describe_consumer(self, group_id: str) -> ShownGroup:
        node_id, group = await ask_about_group(
            self._cluster,
            group_id,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ConsumerGroupDescribeRequest(group_ids=[group_id]),
            ConsumerGroupDescribeResponse,
        )
        members = tuple(_member(member, member.instance_id) for member in group.members)
        return _shown("consumer", node_id, group, members, group.assignor_name)

    async def _describe_streams(self, group_id: str) -> ShownGroup:
        node_id, group = await ask_about_group(
            self._cluster,
            group_id,
            ApiKey.STREAMS_GROUP_DESCRIBE,
            StreamsGroupDescribeRequest(group_ids=[group_id]),
            StreamsGroupDescribeResponse,
        )
        sources = _sources(group)
        read = sorted({name for names in sources.values() for name in names})
        await self._cluster.retry(lambda: self._cluster.refresh(read), what=f"describe group {group_id!r}")
        members = tuple(self._streams_member(member, sources) for member in group.members)
        return _shown("streams", node_id, group, members)

    def _streams_member(self, member: Member, sources: Mapping[str, Sequence[str]]) -> ShownMember:
        has = member.assignment
        tasks = ShownTasks(*map(_tasks, (has.active_tasks, has.standby_tasks, has.warmup_tasks)))
        reads = tuple(
            TopicPartition(name, partition)
            for subtopology, partitions in tasks.active.items()
            for name in sources.get(subtopology, ())
            for partition in partitions
            if partition < self._partition_count(name)
        )
        return ShownMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            reads,
            member.member_epoch,
            tasks,
            member.process_id,
        )

    def _partition_count(self, name: str) -> int:
        topic = self._cluster.topics.get(name)
        return 0 if topic is None else len(topic.partitions)


def _shown(kind: str, node_id: int, group: Any, members: tuple[ShownMember, ...], protocol: str = "") -> ShownGroup:
    """A group of one of the newer protocols: their answers differ in class, and agree in these fields."""
    epochs = group.group_epoch, group.assignment_epoch
    return ShownGroup(group.group_id, kind, group.group_state, protocol, node_id, *epochs, members)


def _member(member: Any, instance_id: str | None) -> ShownMember:
    """Of a consumer or a share group; those of the latter have no instance id."""
    return ShownMember(
        member.member_id,
        instance_id,
        member.client_id,
        member.client_host,
        tuple(
            TopicPartition(topic.topic_name, partition)
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        ),
        member.member_epoch,
    )


def _sources(group: DescribedGroup) -> dict[str, list[str]]:
    """Subtopology to the topics that its tasks read."""
    parts = () if group.topology is None else group.topology.subtopologies or ()
    return {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in parts
    }


def _tasks(listed: Sequence[TaskIds]) -> dict[str, list[int]]:
    return {part.subtopology_id: list(part.partitions) for part in listed}


def _classic_member(member: DescribedGroupMember, *, reads: bool) -> ShownMember:
    """`reads`: its assignment is a consumer's, which says topics and partitions."""
    places = decode_assignment(member.member_assignment) if reads and member.member_assignment else ()
    return ShownMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(places), None
    )
