"""DescribeCluster (key 60): the cluster's id, its controller and its live brokers.

Behaviour   The answer names the brokers that have the request's listener, as clients of that listener reach them.
            With `kavka_clients_of`, a tagged field that only kavka's own programs set: who writes and reads these
            topics at this broker, or any where none is named, with client id, address, principal and software. Apache
            Kafka passes over the field, and answers as if it was not there: with no such field in the answer.
Versions    0; 1 endpoint type (KIP-919); 2 fenced brokers.
Not supported  Endpoint type "controllers" (2): a ZooKeeper cluster has no controller listeners. Fenced brokers: only
            KRaft has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.endpoints import reachable_brokers
from kavka.broker.api.security.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from kavka.errors import ErrorCode
from kavka.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kavka.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    KavkaClient,
    KavkaClientTopic,
    KavkaClientWriting,
)

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.broker.telemetry.connected_clients import Client
    from kavka.protocol.connection import Request

BROKERS = 1
CONTROLLERS = 2
_TURN_S = 0.005
"""How long the loop is kept from others: a session may have thousands of partitions."""


def handle(
    broker: ClusterBroker, request: Request, message: DescribeClusterRequest
) -> DescribeClusterResponse | Awaitable[DescribeClusterResponse]:
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
    answer = DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        endpoint_type=BROKERS,
        cluster_id=broker.metadata.cluster_id,
        controller_id=broker.metadata.controller_id,
        brokers=brokers,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if message.include_cluster_authorized_operations
        else NOT_ASKED,
    )
    if message.kavka_clients_of is None:
        return answer
    return _with_clients(broker, answer, frozenset(message.kavka_clients_of))


async def _with_clients(
    broker: ClusterBroker, answer: DescribeClusterResponse, topics: frozenset[str]
) -> DescribeClusterResponse:
    from kavka.broker.telemetry.connected_clients import MOST_CLIENTS, MOST_TOLD  # late: only consoles ask for it

    clients = broker.connected_clients
    answer.kavka_clients = []
    answer.kavka_has_more_clients = clients.is_full
    left, loop = MOST_TOLD, asyncio.get_running_loop()
    turn_began = loop.time()
    for found in clients.told(topics):
        if found is not None:
            left -= sum(len(use.writes) + len(use.reads) for use in found.topics)
            if left < 0 or len(answer.kavka_clients) >= MOST_CLIENTS:
                answer.kavka_has_more_clients = True
                break
            answer.kavka_clients.append(_client(found))
        if loop.time() - turn_began >= _TURN_S:
            await asyncio.sleep(0)
            turn_began = loop.time()
    return answer


def _client(client: Client) -> KavkaClient:
    context = client.context
    return KavkaClient(
        connection_id=context.connection_id,
        client_id=client.client_id,
        host=context.client_host,
        port=context.client_port,
        listener_name=context.listener_name,
        principal=context.principal,
        software_name=context.client_software_name,
        software_version=context.client_software_version,
        topics=[
            KavkaClientTopic(
                name=use.topic,
                writes=[
                    KavkaClientWriting(
                        partition_index=writing.partition,
                        producer_id=writing.producer_id,
                        last_write_ms=writing.last_ms,
                        bytes_in=writing.bytes_in,
                    )
                    for writing in use.writes
                ],
                reads=list(use.reads),
            )
            for use in client.topics
        ],
    )
