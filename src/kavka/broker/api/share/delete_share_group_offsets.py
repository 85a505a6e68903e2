"""DeleteShareGroupOffsets (key 92): has a share group forget what it did with the records of topics.

Behaviour   Only a group without members: NON_EMPTY_GROUP. A topic of which the group has no state is
            UNKNOWN_TOPIC_OR_PARTITION; the others count. If the group reads the topic again, it begins where its
            share.auto.offset.reset says.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from kavka.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kavka.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: DeleteShareGroupOffsetsRequest
) -> Awaitable[DeleteShareGroupOffsetsResponse]:
    return _delete(broker, message)


async def _delete(broker: ShareBroker, message: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    try:
        if not broker.serves_share_groups():
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        shard = broker.groups.shard_of(message.group_id)
        names = [topic.topic_name for topic in message.topics]
        found = await broker.groups.shares.delete_offsets(shard, message.group_id, names)
    except RequestError as refused:
        return DeleteShareGroupOffsetsResponse(
            error_code=refused.code, error_message=refused.message or ErrorCode(refused.code).name
        )
    return DeleteShareGroupOffsetsResponse(
        responses=[
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=one.topic,
                topic_id=one.topic_id or ZERO_UUID,
                error_code=one.error,
                error_message=None if one.error is ErrorCode.NONE else one.message or one.error.name,
            )
            for one in found
        ]
    )
