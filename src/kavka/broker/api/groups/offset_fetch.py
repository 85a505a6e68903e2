"""OffsetFetch (key 9): the offsets that a group committed.

Behaviour   A partition without a commit is -1 with empty metadata and no error. No topics (null) means all. Where the
            client requires stable offsets, a partition whose offset an open transaction may still change is
            UNSTABLE_OFFSET_COMMIT; clients ask again until it is stable. What a request names several times is
            answered once: partitions as in Kafka 3.9, groups otherwise than in Kafka, where three bytes, sent again and
            again, bring thousands of offsets each. No client names a group twice.
            Who asks by topic id gets no offset that was committed for a former topic of the name.
Versions    1; 2 all topics, error above all; 3; 4; 5 leader epoch; 6 flexible; 7 require stable (KIP-447); 8 many
            groups (KIP-709); 9 member id and epoch (KIP-848); 10 topic ids.
Not supported  Version 0 (offsets in ZooKeeper): Apache Kafka 4 dropped it too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from kavka.broker.api.by_topic import by_topic
from kavka.coordinator.groups.decide.records import CommittedOffset
from kavka.errors import ErrorCode, RequestError
from kavka.model import NO_EPOCH, NO_OFFSET
from kavka.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kavka.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request

_FIRST_VERSION_WITH_TOPIC_IDS = 10
AnyPartition = TypeVar("AnyPartition", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)
Pending = Callable[[str], frozenset[tuple[str, int]]]
"""The partitions of a group whose offsets an open transaction may still change. Raises `RequestError`."""
_NOTHING = CommittedOffset(NO_OFFSET, NO_EPOCH, "", -1)


def handle(broker: GroupsBroker, request: Request, message: OffsetFetchRequest) -> OffsetFetchResponse:
    version = request.header.api_version
    pending: Pending = cache(broker.groups.offsets.pending) if message.require_stable else _nothing_pending
    if version >= 8:
        return OffsetFetchResponse(
            groups=[_group(broker, version, group, pending) for group in _without_repetitions(message.groups)]
        )
    wanted = (
        None
        if message.topics is None
        else list(dict.fromkeys((topic.name, index) for topic in message.topics for index in topic.partition_indexes))
    )
    try:
        unstable = pending(message.group_id)
        found = _offsets(broker, message.group_id, wanted)
    except RequestError as refused:
        if version >= 2:
            return OffsetFetchResponse(error_code=refused.code, topics=[])
        found = [(topic, index, _NOTHING) for topic, index in wanted or ()]
        return OffsetFetchResponse(topics=_topics(found, frozenset(), refused.code))
    return OffsetFetchResponse(error_code=ErrorCode.NONE, topics=_topics(found, unstable, ErrorCode.NONE))


def _nothing_pending(_group_id: str) -> frozenset[tuple[str, int]]:
    return frozenset()


def _without_repetitions(groups: Iterable[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Each group that is asked for as a whole once, and each other entry once."""
    found: dict[object, OffsetFetchRequestGroup] = {}
    for group in groups:
        if group.topics is None:
            found.setdefault(group.group_id, group)
            continue
        partitions: dict[tuple[str, uuid.UUID], dict[int, None]] = {}
        for topic in group.topics:
            partitions.setdefault((topic.name, topic.topic_id), {}).update(dict.fromkeys(topic.partition_indexes))
        topics = tuple((name, topic_id, tuple(indexes)) for (name, topic_id), indexes in partitions.items())
        entry = OffsetFetchRequestGroup(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topics=[
                OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=list(indexes))
                for name, topic_id, indexes in topics
            ],
        )
        found.setdefault((group.group_id, group.member_id, group.member_epoch, topics), entry)
    return list(found.values())


def _offsets(
    broker: GroupsBroker, group_id: str, wanted: list[tuple[str, int]] | None
) -> list[tuple[str, int, CommittedOffset]]:
    """The offsets asked for, in that order, or all. Raises `RequestError`."""
    if wanted is None:
        return broker.groups.offsets.fetch_all(group_id)
    return [(topic, index, broker.groups.offsets.fetch(group_id, topic, index) or _NOTHING) for topic, index in wanted]


def _topics(
    found: list[tuple[str, int, CommittedOffset]], unstable: frozenset[tuple[str, int]], error: ErrorCode
) -> list[OffsetFetchResponseTopic]:
    topics = by_topic(((name, index), committed) for name, index, committed in found)
    return [
        OffsetFetchResponseTopic(
            name=name,
            partitions=[
                _partition(OffsetFetchResponsePartition, index, committed, error, is_unstable=(name, index) in unstable)
                for index, committed in partitions
            ],
        )
        for name, partitions in topics.items()
    ]


def _group(
    broker: GroupsBroker, version: int, group: OffsetFetchRequestGroup, pending: Pending
) -> OffsetFetchResponseGroup:
    by_id = version >= _FIRST_VERSION_WITH_TOPIC_IDS
    group_id = group.group_id
    try:
        broker.groups.offsets.check_fetch(group_id, group.member_id, group.member_epoch)
        unstable = pending(group_id)
        found = broker.groups.offsets.fetch_all(group_id) if group.topics is None else []
        asked = [(topic, _name(broker, topic.name, topic.topic_id, by_id=by_id)) for topic in group.topics or ()]
        offsets = {
            (name, index): broker.groups.offsets.fetch(group_id, name, index, topic.topic_id) or _NOTHING
            for topic, name in asked
            if name is not None
            for index in topic.partition_indexes
        }
    except RequestError as refused:
        return OffsetFetchResponseGroup(group_id=group_id, error_code=refused.code, topics=[])
    answer = OffsetFetchResponseGroup(group_id=group_id, error_code=ErrorCode.NONE, topics=[])
    if group.topics is None:
        for name, committed_ones in by_topic(((name, index), committed) for name, index, committed in found).items():
            topic_id = broker.metadata.topic_id(name)
            if by_id and not topic_id.int:
                continue  # the topic is gone and has no id to be named by
            partitions = [
                _partition(
                    OffsetFetchResponsePartitions,
                    index,
                    committed,
                    ErrorCode.NONE,
                    is_unstable=(name, index) in unstable,
                )
                for index, committed in committed_ones
            ]
            answer.topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
        return answer
    for topic, known in asked:
        error = ErrorCode.UNKNOWN_TOPIC_ID if known is None else ErrorCode.NONE
        partitions = [
            _partition(
                OffsetFetchResponsePartitions,
                index,
                _NOTHING if known is None else offsets[known, index],
                error,
                is_unstable=(known, index) in unstable,
            )
            for index in topic.partition_indexes
        ]
        answer.topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return answer


def _name(broker: GroupsBroker, name: str, topic_id: uuid.UUID, *, by_id: bool) -> str | None:
    return broker.metadata.topic_name(topic_id) if by_id else name


def _partition(
    message: type[AnyPartition], index: int, committed: CommittedOffset, error: ErrorCode, *, is_unstable: bool
) -> AnyPartition:
    """The partition as `message` shows it, which versions before 8 and later ones have each their own."""
    shown = _NOTHING if is_unstable else committed
    return message(
        partition_index=index,
        committed_offset=shown.offset,
        committed_leader_epoch=shown.leader_epoch,
        metadata=shown.metadata,
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else error,
    )
