"""IncrementalAlterConfigs (key 44): changes single settings of a topic, a broker at run time, a group or a metrics
subscription, and levels of a broker's loggers (KIP-339, KIP-412, KIP-714, KIP-848).

Behaviour   Settings that the request does not name stay. Each resource is changed for itself; one that is named twice
            is INVALID_REQUEST. validate_only runs every check and writes nothing. REQUEST_TIMED_OUT: ZooKeeper did not
            say whether the change is written.
            A group's dead letters (errors.deadletterqueue.*) take share.version 2: INVALID_CONFIG below it.
            Settings of groups and subscriptions are kept in znodes that Apache Kafka does not read
            (`broker.settings.dynamic_configs`). Levels of loggers hold until the broker stops
            (`broker.settings.broker_loggers`).
Versions    0; 1 flexible.
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
from kavka.broker.settings.broker_loggers import change_loggers
from kavka.config.alter import (
    Change,
    alter_broker_incrementally,
    alter_client_metrics_incrementally,
    alter_group_incrementally,
    alter_topic_incrementally,
)
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ConfigsBroker, request: Request, message: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    return _alter_all(broker, message)


async def _alter_all(broker: ConfigsBroker, message: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    responses = await alter_each(
        message.resources,
        lambda resource: _alter(broker, resource, validate_only=message.validate_only),
        AlterConfigsResourceResponse,
    )
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(broker: ConfigsBroker, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    name = resource.resource_name
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    configs = broker.configs
    match resource.resource_type:
        case ResourceType.TOPIC:
            await change_topic(
                broker,
                name,
                lambda current: alter_topic_incrementally(name, current, changes, configs.broker),
                validate_only=validate_only,
            )
        case ResourceType.BROKER:
            await change_broker(
                broker,
                name,
                lambda current, per_broker: alter_broker_incrementally(
                    changes, current, configs.broker, per_broker=per_broker
                ),
                validate_only=validate_only,
            )
        case ResourceType.GROUP:
            await change_group(
                broker,
                name,
                lambda current: alter_group_incrementally(
                    name, current, changes, configs.broker, share_version=broker.features.share_version()
                ),
                validate_only=validate_only,
            )
        case ResourceType.CLIENT_METRICS:
            await change_client_metrics(
                broker,
                name,
                lambda current: alter_client_metrics_incrementally(name, current, changes),
                validate_only=validate_only,
            )
        case ResourceType.BROKER_LOGGER:
            change_loggers(name, broker.broker_id, broker.log_levels, changes, validate_only=validate_only)
        case unknown:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {unknown}")
