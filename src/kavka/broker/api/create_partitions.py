"""CreatePartitions (key 37): gives topics more partitions.

Versions    0; 1; 2 flexible; 3.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.controller.reign import Deposed
from kavka.controller.topics import PartitionsWish
from kavka.errors import ErrorCode
from kavka.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kavka.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.protocol.connection import Request


def handle(broker: Broker, request: Request, message: CreatePartitionsRequest) -> Awaitable[CreatePartitionsResponse]:
    return _create(broker, message)


async def _create(broker: Broker, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    wishes = [
        PartitionsWish(
            topic.name,
            topic.count,
            None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments],
        )
        for topic in message.topics
    ]
    try:
        outcomes = await broker.topics.create_partitions(wishes, validate_only=message.validate_only)
    except Deposed:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name=wish.topic, error_code=ErrorCode.NOT_CONTROLLER) for wish in wishes
            ]
        )
    # A topic that was named twice is refused once.
    by_name = {outcome.name: outcome for outcome in outcomes}
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=outcome.name, error_code=outcome.code, error_message=outcome.message)
            for outcome in by_name.values()
        ]
    )
