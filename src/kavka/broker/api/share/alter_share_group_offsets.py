"""AlterShareGroupOffsets (key 91): has a share group begin at other offsets.

Behaviour   Only a group without members, or one that does not exist yet: NON_EMPTY_GROUP. What the group did with later
            records is forgotten. A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION; the others count. An
            offset outside of the log counts as the nearest end of it once a member reads.
Versions    0.
Not supported  Kafka's state epoch, which stays as it is: here it rises, so that what a leader still decides from the
            old offsets is not stored.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from kavka.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kavka.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: AlterShareGroupOffsetsRequest
) -> Awaitable[AlterShareGroupOffsetsResponse]:
    return _alter(broker, message)


async def _alter(broker: ShareBroker, message: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    wanted = {
        topic.topic_name: {partition.partition_index: partition.start_offset for partition in topic.partitions}
        for topic in message.topics
    }
    try:
        if not broker.serves_share_groups():
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        shard = broker.groups.shard_of(message.group_id)
        altered = await broker.groups.shares.alter_offsets(shard, message.group_id, wanted)
    except RequestError as refused:
        return AlterShareGroupOffsetsResponse(
            error_code=refused.code, error_message=refused.message or ErrorCode(refused.code).name
        )
    topics: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    for one in altered:
        topic = topics.get(one.topic)
        if topic is None:
            topic = topics[one.topic] = AlterShareGroupOffsetsResponseTopic(
                topic_name=one.topic, topic_id=one.topic_id or ZERO_UUID
            )
        message_text = None if one.error is ErrorCode.NONE else one.error.name
        topic.partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition, error_code=one.error, error_message=message_text
            )
        )
    return AlterShareGroupOffsetsResponse(responses=list(topics.values()))
