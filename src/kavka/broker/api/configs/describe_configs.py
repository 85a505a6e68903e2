"""DescribeConfigs (key 32): every setting of a topic, a broker, a group or a metrics subscription; levels of loggers.

Behaviour   Each setting with its value, where the value comes from, its type, whether it can be changed and its
            synonyms; with its documentation (in our words) if asked for. The answer never shows passwords. A broker
            answers for itself ("" names the default of all brokers) and for its loggers (KIP-412), whose levels have no
            documentation. What was changed through another broker a moment ago is seen: the broker looks for changes in
            ZooKeeper first, as Kafka 3.9 reads topics' settings there for each answer.
Versions    1 synonyms; 2; 3 documentation and types; 4 flexible.
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from kavka.broker.api.configs.resources import ResourceType, require_name
from kavka.broker.settings.broker_loggers import describe_loggers
from kavka.config.alter import is_this_broker
from kavka.config.describe import (
    ConfigEntry,
    broker_documentation,
    client_metrics_documentation,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
    group_documentation,
    topic_documentation,
)
from kavka.controller.decide.topic_plans import topic_name_error
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker
    from kavka.protocol.connection import Request

Documentation = Callable[[str], str | None]


async def handle(broker: ConfigsBroker, request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    if any(resource.resource_type != ResourceType.BROKER_LOGGER for resource in message.resources):
        await broker.configs.catch_up()
    results = []
    for resource in message.resources:
        result = DescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        try:
            entries, documentation = _describe(broker, resource)
        except RequestError as refused:
            result.error_code = refused.code
            result.error_message = refused.message
        else:
            result.configs = [
                _entry(
                    entry,
                    documentation if message.include_documentation or documentation is _undocumented else None,
                    with_synonyms=message.include_synonyms,
                )
                for entry in entries
            ]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _describe(broker: ConfigsBroker, resource: DescribeConfigsResource) -> tuple[list[ConfigEntry], Documentation]:
    name = resource.resource_name
    names: Collection[str] | None = resource.configuration_keys
    configs = broker.configs
    match resource.resource_type:
        case ResourceType.TOPIC:
            invalid = broker.invalid_topic_name(name)
            if invalid is not None:
                raise RequestError(invalid, topic_name_error(name) or "")
            if broker.metadata.topic(name) is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            return describe_topic(configs.overrides(name), configs.broker, names), topic_documentation
        case ResourceType.BROKER:
            if is_this_broker(name, broker.broker_id, describing=True):
                return describe_broker(configs.broker, names), broker_documentation
            return describe_broker_default(configs.broker, names), broker_documentation
        case ResourceType.BROKER_LOGGER:
            return describe_loggers(name, broker.broker_id, broker.log_levels, names), _undocumented
        case ResourceType.CLIENT_METRICS:
            require_name(name, "Client metrics subscription name must not be empty")
            return describe_client_metrics(configs.client_metrics(name), names), client_metrics_documentation
        case ResourceType.GROUP:
            require_name(name, "Group name must not be empty")
            return describe_group(configs.group(name), configs.broker, names), group_documentation
        case unknown:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {unknown}")


def _undocumented(_name: str) -> str:
    """Kafka always sends an empty text for loggers; for all else it sends none unless asked."""
    return ""


def _entry(
    entry: ConfigEntry, documentation: Documentation | None, *, with_synonyms: bool
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.is_default,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
        if with_synonyms
        else [],
        config_type=entry.type_code,
        documentation=None if documentation is None else documentation(entry.name),
    )
