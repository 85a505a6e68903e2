"""Metadata of what a broker cannot tell an address of, or does not have, in the versions that say it differently."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.protocol.messages import CreateTopicsRequest, MetadataRequest
from kavka.protocol.messages.create_topics_request import CreatableReplicaAssignment, CreatableTopic
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import BrokerClient

LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, UNKNOWN_TOPIC, INVALID_TOPIC, LISTENER_NOT_FOUND = 5, 9, 3, 17, 72
ALL_OF_A_TOPIC = 3576
"""The bits of all operations that there are on a topic."""
NOBODY = -1


async def ask(port: int, *requests: tuple[Any, int]) -> list[Any]:
    """The answers, asked beside the loop that the brokers run on."""

    def asked() -> list[Any]:
        with BrokerClient(port) as client:
            return [client.ask(request, version) for request, version in requests]

    return await asyncio.to_thread(asked)


def metadata(*names: str, **more: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **more)


def created(name: str, leader: int, followers: Sequence[int] = ()) -> tuple[CreateTopicsRequest, int]:
    assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=[leader, *followers])]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assigned)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, LEADER_NOT_AVAILABLE), (5, LEADER_NOT_AVAILABLE), (6, LISTENER_NOT_FOUND), (12, LISTENER_NOT_FOUND)],
)
def test_a_leader_without_the_clients_listener(tmp_path: Path, version: int, error: int) -> None:
    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=2, more_listeners=["INSIDE"]) as cluster:
            controller = cluster.controller_id
            other = next(broker_id for broker_id in cluster.running if broker_id != controller)
            await cluster.wait_until_all_know([1, 2])
            inside = cluster.ports_of.pop("INSIDE")  # The other one comes back without it.
            await cluster.stop(other)
            await cluster.start(other)
            await cluster.wait_until_all_know([1, 2])
            (answer,) = await ask(inside[controller], created("t", leader=other))
            assert answer.topics[0].error_code == 0, answer
            (answer,) = await ask(inside[controller], (metadata("t"), version))
            (partition,) = answer.topics[0].partitions
            assert (partition.error_code, partition.leader_id) == (error, NOBODY)
            assert [broker.node_id for broker in answer.brokers] == [controller]

    asyncio.run(asyncio.wait_for(scenario(), 280))


@pytest.mark.parametrize(("version", "error"), [(0, REPLICA_NOT_AVAILABLE), (1, 0), (12, 0)])
def test_a_replica_that_is_down_is_an_error_in_version_0_alone(tmp_path: Path, version: int, error: int) -> None:
    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=2) as cluster:
            controller = cluster.controller_id
            other = next(broker_id for broker_id in cluster.running if broker_id != controller)
            await cluster.wait_until_all_know([1, 2])
            _host, port = cluster.bootstrap[controller - 1]
            (answer,) = await ask(port, created("t", leader=controller, followers=[other]))
            assert answer.topics[0].error_code == 0, answer
            await cluster.stop(other)
            await cluster.wait_until_all_know([controller])
            (answer,) = await ask(port, (metadata("t"), version))
            (partition,) = answer.topics[0].partitions
            assert (partition.error_code, partition.leader_id) == (error, controller)
            assert partition.replica_nodes == ([controller] if error else [controller, other])

    asyncio.run(asyncio.wait_for(scenario(), 280))


def test_what_may_be_done_with_a_topic_that_is_not_there_and_with_a_name_that_none_can_have(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=1) as cluster:
            ((_host, port),) = cluster.bootstrap
            asked = metadata("nobody", allow_auto_topic_creation=False, include_topic_authorized_operations=True)
            _, unknown, colliding = await ask(port, created("a.b", leader=1), (asked, 12), (metadata("a_b"), 12))
            assert unknown.topics[0].error_code == UNKNOWN_TOPIC
            assert unknown.topics[0].topic_authorized_operations == ALL_OF_A_TOPIC
            # Told at once, as by Kafka 3.9: a client that is told "unknown" asks until its patience is over.
            assert colliding.topics[0].error_code == INVALID_TOPIC

    asyncio.run(asyncio.wait_for(scenario(), 280))
