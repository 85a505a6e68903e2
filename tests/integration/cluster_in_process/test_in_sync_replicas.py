"""Who is in sync, on three brokers: both ways in which ISRs are stored, followers that are left behind, both lag
policies."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process_cluster import InProcessCluster
from test_replicated_topic import TOPIC, create, read, runs, write

from kavka.client.admin import Admin
from kavka.model import TopicPartition
from kavka.zookeeper.znodes import ISR_CHANGES_PATH


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
