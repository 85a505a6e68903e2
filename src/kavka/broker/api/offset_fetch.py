"""OffsetFetch (key 9): the offsets that a group committed.

Behaviour   A partition without a commit is -1 with empty metadata and no error. No topics (null) means all.
Versions    1; 2 all topics, error above all; 3; 4; 5 leader epoch; 6 flexible; 7 require stable (KIP-447); 8 many
            groups (KIP-709); 9 member id and epoch (KIP-848); 10 topic ids.
Not supported  Version 0 (offsets in ZooKeeper). require_stable has nothing to wait for while there are no transactions.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kavka.coordinator.group_records import CommittedOffset
from kavka.errors import ErrorCode, RequestError
from kavka.model import NO_EPOCH, NO_OFFSET
from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kavka.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.protocol.connection import Request

_FIRST_VERSION_WITH_TOPIC_IDS = 10
_NOTHING = CommittedOffset(NO_OFFSET, NO_EPOCH, "", -1)


def handle(broker: Broker, request: Request, message: OffsetFetchRequest) -> OffsetFetchResponse:
    version = request.header.api_version
    if version >= 8:
        return OffsetFetchResponse(groups=[_group(broker, version, group) for group in message.groups])
    wanted = (
        None
        if message.topics is None
        else [(topic.name, index) for topic in message.topics for index in topic.partition_indexes]
    )
    try:
        found = _offsets(broker, message.group_id, wanted)
    except RequestError as refused:
        if version >= 2:
            return OffsetFetchResponse(error_code=refused.code, topics=[])
        found = [(topic, index, _NOTHING) for topic, index in wanted or ()]
        return OffsetFetchResponse(topics=_topics(found, refused.code))
    return OffsetFetchResponse(error_code=ErrorCode.NONE, topics=_topics(found, ErrorCode.NONE))


def _offsets(
    broker: Broker, group_id: str, wanted: list[tuple[str, int]] | None
) -> list[tuple[str, int, CommittedOffset]]:
    """The offsets asked for, in that order, or all. Raises `RequestError`."""
    if wanted is None:
        return broker.groups.fetch_offsets(group_id)
    return [(topic, index, broker.groups.fetch_offset(group_id, topic, index) or _NOTHING) for topic, index in wanted]


def _topics(found: list[tuple[str, int, CommittedOffset]], error: ErrorCode) -> list[OffsetFetchResponseTopic]:
    topics: dict[str, OffsetFetchResponseTopic] = {}
    for name, index, committed in found:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetFetchResponseTopic(name=name, partitions=[])
        topic.partitions.append(
            OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=error,
            )
        )
    return list(topics.values())


def _group(broker: Broker, version: int, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    by_id = version >= _FIRST_VERSION_WITH_TOPIC_IDS
    try:
        if group.topics is None:
            found = broker.groups.fetch_offsets(group.group_id)
        else:
            broker.groups.fetch_offsets(group.group_id)
            found = []
    except RequestError as refused:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=refused.code, topics=[])
    answer = OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.NONE, topics=[])
    if group.topics is None:
        topics: dict[str, OffsetFetchResponseTopics] = {}
        for name, index, committed in found:
            topic_id = broker.metadata.topic_id(name)
            if by_id and not topic_id.int:
                continue  # the topic is gone and has no id to be named by
            topics.setdefault(
                name, OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=[])
            ).partitions.append(_partition(index, committed, ErrorCode.NONE))
        answer.topics.extend(topics.values())
        return answer
    for topic in group.topics:
        known = _name(broker, topic.name, topic.topic_id, by_id=by_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID if known is None else ErrorCode.NONE
        partitions = [
            _partition(
                index,
                _NOTHING if known is None else broker.groups.fetch_offset(group.group_id, known, index) or _NOTHING,
                error,
            )
            for index in topic.partition_indexes
        ]
        answer.topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return answer


def _name(broker: Broker, name: str, topic_id: uuid.UUID, *, by_id: bool) -> str | None:
    return broker.metadata.topic_name(topic_id) if by_id else name


def _partition(index: int, committed: CommittedOffset, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )
