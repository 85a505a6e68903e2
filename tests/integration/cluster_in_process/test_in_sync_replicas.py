"""Who is in sync, on three brokers: both ways in which ISRs are stored, followers that are left behind, both lag
policies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.client.admin import Admin
from kavka.client.cluster import Cluster
from kavka.model import TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from kavka.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from kavka.zookeeper.znode_paths import ISR_CHANGES_PATH
from tests.integration.cluster_in_process.in_process_cluster import PATIENCE_S, InProcessCluster
from tests.integration.cluster_in_process.test_replicated_topic import TOPIC, create, read, runs, write


@pytest.mark.setting("replica.lag.time.max.ms")
@pytest.mark.parametrize(
    "settings",
    [
        {"inter.broker.protocol.version": "3.9"},
        {"inter.broker.protocol.version": "2.6"},
        {"kavka.replica.lag.policy": "messages"},
        {"kavka.eligible.leader.replicas.enable": "true"},
    ],
    ids=["through the controller", "through ZooKeeper", "by messages", "eligible leader replicas"],
)
def test_a_replica_that_was_killed_leaves_the_isr_and_comes_back_to_it(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            await write(client, range(50))
            leader = await cluster.leader(TOPIC)
            follower = next(broker_id for broker_id in (1, 2, 3) if broker_id not in (leader, cluster.controller_id))
            # Its session lives on: only its lag tells that it is gone.
            await cluster.kill(follower, expire=False)
            await write(client, range(50, 100))
            await cluster.wait_for_isr(TOPIC, 0, [broker_id for broker_id in (1, 2, 3) if broker_id != follower])
            await cluster.start(follower)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            assert await read(client, 100) == list(range(100))
            assert cluster.contents(follower, TOPIC, 0) == cluster.contents(leader, TOPIC, 0)
            # Told of and taken, or never made.
            assert await cluster.session.children(ISR_CHANGES_PATH) == [] or "2.6" in settings.values()

    runs(tmp_path, scenario, settings)


def test_deleted_records_are_gone_from_every_replica_when_the_answer_comes(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            await write(client, range(20))
            orders = TopicPartition(TOPIC, 0)
            assert await Admin(client).delete_records({orders: 12}) == {orders: 12}
            for broker_id in (1, 2, 3):
                partition = cluster.broker(broker_id).replicas.partition(TOPIC, 0)
                assert partition is not None
                assert partition.log.log_start_offset == 12
            assert await read(client, 8) == list(range(12, 20))

    runs(tmp_path, scenario)


@pytest.mark.setting("kavka.eligible.leader.replicas.enable")
def test_eligible_leader_replicas_are_told_and_lead(tmp_path: Path) -> None:
    """Who left when too few were left is eligible, as DescribeTopicPartitions says, and leads if the last one dies."""

    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            await write(client, range(50))
            leader = await cluster.leader(TOPIC)
            first, second = (each for each in (1, 2, 3) if each != leader)
            await cluster.kill(first)
            await cluster.wait_for_isr(TOPIC, 0, sorted([leader, second]))
            await cluster.kill(second)
            await cluster.wait_for_isr(TOPIC, 0, [leader])
            await until_described(client, leader, ([leader], [second], []))
            await cluster.kill(leader)
            await cluster.start(leader)  # Its system has all that it wrote: it leads again.
            await cluster.wait_for_isr(TOPIC, 0, [leader])
            while await cluster.leader(TOPIC) != leader:  # noqa: ASYNC110 - ZooKeeper is asked
                await asyncio.sleep(0.05)
            await cluster.kill(leader)
            (tmp_path / f"broker-{leader}" / ".kavka_session").unlink()
            await cluster.start(leader)  # As after a power cut: it waits for the one that is eligible.
            await until_described(client, leader, ([second], [], [leader]))
            await cluster.start(second)
            await cluster.wait_for_isr(TOPIC, 0, sorted([leader, second]))
            assert await cluster.leader(TOPIC) == second
            await until_described(client, leader, (sorted([leader, second]), [], []))
            assert await read(client, 50) == list(range(50))

    async def until_described(client: Cluster, node_id: int, expected: tuple[list[int], list[int], list[int]]) -> None:
        """A broker learns of a change of state from the controller, after ZooKeeper has it."""
        async with asyncio.timeout(PATIENCE_S):
            while await described(client, node_id) != expected:  # noqa: ASYNC110 - a broker is asked
                await asyncio.sleep(0.05)

    async def described(client: Cluster, node_id: int) -> tuple[list[int], list[int] | None, list[int] | None]:
        """(ISR, eligible leader replicas, last known leader)"""
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)])
        await client.refresh()
        answer = await client.ask(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, request, DescribeTopicPartitionsResponse, node_id=node_id
        )
        (partition,) = answer.topics[0].partitions
        return sorted(partition.isr_nodes), partition.eligible_leader_replicas, partition.last_known_elr

    runs(tmp_path, scenario, {"kavka.eligible.leader.replicas.enable": "true", "min.insync.replicas": "2"})
