"""AlterConfigs (key 33): replaces all settings that a topic, a broker at run time, a group or a metrics subscription
has of its own.

Behaviour   Settings that the request does not name go back to their defaults. Each resource is changed for itself; one
            that is named twice is INVALID_REQUEST. validate_only runs every check and writes nothing.
            REQUEST_TIMED_OUT: ZooKeeper did not say whether the change is written.
Versions    0; 1; 2 flexible.
            Groups and metrics subscriptions as in IncrementalAlterConfigs, as Apache Kafka 4 takes them here, too.
Not supported  Loggers: INVALID_REQUEST, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.configs.alteration import (
    alter_each,
    change_broker,
    change_client_metrics,
    change_group,
    change_topic,
)
from kavka.broker.api.configs.resources import ResourceType
from kavka.config.alter import alter_broker, alter_client_metrics, alter_group, alter_topic
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from kavka.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker
    from kavka.protocol.connection import Request


def handle(broker: ConfigsBroker, request: Request, message: AlterConfigsRequest) -> Awaitable[AlterConfigsResponse]:
    return _alter_all(broker, message)


async def _alter_all(broker: ConfigsBroker, message: AlterConfigsRequest) -> AlterConfigsResponse:
    responses = await alter_each(
        message.resources,
        lambda resource: _alter(broker, resource, validate_only=message.validate_only),
        AlterConfigsResourceResponse,
    )
    return AlterConfigsResponse(responses=responses)


async def _alter(broker: ConfigsBroker, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    name = resource.resource_name
    entries = [(config.name, config.value) for config in resource.configs]
    configs = broker.configs
    match resource.resource_type:
        case ResourceType.TOPIC:
            await change_topic(
                broker,
                name,
                lambda _current: alter_topic(name, entries, configs.broker),
                validate_only=validate_only,
            )
        case ResourceType.BROKER:
            await change_broker(
                broker,
                name,
                lambda current, per_broker: alter_broker(entries, current, configs.broker, per_broker=per_broker),
                validate_only=validate_only,
            )
        case ResourceType.GROUP:
            await change_group(
                broker,
                name,
                lambda current: alter_group(
                    name, entries, current, configs.broker, share_version=broker.features.share_version()
                ),
                validate_only=validate_only,
            )
        case ResourceType.CLIENT_METRICS:
            await change_client_metrics(
                broker,
                name,
                lambda _current: alter_client_metrics(name, entries),
                validate_only=validate_only,
            )
        case unknown:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {unknown}")
