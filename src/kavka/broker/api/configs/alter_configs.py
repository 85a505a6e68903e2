"""AlterConfigs (key 33): replaces all that a topic, or a broker at run time, sets itself.

Versions    0; 1; 2 flexible.
Not supported  Groups and metrics subscriptions: INVALID_REQUEST; so are loggers, as in Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from kavka.broker.api.configs.describe_configs import BROKER, TOPIC
from kavka.config.alter import alter_broker, alter_topic, is_this_broker
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from kavka.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse

if TYPE_CHECKING:
    from kavka.broker.assembly.broker import Broker
    from kavka.protocol.connection import Request


def handle(broker: Broker, request: Request, message: AlterConfigsRequest) -> Awaitable[AlterConfigsResponse]:
    return _alter_all(broker, message)


async def _alter_all(broker: Broker, message: AlterConfigsRequest) -> AlterConfigsResponse:
    responses = []
    twice = named_twice(message.resources)
    for resource in message.resources:
        response = AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            refuse_twice(resource, twice)
            await _alter(broker, resource, validate_only=message.validate_only)
        except RequestError as refused:
            response.error_code = refused.code
            response.error_message = refused.message
        except ZooKeeperError as failure:
            response.error_code = ErrorCode.REQUEST_TIMED_OUT
            response.error_message = str(failure)
        responses.append(response)
    return AlterConfigsResponse(responses=responses)


async def _alter(broker: Broker, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    name = resource.resource_name
    entries = [(config.name, config.value) for config in resource.configs]
    configs = broker.configs
    if resource.resource_type == TOPIC:
        require_topic(broker, name)
        await configs.change_topic(
            name, lambda _current: alter_topic(name, entries, configs.broker), validate_only=validate_only
        )
    elif resource.resource_type == BROKER:
        per_broker = is_this_broker(name, broker.broker_id)
        await configs.change_broker(
            lambda current: alter_broker(entries, current, configs.broker, per_broker=per_broker),
            per_broker=per_broker,
            validate_only=validate_only,
        )
    else:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")


class Resource(Protocol):
    """A resource that is to be changed, in either request."""

    resource_type: int
    resource_name: str


def named_twice(resources: Sequence[Resource]) -> frozenset[tuple[int, str]]:
    """The types and names that a request has more than once: which change is meant nobody can tell."""
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return frozenset(key for key, times in named.items() if times > 1)


def refuse_twice(resource: Resource, twice: Collection[tuple[int, str]]) -> None:
    """Raises RequestError where the resource is `named_twice`."""
    if (resource.resource_type, resource.resource_name) in twice:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def require_topic(broker: Broker, name: str) -> None:
    """Raises RequestError where the topic is not there."""
    if not name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if broker.metadata.topic(name) is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
