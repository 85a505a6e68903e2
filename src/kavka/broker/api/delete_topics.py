"""DeleteTopics (key 20): deletes topics, by name or by id.

Behaviour   When the answer goes out the topics are gone: from metadata, from ZooKeeper, and their logs from their
            names. The files follow after file.delete.delay.ms.
Versions    1; 2; 3; 4 flexible; 5 error message; 6 by topic id.
Not supported  Version 0.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from kavka.controller.reign import Deposed
from kavka.errors import ErrorCode
from kavka.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kavka.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.protocol.connection import Request


class _Named(NamedTuple):
    name: str | None
    topic_id: uuid.UUID


def handle(broker: Broker, request: Request, message: DeleteTopicsRequest) -> Awaitable[DeleteTopicsResponse]:
    return _delete(broker, request.header.api_version, message)


async def _delete(broker: Broker, version: int, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
    no_id = uuid.UUID(int=0)
    if version >= 6:
        wanted = [_Named(topic.name, topic.topic_id) for topic in message.topics]
    else:
        wanted = [_Named(name, no_id) for name in message.topic_names]
    responses = []
    names: list[str] = []
    ids: dict[str, uuid.UUID] = {}
    for topic in wanted:
        if topic.name is not None and topic.topic_id.int:
            responses.append(
                _result(
                    topic.name,
                    topic.topic_id,
                    ErrorCode.INVALID_REQUEST,
                    "You may not specify both topic name and topic id.",
                )
            )
            continue
        name = topic.name if topic.name is not None else broker.metadata.topic_name(topic.topic_id)
        if name is None:
            responses.append(_result(None, topic.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, None))
            continue
        names.append(name)
        ids[name] = broker.metadata.topic_id(name)
    try:
        outcomes = await broker.topics.delete_topics(names)
    except Deposed:
        responses.extend(_result(name, ids[name], ErrorCode.NOT_CONTROLLER, None) for name in names)
        return DeleteTopicsResponse(responses=responses)
    # A topic that was named twice is refused once.
    by_name = {outcome.name: outcome for outcome in outcomes}
    responses.extend(
        _result(outcome.name, ids.get(outcome.name, no_id), outcome.code, outcome.message)
        for outcome in by_name.values()
    )
    return DeleteTopicsResponse(responses=responses)


def _result(name: str | None, topic_id: uuid.UUID, error: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=message)
