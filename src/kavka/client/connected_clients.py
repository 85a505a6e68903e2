"""Connected clients: who writes and reads at which broker, with address, principal and software.

Only kavka's brokers tell it, each of its own connections: in a tagged field of DescribeCluster that Apache Kafka does
not know, and leaves out. Where brokers have an authorizer it takes the right to describe the cluster.

    I1  at most MOST_CLIENTS connections are kept of all answers together, and LONGEST characters of each text: a broker
        may send what it likes
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kavka.protocol.messages.describe_cluster_response import DescribeClusterResponse, KavkaClient

MOST_CLIENTS: Final = 10_000
LONGEST: Final = 250
"""Of a client id, an address, a principal and the software. Brokers of kavka cut client ids there."""
UNKNOWN_SOFTWARE: Final = "unknown"
"""What brokers say of a client that has not told its software: those before KIP-511 do not."""


class ClientWriting(NamedTuple):
    """What a connection wrote into a partition: `producer_id` is -1 without idempotence, `last_ms` milliseconds since
    1970, `bytes_in` those of all batches since the connection was made."""

    partition: TopicPartition
    producer_id: int
    last_ms: int
    bytes_in: int


class ConnectedClient(NamedTuple):
    """A connection at one broker. `software` and `version` are None where the client did not tell."""

    broker: int
    connection_id: str
    client_id: str
    host: str
    principal: str
    software: str | None
    version: str | None
    writes: tuple[ClientWriting, ...]
    reads: tuple[TopicPartition, ...]


class ConnectedClients(NamedTuple):
    """What brokers tell. `silent`: brokers that did not, by id, with the reason. `has_more`: not all were told."""

    found: tuple[ConnectedClient, ...]
    silent: Mapping[int, str]
    has_more: bool = False


async def connected_clients(
    cluster: Cluster, topics: Collection[str], brokers: Sequence[int]
) -> ConnectedClients | None:
    """Who writes and reads these topics, or any where none is named, at these brokers; None where no broker tells:
    those of Apache Kafka do not. Raises `RequestError`, `ConnectionFailed` if all of them fail."""
    answers = await asyncio.gather(*(_at(cluster, broker, topics) for broker in brokers), return_exceptions=True)
    found: list[ConnectedClient] = []
    failures: dict[int, RequestError | ConnectionFailed] = {}
    has_told = has_more = False
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, RequestError | ConnectionFailed):
            failures[broker] = answer
        elif isinstance(answer, BaseException):
            raise answer
        elif answer is not None and answer.kavka_clients is not None:
            has_told = True
            has_more |= answer.kavka_has_more_clients
            found += [_client(broker, each) for each in answer.kavka_clients[: MOST_CLIENTS + 1 - len(found)]]
    if failures and not has_told:
        raise next(iter(failures.values()))
    if not has_told:
        return None
    has_more |= len(found) > MOST_CLIENTS
    silent = {broker: str(why) for broker, why in failures.items()}
    return ConnectedClients(tuple(found[:MOST_CLIENTS]), silent, has_more)


async def _at(cluster: Cluster, broker: int, topics: Collection[str]) -> DescribeClusterResponse | None:
    try:
        answer = await cluster.ask(
            ApiKey.DESCRIBE_CLUSTER,
            DescribeClusterRequest(kavka_clients_of=sorted(topics)),
            DescribeClusterResponse,
            node_id=broker,
        )
    except RequestError as refused:
        if refused.code is ErrorCode.UNSUPPORTED_VERSION:  # Before 2.8 brokers have no such request.
            return None
        raise
    raise_for(answer.error_code, f"clients of broker {broker}", answer.error_message)
    return answer


def _client(broker: int, told: KavkaClient) -> ConnectedClient:
    return ConnectedClient(
        broker,
        told.connection_id[:LONGEST],
        told.client_id[:LONGEST],
        told.host[:LONGEST],
        told.principal[:LONGEST],
        None if told.software_name == UNKNOWN_SOFTWARE else told.software_name[:LONGEST],
        None if told.software_version == UNKNOWN_SOFTWARE else told.software_version[:LONGEST],
        tuple(
            ClientWriting(
                TopicPartition(topic.name, each.partition_index), each.producer_id, each.last_write_ms, each.bytes_in
            )
            for topic in told.topics
            for each in topic.writes
        ),
        tuple(TopicPartition(topic.name, index) for topic in told.topics for index in topic.reads),
    )
