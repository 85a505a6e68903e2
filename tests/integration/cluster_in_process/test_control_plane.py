"""control.plane.listener.name: the controller commands brokers over a listener of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.integration.cluster_in_process.test_replicated_topic import TOPIC, create, read, write

ESTABLISHED = "01"
CONTROL = {"control.plane.listener.name": "control", "inter.broker.listener.name": "PLAINTEXT"}


def connections_to(port: int) -> int:
    """Connections of this machine whose listening end is `port`."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return sum(row[3] == ESTABLISHED and int(row[1].rpartition(":")[2], 16) == port for row in rows)


@pytest.mark.setting(
    "control.plane.listener.name", "inter.broker.listener.name", "listener.security.protocol.map", "listeners"
)
def test_orders_come_over_the_controllers_listener_and_nothing_else_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=2, settings=CONTROL, more_listeners=["CONTROL"]) as cluster:
            await cluster.wait_until_all_know([1, 2])
            async with cluster.client() as client:
                await create(client, replicas=2)
                await write(client, range(5))
                assert await read(client, 5) == list(range(5))
            controller = cluster.controller_id
            (commanded,) = [broker_id for broker_id in cluster.running if broker_id != controller]
            ports = cluster.ports_of["CONTROL"]
            assert connections_to(ports[commanded]) == 1
            assert connections_to(ports[controller]) == 0
            assert {cluster.log(broker_id, TOPIC).log_end_offset for broker_id in cluster.running} == {5}

    asyncio.run(asyncio.wait_for(scenario(), 280))
