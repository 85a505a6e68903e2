"""OffsetDelete (key 47): deletes the offsets that a group committed for single partitions (KIP-496).

Behaviour   A topic that a member of the group reads is refused: GROUP_SUBSCRIBED_TO_TOPIC. A partition without a commit
            is no error. A group whose members are not consumers is refused as a whole: NON_EMPTY_GROUP.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.groups.partition_answers import PartitionAnswers
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kavka.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request


def handle(broker: GroupsBroker, request: Request, message: OffsetDeleteRequest) -> Awaitable[OffsetDeleteResponse]:
    return _delete(broker, message)


async def _delete(broker: GroupsBroker, message: OffsetDeleteRequest) -> OffsetDeleteResponse:
    answers = PartitionAnswers(broker.metadata, OffsetDeleteResponsePartition)
    topics = [
        OffsetDeleteResponseTopic(name=topic.name, partitions=answers.of_topic(topic.name, topic.partitions))
        for topic in message.topics
        if topic.partitions
    ]
    wanted = [(name, partition.partition_index) for name, partition in answers.accepted]
    try:
        errors = await broker.groups.offsets.delete(message.group_id, wanted)
    except RequestError as refused:
        return OffsetDeleteResponse(error_code=refused.code, topics=[])
    answers.fill_in(errors)
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
