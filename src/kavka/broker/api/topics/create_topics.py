"""CreateTopics (key 19): creates topics, each for itself.

Behaviour   The rules are in `controller.decide.topic_plans`. When the answer goes out, the topic's partitions have
            leaders and can be written to. Where that takes longer than timeout_ms, or timeout_ms is 0, the topic is
            REQUEST_TIMED_OUT, and exists all the same. validate_only runs every check and writes nothing. A broker that
            is not the controller answers NOT_CONTROLLER. Topics beyond the client's quota of changes are refused with
            THROTTLING_QUOTA_EXCEEDED from version 6 on; before, the client is delayed (KIP-599).
Versions    2; 3; 4 default counts (-1, KIP-464); 5 flexible, the topic's settings in the answer (KIP-525); 6; 7 topic
            id.
Not supported  Versions 0-1: Apache Kafka 4 dropped them too (KIP-896).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kavka.broker.api.topics.mutations import admission
from kavka.config.describe import describe_topic
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.controller.term.controller_term import NotController
from kavka.controller.work.topic_admin import TopicOutcome
from kavka.errors import ErrorCode
from kavka.model import NO_TOPIC_ID
from kavka.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kavka.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kavka.broker.api.topics.ports import TopicsBroker
    from kavka.protocol.connection import Request

_FIRST_STRICT_VERSION = 6


def handle(broker: TopicsBroker, request: Request, message: CreateTopicsRequest) -> Awaitable[CreateTopicsResponse]:
    return answer(broker, message, request.header.api_version, admission(request, strict_since=_FIRST_STRICT_VERSION))


async def answer(
    broker: TopicsBroker, message: CreateTopicsRequest, version: int, may: Callable[[int], bool] | None = None
) -> CreateTopicsResponse:
    wishes = [_wish(topic) for topic in message.topics]
    try:
        outcomes = await broker.topics.create_topics(
            wishes, validate_only=message.validate_only, timeout_ms=message.timeout_ms, may=may
        )
    except NotController:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=wish.name, error_code=ErrorCode.NOT_CONTROLLER, configs=[]) for wish in wishes
            ]
        )
    configs = {wish.name: wish.config for wish in wishes}
    return CreateTopicsResponse(
        topics=[
            _result(broker, outcome, configs[outcome.name], validate_only=message.validate_only) for outcome in outcomes
        ]
    )


def _wish(topic: CreatableTopic) -> TopicRequest:
    return TopicRequest(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {assignment.partition_index: assignment.broker_ids for assignment in topic.assignments},
        {config.name: config.value for config in topic.configs},
    )


def _result(
    broker: TopicsBroker, outcome: TopicOutcome, config: object, *, validate_only: bool
) -> CreatableTopicResult:
    if outcome.code is not ErrorCode.NONE:
        return CreatableTopicResult(
            name=outcome.name,
            topic_id=outcome.topic_id or NO_TOPIC_ID,
            error_code=outcome.code,
            error_message=outcome.message,
            configs=[],
        )
    assert isinstance(config, dict)
    return CreatableTopicResult(
        name=outcome.name,
        topic_id=NO_TOPIC_ID if validate_only else outcome.topic_id or NO_TOPIC_ID,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=outcome.partition_count,
        replication_factor=outcome.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(config, broker.configs.broker)
        ],
    )
