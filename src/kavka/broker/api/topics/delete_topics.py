"""DeleteTopics (key 20): deletes topics, by name or by id.

Behaviour   When the answer goes out, the topics are gone from metadata and from ZooKeeper, and their logs are renamed;
            the files are deleted after file.delete.delay.ms. The controller waits a bounded time for brokers that are
            down and have a replica. Where even this broker takes longer than timeout_ms, or timeout_ms is 0, the topic
            is REQUEST_TIMED_OUT, and is deleted all the same. A topic that is named twice, by name or by id, is refused
            and stays, as in Apache Kafka 4 (3.9 deletes it); so is a name beside an id, as in both. A broker that is
            not the controller answers NOT_CONTROLLER.
Versions    1; 2; 3; 4 flexible; 5 error message; 6 by topic id.
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.api.topics.mutations import admission
from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.controller.term.controller_term import NotController
from kavka.errors import ErrorCode
from kavka.model import NO_TOPIC_ID
from kavka.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kavka.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

if TYPE_CHECKING:
    from kavka.broker.api.topics.ports import TopicsBroker
    from kavka.protocol.connection import Request

_FIRST_VERSION_WITH_DELETION_DISABLED = 3
_FIRST_STRICT_VERSION = 5
_FIRST_VERSION_BY_TOPIC_ID = 6


class _Wish(NamedTuple):
    """How a request says which topic it wants deleted: by name, or by an id that is not zero."""

    name: str | None
    topic_id: uuid.UUID


def handle(broker: TopicsBroker, request: Request, message: DeleteTopicsRequest) -> Awaitable[DeleteTopicsResponse]:
    may = admission(request, strict_since=_FIRST_STRICT_VERSION)
    return _delete(broker, request.header.api_version, message, may)


async def _delete(
    broker: TopicsBroker, version: int, message: DeleteTopicsRequest, may: Callable[[int], bool] | None
) -> DeleteTopicsResponse:
    if version >= _FIRST_VERSION_BY_TOPIC_ID:
        wishes = [_Wish(topic.name, topic.topic_id) for topic in message.topics]
    else:
        wishes = [_Wish(name, NO_TOPIC_ID) for name in message.topic_names]
    wanted, responses = _resolve(broker.metadata, wishes)
    by_id = {name: topic_id for name, topic_id in wanted.items() if topic_id.int}
    try:
        outcomes = await broker.topics.delete_topics(
            list(wanted), topic_ids=by_id, timeout_ms=message.timeout_ms, may=may
        )
    except NotController:
        responses.extend(_result(name, wanted[name], ErrorCode.NOT_CONTROLLER, None) for name in wanted)
        return DeleteTopicsResponse(responses=responses)
    for outcome in outcomes:
        code = outcome.code
        if code is ErrorCode.TOPIC_DELETION_DISABLED and version < _FIRST_VERSION_WITH_DELETION_DISABLED:
            code = ErrorCode.INVALID_REQUEST
        named = None if code is ErrorCode.UNKNOWN_TOPIC_ID else outcome.name
        topic_id = (
            wanted[outcome.name] if code is ErrorCode.REQUEST_TIMED_OUT else outcome.topic_id or wanted[outcome.name]
        )
        responses.append(_result(named, topic_id, code, outcome.message))
    return DeleteTopicsResponse(responses=responses)


def _resolve(
    metadata: MetadataCache, wishes: Sequence[_Wish]
) -> tuple[dict[str, uuid.UUID], list[DeletableTopicResult]]:
    """The topics to delete, by name, with the ids of those that were asked for by id (zero: by name), and the refusals
    of all other wishes.

    A topic that is wished for more than once is not deleted, and refused once.
    """
    refused = []
    names: Counter[str] = Counter()
    ids: Counter[uuid.UUID] = Counter()
    for name, topic_id in wishes:
        if name is None and not topic_id.int:
            refused.append(_refusal(name, topic_id, "Neither topic name nor id were specified."))
        elif name is not None and topic_id.int:
            refused.append(_refusal(name, topic_id, "You may not specify both topic name and topic id."))
        elif name is None:
            ids[topic_id] += 1
        else:
            names[name] += 1
    refused.extend(_refusal(name, NO_TOPIC_ID, "Duplicate topic name.") for name, times in names.items() if times > 1)
    refused.extend(_refusal(None, topic_id, "Duplicate topic id.") for topic_id, times in ids.items() if times > 1)
    wanted = {}
    for topic_id, times in ids.items():
        name = metadata.topic_name(topic_id)
        if times > 1:
            continue
        if name is None:
            message = "This server does not host this topic ID."
            refused.append(_result(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, message))
        else:
            wanted[name] = topic_id
    for name, times in names.items():
        topic_id = metadata.topic_id(name)
        if times > 1:
            continue
        if topic_id.int and topic_id in ids:
            wanted.pop(name, None)
            message = "The provided topic name maps to an ID that was already supplied."
            refused.append(_refusal(name, topic_id, message))
        else:
            wanted[name] = NO_TOPIC_ID
    return wanted, refused


def _refusal(name: str | None, topic_id: uuid.UUID, message: str) -> DeletableTopicResult:
    return _result(name, topic_id, ErrorCode.INVALID_REQUEST, message)


def _result(name: str | None, topic_id: uuid.UUID, error: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=message)
