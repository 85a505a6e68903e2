"""Settings that say how many replicas there are, how many must be in sync, and who leads, on clusters of brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kavka.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from kavka.client.cluster import Cluster
from kavka.errors import ErrorCode
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from tests.integration.cluster_in_process.in_process_cluster import PATIENCE_S, InProcessCluster
from tests.integration.cluster_in_process.test_control_plane import connections_to
from tests.integration.cluster_in_process.test_replicated_topic import TOPIC, create, runs, write
from tests.kit.broker_client import BrokerClient, batch

GROUP, TRANSACTION = 0, 1


async def set_for_all(client: Cluster, **settings: str) -> None:
    """Changes the defaults of all brokers at run time, names with _ for each dot."""
    changes = [ConfigChange(name.replace("_", "."), value) for name, value in settings.items()]
    assert await Admin(client).alter_configs({ConfigResource(ResourceType.BROKER, ""): changes}) == {}


async def answer_to_a_write(cluster: InProcessCluster, broker_id: int) -> ErrorCode:
    """What a broker answers to a record that all replicas in sync must have."""
    port = cluster.bootstrap[broker_id - 1][1]

    def ask() -> int:
        with BrokerClient(port) as client:
            return int(client.produce(TOPIC, bytes(batch(b"v")), acks=-1).error_code)

    return ErrorCode(await asyncio.to_thread(ask))


@pytest.mark.setting("min.insync.replicas")
def test_a_write_needs_so_many_replicas_in_sync_as_is_set_while_brokers_run(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            assert await Admin(client).create_topics([NewTopic(TOPIC, assignments=[[1, 2]])]) == {}
            await write(client, range(1))
            await cluster.kill(2)
            await cluster.wait_for_isr(TOPIC, 0, [1])
            assert await answer_to_a_write(cluster, 1) is ErrorCode.NONE
            await set_for_all(client, min_insync_replicas="2")
            # Either broker may have made the change; the other one hears of it from ZooKeeper.
            async with asyncio.timeout(PATIENCE_S):
                while await answer_to_a_write(cluster, 1) is not ErrorCode.NOT_ENOUGH_REPLICAS:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await cluster.start(2)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2])
            assert await answer_to_a_write(cluster, 1) is ErrorCode.NONE

    runs(tmp_path, scenario)


@pytest.mark.setting("unclean.leader.election.enable")
def test_who_is_left_leads_once_all_brokers_are_told_to_allow_it(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            assert await Admin(client).create_topics([NewTopic(TOPIC, assignments=[[1, 2]])]) == {}
            await write(client, range(1))
            await cluster.kill(2)
            await cluster.wait_for_isr(TOPIC, 0, [1])
            await cluster.kill(1)
            await cluster.start(2)
            assert (await cluster.wait_until_offline(TOPIC)).isr == (1,)
            await set_for_all(client, unclean_leader_election_enable="true")
            await cluster.wait_for_isr(TOPIC, 0, [2])

    runs(tmp_path, scenario)


@pytest.mark.setting(
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "num.partitions",
)
def test_topics_have_so_many_replicas_as_the_brokers_settings_say(tmp_path: Path) -> None:
    settings = {
        "default.replication.factor": "2",
        "num.partitions": "4",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.num.partitions": "3",
    }

    async def scenario(cluster: InProcessCluster) -> None:
        port = cluster.bootstrap[0][1]

        def ask_for_coordinators() -> None:
            with BrokerClient(port) as client:
                for kind in (GROUP, TRANSACTION):
                    client.ask(FindCoordinatorRequest(key="k", key_type=kind), 2)

        async def replicas(topic: str, partition: int) -> int:
            async with asyncio.timeout(PATIENCE_S):
                while await cluster.state(topic, partition) is None:  # noqa: ASYNC110 - ZooKeeper is asked
                    await asyncio.sleep(0.05)
            return len(await cluster.isr(topic, partition))

        async with cluster.client() as client:
            assert await Admin(client).create_topics([NewTopic(TOPIC, -1, -1)]) == {}
            await asyncio.to_thread(ask_for_coordinators)
            assert [await replicas(TOPIC, partition) for partition in range(4)] == [2] * 4
            assert await cluster.state(TOPIC, 4) is None
            assert await replicas(GROUP_METADATA_TOPIC, 0) == 3
            assert await replicas(TRANSACTION_STATE_TOPIC, 0) == 2

    runs(tmp_path, scenario, settings)


@pytest.mark.setting("num.replica.fetchers")
def test_a_broker_fetches_over_so_many_connections_as_is_set_while_it_runs(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            wish = NewTopic(TOPIC, assignments=[[1, 2]] * 16)
            assert await Admin(client).create_topics([wish]) == {}
            await write(client, range(3))
            before = connections_to(cluster.bootstrap[0][1])
            await set_for_all(client, num_replica_fetchers="2")
            await cluster.until(lambda: connections_to(cluster.bootstrap[0][1]) > before, "another connection")
            await write(client, range(3))
            await cluster.until(lambda: cluster.log(2, TOPIC).log_end_offset == 6, "the follower")

    runs(tmp_path, scenario)


@pytest.mark.setting("auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds")
def test_leadership_goes_back_to_the_preferred_replica_by_itself(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            assert await Admin(client).create_topics([NewTopic(TOPIC, assignments=[[1, 2]])]) == {}
            await cluster.kill(1)
            await cluster.wait_for_isr(TOPIC, 0, [2])
            await cluster.start(1)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2])

            def leader() -> int:
                partition = cluster.broker(1).metadata.partition(TOPIC, 0)
                return -1 if partition is None else partition.state.leader

            await cluster.until(lambda: leader() == 1, "its leadership")

    runs(tmp_path, scenario, {"leader.imbalance.check.interval.seconds": "1"})


@pytest.mark.setting("controlled.shutdown.enable")
def test_a_broker_that_stops_hands_over_unless_it_is_told_not_to(tmp_path: Path) -> None:
    stayed: list[bool] = []
    for enabled in ("true", "false"):

        async def scenario(cluster: InProcessCluster) -> None:
            async with cluster.client() as client:
                await create(client)
                leader = await cluster.leader(TOPIC)
                await cluster.broker(leader).leave_cluster()
                stayed.append(await cluster.leader(TOPIC) == leader)

        runs(tmp_path / enabled, scenario, {"controlled.shutdown.enable": enabled})
    assert stayed == [False, True]
