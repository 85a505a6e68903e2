"""ShareOffsets: how far share groups have come, and how much is left for them.

Decides the lag: what lies between the start offset and the end of the log, less what is done already behind the start.
Joins what the states' coordinators say with what the partitions' leaders say.

    I1  what cannot be said is -1, and no error: as where there are no offsets to fetch

Source: Kafka's GroupCoordinatorService and NetworkPartitionMetadataClient.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.broker.share.persister import SharePersister, StateSummary
from kavka.coordinator.share_state.decide.records import UNKNOWN_COUNT, UNKNOWN_START, ShareKey
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import NO_LEADER, BrokerId, Offset
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages import list_offsets_request as listing
from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse
from kavka.replication.replica_manager import ReplicaManager

PATIENCE_S: Final = 5.0
"""How long a coordinator is asked for a state, and a leader for the end of its log."""
PAUSE_S: Final = 0.1
_LATEST: Final = -1
_LOWEST_LAG: Final = -(2**63)
"""What the answer has room for."""
_LIST_OFFSETS_VERSION: Final = 7
_UNKNOWN: Final = StateSummary(0, 0, UNKNOWN_START, UNKNOWN_COUNT)

Place = tuple[str, int]
"""A topic's name and a partition."""


class ShareOffset(NamedTuple):
    """Where a group is in one partition; -1 for what is not known."""

    start_offset: Offset
    leader_epoch: int
    lag: int
    error: ErrorCode = ErrorCode.NONE


class ShareOffsets:
    """Answers for any group; `persister` knows the way to the states."""

    def __init__(self, metadata: MetadataCache, replicas: ReplicaManager, persister: SharePersister) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._persister = persister

    async def describe(self, keys: Mapping[ShareKey, str]) -> dict[ShareKey, ShareOffset]:
        """How far each share-partition is; its topic's name with it."""
        found = await asyncio.gather(*(self._summary(key) for key in keys))
        summaries = dict(zip(keys, found, strict=True))
        begun = {
            key: (keys[key], key.partition)
            for key, summary in summaries.items()
            if summary.start_offset != UNKNOWN_START and summary.complete_count != UNKNOWN_COUNT
        }
        ends = await self._ends(begun.values())
        described: dict[ShareKey, ShareOffset] = {}
        for key, summary in summaries.items():
            end = ends[begun[key]] if key in begun else -1
            if isinstance(end, ErrorCode):
                described[key] = ShareOffset(0, 0, -1, end)
                continue
            # A position behind the end, where one may be set, has a negative lag, as in Kafka.
            lag = max(end - summary.start_offset - summary.complete_count, _LOWEST_LAG) if key in begun else -1
            # A state that no leader has read yet is of none; clients are told 0 then, as by Kafka.
            described[key] = ShareOffset(summary.start_offset, max(summary.leader_epoch, 0), lag)
        return described

    async def _summary(self, key: ShareKey) -> StateSummary:
        try:
            return await self._persister.summary(key, PATIENCE_S)
        except RequestError:
            return _UNKNOWN

    async def _ends(self, places: Iterable[Place]) -> dict[Place, Offset | ErrorCode]:
        """The high watermarks, as their leaders have them; leaders that move are looked for again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        ends: dict[Place, Offset | ErrorCode] = {}
        left = list(dict.fromkeys(places))
        while left:
            by_leader: dict[BrokerId, list[Place]] = {}
            for topic, index in left:
                known = self._metadata.partition(topic, index)
                by_leader.setdefault(NO_LEADER if known is None else known.state.leader, []).append((topic, index))
            for found in await asyncio.gather(*(self._ask(leader, asked) for leader, asked in by_leader.items())):
                ends.update(found)
            left = [place for place in left if isinstance(ends[place], ErrorCode)]
            if loop.time() > deadline:
                break
            if left:
                await asyncio.sleep(PAUSE_S)
        return ends

    async def _ask(self, leader: BrokerId, places: Sequence[Place]) -> dict[Place, Offset | ErrorCode]:
        if leader == self._persister.peers.broker_id:
            return {place: self._own_end(place) for place in places}
        if leader < 0:
            return dict.fromkeys(places, ErrorCode.LEADER_NOT_AVAILABLE)
        by_topic: dict[str, list[listing.ListOffsetsPartition]] = {}
        for topic, index in places:
            asked = listing.ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
            by_topic.setdefault(topic, []).append(asked)
        message = listing.ListOffsetsRequest(
            replica_id=-1,
            topics=[listing.ListOffsetsTopic(name=topic, partitions=asked) for topic, asked in by_topic.items()],
        )
        try:
            answer = await self._persister.peers.ask(
                leader, ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, message, ListOffsetsResponse
            )
        except ConnectionFailed:
            return dict.fromkeys(places, ErrorCode.NETWORK_EXCEPTION)
        ends: dict[Place, Offset | ErrorCode] = dict.fromkeys(places, ErrorCode.UNKNOWN_SERVER_ERROR)
        for topic in answer.topics:
            for one in topic.partitions:
                error = ErrorCode.answered(one.error_code)
                ends[topic.name, one.partition_index] = one.offset if error is ErrorCode.NONE else error
        return ends

    def _own_end(self, place: Place) -> Offset | ErrorCode:
        hosted = self._replicas.partition(*place)
        if hosted is None or not hosted.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return hosted.log.high_watermark
