"""DescribeCluster (key 60): the cluster's id, its controller and its live brokers.

Behaviour   The answer names the brokers that have the request's listener, as clients of that listener reach them.
Versions    0; 1 endpoint type (KIP-919); 2 fenced brokers.
Not supported  Endpoint type "controllers" (2): a ZooKeeper cluster has no controller listeners. Fenced brokers: only
            KRaft has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.endpoints import reachable_brokers
from kavka.broker.api.security.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from kavka.errors import ErrorCode
from kavka.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kavka.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request

BROKERS = 1
CONTROLLERS = 2


def handle(broker: ClusterBroker, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    if message.endpoint_type != BROKERS:
        error = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if message.endpoint_type == CONTROLLERS
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        return DescribeClusterResponse(
            error_code=error,
            error_message=f"this endpoint is a broker's; endpoint type {message.endpoint_type} was asked for",
            endpoint_type=BROKERS,
        )
    brokers = [
        DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in reachable_brokers(broker.metadata, request)
    ]
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        endpoint_type=BROKERS,
        cluster_id=broker.metadata.cluster_id,
        controller_id=broker.metadata.controller_id,
        brokers=brokers,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if message.include_cluster_authorized_operations
        else NOT_ASKED,
    )
