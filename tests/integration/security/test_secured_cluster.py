"""Brokers with access control lists among themselves: they replicate with ClusterAction, and not without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ConfigError
from kavka.model import TopicPartition
from kavka.protocol import messages as m
from kavka.protocol.messages import create_topics_request
from kavka.security.acls import EntryFilter, Filter, Operation
from kavka.security.resource_patterns import ResourceType
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import BrokerClient, batch
from tests.kit.rights_script import CLUSTER, EVERY, SETTINGS, add, creation, remove_all

ADMINISTRATOR = "127.0.0.3"
BROKERS = "127.0.0.1"
K = ResourceType.CLUSTER
ACTION = creation(K, CLUSTER, Operation.CLUSTER_ACTION, host=BROKERS)


def give_rights(client: BrokerClient) -> None:
    """Everything to the administrator's host, ClusterAction to the brokers', nothing to others."""
    creations = [creation(kind, name, Operation.ALL, host=ADMINISTRATOR) for kind, name in EVERY]
    assert set(add(client, [*creations, ACTION])) == {0}


def created(client: BrokerClient, name: str, replicas: int) -> int:
    topic = create_topics_request.CreatableTopic(name=name, num_partitions=1, replication_factor=replicas)
    return int(client.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics[0].error_code)


def is_led(partition: Any) -> bool:
    return partition is not None and bool(partition.is_leader)


async def wait(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event.
            await asyncio.sleep(0.05)


async def known_to_all(cluster: InProcessCluster, condition: Callable[[Any], bool]) -> None:
    """Returns when all brokers' lists are such."""
    await wait(lambda: all(condition(cluster.broker(each).authorization) for each in cluster.running))


def test_followers_need_cluster_action_and_a_change_is_in_force_on_every_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=2, settings=SETTINGS) as cluster:
            await cluster.wait_until_all_know([1, 2])
            ports = {each: port for each, (_, port) in zip((1, 2), cluster.bootstrap, strict=True)}
            controller = cluster.controller_id

            def ask(work: Callable[[BrokerClient], Any], broker: int = controller) -> Any:
                with BrokerClient(ports[broker], source=ADMINISTRATOR) as client:
                    return work(client)

            await asyncio.to_thread(ask, give_rights)
            await known_to_all(cluster, lambda authorization: len(authorization.acls.index.lists) == len(EVERY))
            assert await asyncio.to_thread(ask, lambda client: created(client, "orders", 2)) == 0
            partition = TopicPartition("orders", 0)
            await wait(lambda: cluster.broker(controller).metadata.partition(*partition) is not None)
            state = cluster.broker(controller).metadata.partition(*partition)
            assert state is not None
            leader = state.state.leader
            await wait(lambda: is_led(cluster.broker(leader).replicas.partition(*partition)))
            record = bytes(batch(b"v"))
            produced = await asyncio.to_thread(ask, lambda client: client.produce("orders", record), leader)
            assert produced.error_code == 0
            # Without the right the follower gets no more, and leaves the ISR; until then the high watermark waits.
            await asyncio.to_thread(ask, lambda client: remove_all(client, BROKERS))
            await known_to_all(
                cluster, lambda authorization: not authorization.acls.find(Filter(entry=EntryFilter(host=BROKERS)))
            )

            def isr() -> tuple[int, ...]:
                hosted = cluster.broker(leader).replicas.partition(*partition)
                assert hosted is not None
                return tuple(hosted.state.isr)

            produced = await asyncio.to_thread(ask, lambda client: client.produce("orders", record, acks=1), leader)
            assert produced.error_code == 0
            log = cluster.broker(leader).replicas.require_partition(*partition).log
            assert log.high_watermark < log.log_end_offset or isr() == (leader,)
            # And with it the cluster heals.
            await asyncio.to_thread(ask, lambda client: add(client, [ACTION]))
            await wait(lambda: len(isr()) == 2 and log.high_watermark == log.log_end_offset)

    asyncio.run(asyncio.wait_for(scenario(), 280))


def test_a_denial_leaves_a_record_that_names_what_would_allow_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=1, settings=SETTINGS) as cluster:
            ((_host, port),) = cluster.bootstrap

            def work() -> None:
                with BrokerClient(port, source=ADMINISTRATOR) as admin:
                    give_rights(admin)
                    admin.create_topic("orders")
                with BrokerClient(port, source="127.0.0.9") as client:
                    for _ in range(3):
                        assert client.produce("orders", bytes(batch(b"v"))).error_code == 29
                    assert client.topics() == {}

            await asyncio.to_thread(work)
            authorization = cluster.broker(1).authorization
            assert authorization is not None
            assert authorization._ports.denials.count == 3

    asyncio.run(asyncio.wait_for(scenario(), 280))


@pytest.mark.setting("super.users")
def test_a_super_user_may_do_everything(tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }

    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=1, settings=settings) as cluster:
            ((_host, port),) = cluster.bootstrap

            def work() -> None:
                with BrokerClient(port) as client:
                    client.create_topic("orders")
                    assert client.produce("orders", bytes(batch(b"v"))).error_code == 0

            await asyncio.to_thread(work)

    asyncio.run(asyncio.wait_for(scenario(), 280))


def test_a_cluster_that_would_lock_itself_out_does_not_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
        async with InProcessCluster(tmp_path, count=1, settings=settings):
            raise AssertionError("it started")

    with pytest.raises(ConfigError, match="ClusterAction"):
        asyncio.run(asyncio.wait_for(scenario(), 280))
