"""Faults of the network and of sessions, under load: each process is a host of its own, and packets vanish silently.

Every test ends with all replicas in sync, everything readable and nothing acknowledged lost (`checked_load`). How soon
writes go on is asserted only where somebody can know that they should: a leader that ZooKeeper sees but no follower
reaches keeps its partitions, and they wait.
"""

from __future__ import annotations

import os
import time

import pytest

from kavka.errors import ErrorCode
from tests.integration.cluster.checked_load import checked_load, wait_for_progress
from tests.integration.cluster.cluster_client import BOTH, FAILOVER_S, ONE, ClusterClient, StartCluster, holds_for
from tests.kit.process_cluster import SESSION_TIMEOUT_MS, eventually

# Partition i prefers broker i.
REPLICAS = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
LED_BY_OTHERS = {1, 2}
# A minute where there is time for it.
ZOOKEEPER_DOWN_S = 60.0 if os.environ.get("KAVKA_ALL_CLIENTS") else SESSION_TIMEOUT_MS / 1000 + 1

pytestmark = pytest.mark.parametrize("flavour", BOTH, indirect=True)


def start(start_cluster: StartCluster, *, controller: int = 2) -> ClusterClient:
    client = start_cluster(network=True, controller=controller)
    client.create_topic(replicas=REPLICAS, min_insync_replicas="2")
    return client


def wait_until_whole(client: ClusterClient) -> None:
    for partition in range(len(REPLICAS)):
        client.wait_for_isr(0, 1, 2, partition=partition)


@pytest.mark.parametrize(
    "hears", [pytest.param(True, id="heard-by-no-broker"), pytest.param(False, id="hears-no-broker")]
)
def test_a_broker_whose_peers_are_cut_off_one_way(start_cluster: StartCluster, hears: bool) -> None:
    client = start(start_cluster)
    with checked_load(client, partitions=3) as load:
        for peer in (1, 2):
            source, target = (0, peer) if hears else (peer, 0)
            client.cluster.cut(source, target, both_ways=False)
        # 0 cannot fetch in either case: whoever leads drops it, and goes on.
        client.wait_for_isr(1, 2, partition=1)
        client.wait_for_isr(1, 2, partition=2)
        wait_for_progress(load, LED_BY_OTHERS)
        client.cluster.heal_from_brokers(0)
        wait_until_whole(client)
        wait_for_progress(load, range(3))


def test_a_broker_cut_from_zookeeper_but_not_from_its_peers(start_cluster: StartCluster) -> None:
    client = start(start_cluster)
    with checked_load(client, partitions=3) as load:
        client.cluster.cut_from_zookeeper(0)
        client.wait_for_state("1 leads", lambda state: state.leader == 1)
        wait_for_progress(load, range(3))
        client.cluster.heal_from_zookeeper(0)
        client.cluster.wait_for_broker(0)
        wait_until_whole(client)


def test_a_broker_cut_from_its_peers_but_not_from_zookeeper(start_cluster: StartCluster) -> None:
    client = start(start_cluster)
    with checked_load(client, partitions=3) as load:
        client.cluster.cut_from_brokers(0)
        client.wait_for_isr(1, 2, partition=1)
        client.wait_for_isr(1, 2, partition=2)
        wait_for_progress(load, LED_BY_OTHERS)
        client.cluster.heal_from_brokers(0)
        wait_until_whole(client)
        wait_for_progress(load, range(3))


@pytest.mark.thorough
def test_two_brokers_cut_from_each_other(start_cluster: StartCluster) -> None:
    client = start(start_cluster)
    with checked_load(client, partitions=3) as load:
        client.cluster.cut(0, 1)
        wait_for_progress(load, {2})  # 0 and 1 both follow 2
        time.sleep(2)
        client.cluster.heal(0, 1)
        wait_until_whole(client)
        wait_for_progress(load, range(3))


