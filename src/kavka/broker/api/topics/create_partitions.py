"""CreatePartitions (key 37): gives topics more partitions.

Behaviour   When the answer goes out, the new partitions have leaders. Where that takes longer than timeout_ms, or
            timeout_ms is 0, the topic is REQUEST_TIMED_OUT, and has the partitions all the same. A broker that is not
            the controller answers NOT_CONTROLLER.
            `__consumer_offsets` and `__transaction_state` keep the number that they have (INVALID_PARTITIONS): it
            decides which partition keeps a group or a transactional id, and with another number the broker would not
            find what is stored. Apache Kafka lets these topics grow, and loses what groups have committed.
Versions    0; 1; 2 flexible; 3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kavka.broker.api.topics.mutations import admission
from kavka.controller.decide.topic_plans import PartitionsRequest
from kavka.controller.term.controller_term import NotController
from kavka.errors import ErrorCode
from kavka.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kavka.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult

if TYPE_CHECKING:
    from kavka.broker.api.topics.ports import TopicsBroker
    from kavka.protocol.connection import Request

_FIRST_STRICT_VERSION = 3


def handle(
    broker: TopicsBroker, request: Request, message: CreatePartitionsRequest
) -> Awaitable[CreatePartitionsResponse]:
    return _create(broker, message, admission(request, strict_since=_FIRST_STRICT_VERSION))


async def _create(
    broker: TopicsBroker, message: CreatePartitionsRequest, may: Callable[[int], bool] | None
) -> CreatePartitionsResponse:
    wishes = [
        PartitionsRequest(
            topic.name,
            topic.count,
            None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments],
        )
        for topic in message.topics
    ]
    try:
        outcomes = await broker.topics.create_partitions(
            wishes, validate_only=message.validate_only, timeout_ms=message.timeout_ms, may=may
        )
    except NotController:
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
