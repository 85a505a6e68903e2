"""IncrementalAlterConfigs (key 44): changes single settings of a topic, a broker at run time, a group, or a
subscription to clients' metrics, and levels of a broker's loggers (KIP-339, KIP-412, KIP-714, KIP-848).

Behaviour   What groups and subscriptions set lies in znodes that Apache Kafka does not know
            (`broker.settings.dynamic_configs`).
            Levels of loggers hold until the broker ends (`broker.settings.broker_loggers`).
Versions    0; 1 flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.configs.alter_configs import named_twice, refuse_twice, require_topic
from kavka.broker.api.configs.describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, require_name
from kavka.broker.settings.broker_loggers import change_loggers
from kavka.config.alter import (
    Change,
    alter_broker_incrementally,
    alter_client_metrics_incrementally,
    alter_group_incrementally,
    alter_topic_incrementally,
    is_this_broker,
)
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kavka.zookeeper.znodes import CLIENT_METRICS_ENTITY, GROUPS_ENTITY

if TYPE_CHECKING:
    from kavka.broker.assembly.broker import Broker
    from kavka.protocol.connection import Request


def handle(
    broker: Broker, request: Request, message: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    return _alter_all(broker, message)


async def _alter_all(broker: Broker, message: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
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
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(broker: Broker, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    name = resource.resource_name
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    configs = broker.configs
    if resource.resource_type == TOPIC:
        require_topic(broker, name)
        await configs.change_topic(
            name,
            lambda current: alter_topic_incrementally(name, current, changes, configs.broker),
            validate_only=validate_only,
        )
    elif resource.resource_type == BROKER:
        per_broker = is_this_broker(name, broker.broker_id)
        await configs.change_broker(
            lambda current: alter_broker_incrementally(changes, current, configs.broker, per_broker=per_broker),
            per_broker=per_broker,
            validate_only=validate_only,
        )
    elif resource.resource_type == GROUP:
        require_name(name, "Default group resources are not allowed.")
        await configs.change_other(
            GROUPS_ENTITY,
            name,
            lambda current: alter_group_incrementally(name, current, changes, configs.broker),
            validate_only=validate_only,
        )
    elif resource.resource_type == CLIENT_METRICS:
        require_name(name, "Subscription name can't be empty")
        await configs.change_other(
            CLIENT_METRICS_ENTITY,
            name,
            lambda current: alter_client_metrics_incrementally(name, current, changes),
            validate_only=validate_only,
        )
    elif resource.resource_type == BROKER_LOGGER:
        change_loggers(name, broker.broker_id, broker.log_levels, changes, validate_only=validate_only)
    else:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