def test_a_leader_cut_from_everybody_but_its_clients_acknowledges_nothing(start_cluster: StartCluster) -> None:
    client = start(start_cluster)
    assert client.accepted(b"one", at=0) == 0
    client.wait_for_values(b"one", at=1)
    client.cluster.cut_from_brokers(0)
    client.cluster.cut_from_zookeeper(0)
    assert client.produce(b"zombie", at=0, timeout_ms=1500).error is not ErrorCode.NONE
    state = client.wait_for_state("1 leads", lambda state: state.leader == 1)
    assert state.isr == (1, 2)
    assert client.produce(b"zombie too", at=0, timeout_ms=1500).error is not ErrorCode.NONE
    client.produce(b"zombie, acks=1", at=0, acks=ONE)  # may be taken, and is lost then
    assert client.values(at=0) == [b"one"]
    assert client.accepted(b"two", at=1) == 1
    client.cluster.heal_from_brokers(0)
    client.cluster.heal_from_zookeeper(0)
    client.cluster.wait_for_broker(0)
    wait_until_whole(client)
    client.wait_for_equal_logs(0, 1, 2)
    client.wait_for_values(b"one", b"two", at=1)


def test_the_controller_cut_from_zookeeper_is_replaced_and_obeyed_no_more(start_cluster: StartCluster) -> None:
    client = start(start_cluster, controller=0)
    epoch = client.cluster.controller_epoch()
    with checked_load(client, partitions=3) as load:
        client.cluster.cut_from_zookeeper(0)
        eventually("another controller", lambda: client.cluster.controller() in (1, 2), timeout_s=FAILOVER_S)
        wait_for_progress(load, range(3))
        client.cluster.heal_from_zookeeper(0)
        client.cluster.wait_for_broker(0)
        assert client.cluster.controller() in (1, 2)
        assert client.cluster.controller_epoch() > epoch
        wait_until_whole(client)


def test_a_session_that_expires(start_cluster: StartCluster) -> None:
    """A broker that was stopped beyond its session comes back with another, on its own."""
    client = start(start_cluster)
    czxid = client.cluster.zookeeper.get("/brokers/ids/0")[1].czxid
    with checked_load(client, partitions=3) as load:
        client.cluster.brokers[0].pause()
        eventually("its registration is gone", lambda: 0 not in client.cluster.registered())
        wait_for_progress(load, range(3))
        client.cluster.brokers[0].resume()
        eventually("it is registered anew", lambda: client.cluster.zookeeper.get("/brokers/ids/0")[1].czxid > czxid)
        wait_until_whole(client)


def test_zookeeper_down_for_longer_than_a_session(start_cluster: StartCluster) -> None:
    """Whoever leads goes on leading: nobody can be elected meanwhile. The premise is that all are registered and in
    sync when it begins: with sessions of 4 s, a machine that stands still for as long takes it away."""
    client = start(start_cluster)
    with checked_load(client, partitions=3) as load:
        eventually("all are registered", lambda: client.cluster.registered() == {0, 1, 2})
        wait_until_whole(client)
        for server in client.cluster.zookeepers:
            server.kill()
        holds_for(
            ZOOKEEPER_DOWN_S, "writes go on", lambda: wait_for_progress(load, range(3), timeout_s=30) < 30, every_s=0.5
        )
        for server in client.cluster.zookeepers:
            server.start()
        eventually("all are registered", lambda: client.cluster.registered() == {0, 1, 2}, timeout_s=60)
        wait_until_whole(client)
        wait_for_progress(load, range(3))
        # And the cluster can still decide. Another one than 0 may have led until now: sessions of 4 s can end while a
        # busy machine starts ZooKeeper.
        client.cluster.kill(0)
        client.wait_for_state("another leads", lambda state: state.leader in (1, 2) and 0 not in state.isr)
        eventually("no old registration", lambda: 0 not in client.cluster.registered())
        client.cluster.brokers[0].start()
        wait_until_whole(client)
