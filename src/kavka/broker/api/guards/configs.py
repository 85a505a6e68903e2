"""Guards of settings, and of the cluster's description.

Settings of brokers, loggers and metrics subscriptions need a right on the cluster; those of topics and groups one on
themselves. A resource of another type is the handler's to refuse.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kavka.broker.api.configs.resources import ResourceType as ConfigResource
from kavka.broker.api.guards.guard import Then, sort_out, then_add
from kavka.broker.api.guards.topics import cluster_operations
from kavka.broker.api.security.authorized_operations import NOT_ASKED
from kavka.errors import ErrorCode
from kavka.protocol.messages.alter_configs_response import AlterConfigsResourceResponse
from kavka.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kavka.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.messages.describe_configs_response import DescribeConfigsResult
from kavka.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller

_OF_CLUSTER = (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER, ConfigResource.CLIENT_METRICS)


def _refusal(caller: Caller, operation: Operation, kind: int, name: str) -> ErrorCode | None:
    """Why the caller may not, None if it may."""
    if kind in _OF_CLUSTER and not caller.may_on_cluster(operation):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if kind == ConfigResource.TOPIC and not caller.may(operation, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if kind == ConfigResource.GROUP and not caller.may(operation, ResourceType.GROUP, name):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None


def describe_configs(broker: ApiBroker, caller: Caller, message: DescribeConfigsRequest) -> Any:
    """DC, of each resource."""

    def refusal(resource: DescribeConfigsResource) -> DescribeConfigsResult | None:
        kind, name = resource.resource_type, resource.resource_name
        error = _refusal(caller, Operation.DESCRIBE_CONFIGS, kind, name)
        if error is None:
            return None
        return DescribeConfigsResult(
            error_code=error, error_message=error.name, resource_type=kind, resource_name=name, configs=[]
        )

    message.resources, refused = sort_out(message.resources, refusal)
    return then_add(refused, to="results")


def alter_configs(broker: ApiBroker, caller: Caller, message: Any) -> Any:
    """AC, of each resource."""
    return _alter(caller, message, AlterConfigsResourceResponse)


def incremental_alter_configs(broker: ApiBroker, caller: Caller, message: Any) -> Any:
    """AC, of each resource."""
    return _alter(caller, message, IncrementalResourceResponse)


def _alter(caller: Caller, message: Any, outcome: Any) -> Any:
    times = Counter((resource.resource_type, resource.resource_name) for resource in message.resources)

    def refusal(resource: Any) -> Any:
        kind, name = resource.resource_type, resource.resource_name
        if times[kind, name] > 1:
            return None  # A resource that is named twice stays: the handler refuses it.
        error = _refusal(caller, Operation.ALTER_CONFIGS, kind, name)
        if error is None:
            return None
        return outcome(error_code=error, error_message=None, resource_type=kind, resource_name=name)

    message.resources, refused = sort_out(message.resources, refusal)
    return then_add(refused, to="responses")


def describe_cluster(broker: ApiBroker, caller: Caller, message: DescribeClusterRequest) -> Any:
    """Nothing; to see the operations that are allowed, or who writes and reads, De K."""
    if message.kavka_clients_of is not None and not caller.may_on_cluster(Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClusterResponse(error_code=code, error_message=code.name)
    if not message.include_cluster_authorized_operations:
        return None

    def change(answer: DescribeClusterResponse) -> DescribeClusterResponse:
        if answer.cluster_authorized_operations != NOT_ASKED:
            answer.cluster_authorized_operations = cluster_operations(caller, answer.cluster_authorized_operations)
        return answer

    return Then(change)
