"""AlterConfigs (key 33): replaces all that a topic, or a broker at run time, sets itself.

Versions    0; 1; 2 flexible.
Not supported  Groups and metrics subscriptions: INVALID_REQUEST; so are loggers, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.describe_configs import BROKER, TOPIC
from kavka.config.alter import alter_broker, alter_topic, is_this_broker
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from kavka.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.protocol.connection import Request


def handle(broker: Broker, request: Request, message: AlterConfigsRequest) -> Awaitable[AlterConfigsResponse]:
    return _alter_all(broker, message)


async def _alter_all(broker: Broker, message: AlterConfigsRequest) -> AlterConfigsResponse:
    responses = []
    for resource in message.resources:
        response = AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
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


def require_topic(broker: Broker, name: str) -> None:
    """Raises RequestError where the topic is not there."""
    if not name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if broker.metadata.topic(name) is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
