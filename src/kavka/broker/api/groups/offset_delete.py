"""OffsetDelete (key 47): deletes the offsets that a group committed for single partitions (KIP-496).

Behaviour   A topic that a member of the group reads is refused: GROUP_SUBSCRIBED_TO_TOPIC. A partition without a commit
            is no error. A group whose members are not consumers is refused as a whole: NON_EMPTY_GROUP.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

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
    wanted: list[tuple[str, int]] = []
    answers: list[OffsetDeleteResponsePartition] = []
    topics = []
    for topic in message.topics:
        partitions = []
        for partition in topic.partitions:
            answer = OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=ErrorCode.NONE)
            partitions.append(answer)
            if broker.metadata.partition(topic.name, partition.partition_index) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            wanted.append((topic.name, partition.partition_index))
            answers.append(answer)
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    try:
        errors = await broker.groups.offsets.delete(message.group_id, wanted)
    except RequestError as refused:
        return OffsetDeleteResponse(error_code=refused.code, topics=[])
    for answer, error in zip(answers, errors, strict=True):
        answer.error_code = error
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
