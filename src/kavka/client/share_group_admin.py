"""ShareGroupAdmin: share groups (KIP-932) as an administrator sees them: positions, new positions, deletions.

Their members are shown by `GroupAdmin`, as those of other groups.

A share group commits no offsets. Its position in a partition is the first record that is not done yet, and some behind
it may be done already: so the lag is told by its coordinator, and is not the distance to the end of the log.

Source: Kafka's ListShareGroupOffsetsHandler, AlterShareGroupOffsetsHandler and
DeleteShareGroupOffsetsHandler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster
from kavka.errors import ErrorCode
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kavka.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from kavka.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kavka.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from kavka.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kavka.protocol.messages.describe_share_group_offsets_response import DescribeShareGroupOffsetsResponse


class SharePosition(NamedTuple):
    """Where a group is in a partition: `start` is the first record that is not done; `lag` counts those that are not,
    None where it is not known."""

    start: int
    lag: int | None


class ShareGroupAdmin:
    """Share groups of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def positions(self, group_id: str) -> dict[TopicPartition, SharePosition]:
        """Where the group is in all partitions in which it has begun. Raises `RequestError`."""

        async def ask() -> dict[TopicPartition, SharePosition]:
            node_id = await self._cluster.find_coordinator(group_id)
            wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
            answer = await self._cluster.ask(
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                DescribeShareGroupOffsetsRequest(groups=[wanted]),
                DescribeShareGroupOffsetsResponse,
                node_id=node_id,
            )
            raise_for(answer.groups[0].error_code, f"offsets of group {group_id!r}")
            return {
                TopicPartition(topic.topic_name, partition.partition_index): SharePosition(
                    partition.start_offset, partition.lag if partition.lag >= 0 else None
                )
                for topic in answer.groups[0].topics
                for partition in topic.partitions
                if partition.error_code == ErrorCode.NONE and partition.start_offset >= 0
            }

        return await self._cluster.retry(ask, what=f"fetch offsets of group {group_id!r}")

    async def set_positions(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Has a group without members begin there, and forget what it did with later records. Raises `RequestError`."""
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            entry = topics.setdefault(topic, AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[]))
            entry.partitions.append(
                AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
            )

        async def ask() -> None:
            node_id = await self._cluster.find_coordinator(group_id)
            answer = await self._cluster.ask(
                ApiKey.ALTER_SHARE_GROUP_OFFSETS,
                AlterShareGroupOffsetsRequest(group_id=group_id, topics=list(topics.values())),
                AlterShareGroupOffsetsResponse,
                node_id=node_id,
            )
            raise_for(answer.error_code, f"offsets of group {group_id!r}")
            for found in answer.responses:
                for partition in found.partitions:
                    raise_for(partition.error_code, f"offset of {found.topic_name}-{partition.partition_index}")

        await self._cluster.retry(ask, what=f"set offsets of group {group_id!r}")

    async def delete_positions(self, group_id: str, topics: Sequence[str]) -> dict[str, ErrorCode]:
        """Has a group without members forget these topics; an error code for each. Raises `RequestError`."""

        async def ask() -> dict[str, ErrorCode]:
            node_id = await self._cluster.find_coordinator(group_id)
            wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
            answer = await self._cluster.ask(
                ApiKey.DELETE_SHARE_GROUP_OFFSETS,
                DeleteShareGroupOffsetsRequest(group_id=group_id, topics=wanted),
                DeleteShareGroupOffsetsResponse,
                node_id=node_id,
            )
            raise_for(answer.error_code, f"offsets of group {group_id!r}")
            return {topic.topic_name: ErrorCode(topic.error_code) for topic in answer.responses}

        return await self._cluster.retry(ask, what=f"delete offsets of group {group_id!r}")
