"""ListConfigResources (key 74): which topics, brokers, groups and metrics subscriptions have settings (KIP-1142).

Behaviour   Version 0 asks for metrics subscriptions only. No types named means all. The answer lists every topic and
            every broker (for loggers too), and the groups and subscriptions that set something. A type that has no
            settings is UNSUPPORTED_VERSION.
Versions    0 (ListClientMetricsResources, KIP-714); 1 types. Apache Kafka 3.9 on ZooKeeper does not serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.configs.resources import ResourceType
from kavka.errors import ErrorCode
from kavka.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from kavka.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse
from kavka.zookeeper.znode_paths import CLIENT_METRICS_ENTITY, GROUPS_ENTITY

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker
    from kavka.protocol.connection import Request


def handle(broker: ConfigsBroker, request: Request, message: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    brokers = [str(each.broker_id) for each in broker.metadata.brokers()]
    listed: dict[int, list[str]] = {
        ResourceType.TOPIC: sorted(topic.name for topic in broker.metadata.topics()),
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.CLIENT_METRICS: broker.configs.named(CLIENT_METRICS_ENTITY),
        ResourceType.GROUP: broker.configs.named(GROUPS_ENTITY),
    }
    wanted = message.resource_types or list(listed)
    if request.header.api_version == 0:
        wanted = [ResourceType.CLIENT_METRICS]
    if any(kind not in listed for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in listed.items()
            if kind in wanted
            for name in names
        ]
    )
