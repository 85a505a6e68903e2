"""Offsets of partitions by time: the oldest, the newest, and the first at or after a timestamp.

Decides which leader to ask for which partition, and asks again if the leadership moved. Source: KIP-79, KIP-734 (the
largest timestamp); ListOffsets' special timestamps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster, by_leader
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse

LATEST = -1
"""The end: the high watermark, or for read_committed the last stable offset."""
EARLIEST = -2
MAX_TIMESTAMP = -3
"""The offset of the record with the largest timestamp."""
HIGHEST_LIST_OFFSETS = 7
"""Later versions bring special timestamps of tiered storage."""


class OffsetAt(NamedTuple):
    """`offset` is -1 if no record is that late. `timestamp_ms` is that of the found record, -1 for special times."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, OffsetAt]:
    """For each partition the offset at its timestamp (ms, or one of the constants above).

    Raises `RequestError` and `ConnectionFailed` once `api_timeout_ms` is used up.
    """
    found: dict[TopicPartition, OffsetAt] = {}
    for topic in {partition.topic: None for partition in timestamps}:
        await cluster.topic(topic)

    async def ask_all() -> None:
        missing = [partition for partition in timestamps if partition not in found]
        groups = by_leader(cluster, missing)
        if groups.pop(-1, None):
            await cluster.refresh_quietly()
            groups = by_leader(cluster, missing)
            leaderless = groups.pop(-1, None)
            if leaderless:
                raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"{leaderless[0]} has no leader")
        results = await asyncio.gather(
            *(
                _ask(cluster, node_id, {p: timestamps[p] for p in group}, read_committed)
                for node_id, group in groups.items()
            ),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, dict):
                found.update(result)
        for result in results:
            if isinstance(result, BaseException):
                await cluster.refresh_quietly()
                raise result
        missing = [partition for partition in timestamps if partition not in found]
        if missing:
            await cluster.refresh_quietly()
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"{missing[0]} is missing in the answer")

    await cluster.retry(ask_all, what="list offsets")
    return {partition: found[partition] for partition in timestamps}


async def _ask(
    cluster: Cluster, node_id: int, timestamps: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, OffsetAt]:
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), timestamp in timestamps.items():
        entry = topics.setdefault(topic, ListOffsetsTopic(name=topic, partitions=[]))
        entry.partitions.append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(read_committed), topics=list(topics.values()))
    answer = await cluster.ask(
        ApiKey.LIST_OFFSETS, request, ListOffsetsResponse, node_id=node_id, highest=HIGHEST_LIST_OFFSETS
    )
    found: dict[TopicPartition, OffsetAt] = {}
    for listed in answer.topics:
        for result in listed.partitions:
            name = TopicPartition(listed.name, result.partition_index)
            raise_for(result.error_code, f"offset of {name}")
            found[name] = OffsetAt(result.offset, result.timestamp, result.leader_epoch)
    return found


async def earliest_offsets(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    found = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    return {partition: at.offset for partition, at in found.items()}


async def latest_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    found = await list_offsets(cluster, dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    return {partition: at.offset for partition, at in found.items()}
