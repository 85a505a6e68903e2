"""OffsetCommit (key 8): stores a group's offsets in `__consumer_offsets` before the answer goes out.

Behaviour   A partition that is unknown here, or whose metadata is over offset.metadata.max.bytes, is refused for
            itself; the rest is committed.
Versions    2 retention time; 3; 4; 5 no retention time (KIP-211); 6 leader epoch; 7 static members;
            8 flexible; 9 the newer group protocol; 10 topic ids (KIP-848, 1107).
Not supported  Versions 0-1 (offsets in ZooKeeper, timestamps of the client): Apache Kafka 4 dropped them too.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.groups.partition_answers import PartitionAnswers
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.offset_commit_request import OffsetCommitRequest
from kavka.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request

_FIRST_VERSION_WITH_TOPIC_IDS = 10


def handle(broker: GroupsBroker, request: Request, message: OffsetCommitRequest) -> Awaitable[OffsetCommitResponse]:
    return _commit(broker, request, message)


async def _commit(broker: GroupsBroker, request: Request, message: OffsetCommitRequest) -> OffsetCommitResponse:
    by_id = request.header.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    answers = PartitionAnswers(broker.metadata, OffsetCommitResponsePartition)
    topics = []
    for topic in filter(lambda topic: topic.partitions, message.topics):
        name: str | None = broker.metadata.topic_name(topic.topic_id) if by_id else topic.name
        partitions = answers.of_topic(name, topic.partitions)
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    try:
        errors = await broker.groups.offsets.commit(
            CommitRequest(
                message.group_id,
                message.member_id,
                message.group_instance_id,
                message.generation_id_or_member_epoch,
                answers.offsets(),
                retention_ms=message.retention_time_ms,
                api_version=request.header.api_version,
            )
        )
    except RequestError as refused:
        code = refused.code
        if by_id and code is ErrorCode.ILLEGAL_GENERATION and not broker.groups.is_there(message.group_id):
            code = ErrorCode.GROUP_ID_NOT_FOUND
        errors = [code] * len(answers.accepted)
    answers.fill_in(errors)
    return OffsetCommitResponse(topics=topics)
