"""Partitions move between brokers that are written to, fail and come back: nothing acknowledged is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from kavka.testing import Cluster
from tests.integration.reassignment.moving_cluster import Load, holders, kavka, replicas, until
from tests.kit.patience import PATIENT

TOPIC = "orders"
PARTITIONS = 3
SPREAD = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(brokers=5, settings={**PATIENT, "min.insync.replicas": 2}, directory=tmp_path / "cluster") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replicas=3)
        move(cluster, *SPREAD)
        kavka(cluster, "elect", "--topic", TOPIC)
        yield cluster


def plan(*targets: tuple[int, ...]) -> str:
    return json.dumps(
        {
            "version": 1,
            "partitions": [
                {"topic": TOPIC, "partition": number, "replicas": list(target)} for number, target in enumerate(targets)
            ],
        }
    )


def move(cluster: Cluster, *targets: tuple[int, ...]) -> None:
    """Moves, and waits for the end."""
    kavka(cluster, "reassign", "execute", "-", text=plan(*targets))
    kavka(cluster, "reassign", "status", "--wait", "--timeout", "90")
    rests_on(cluster, *targets)


def rests_on(cluster: Cluster, *targets: tuple[int, ...], with_disks: bool = True) -> None:
    for number, target in enumerate(targets):
        until(lambda n=number, t=target: replicas(cluster, TOPIC, n) == t, f"{TOPIC}-{number} on {target}")  # type: ignore[misc]
        until(lambda n=number, t=target: cluster.isr(TOPIC, n) == sorted(t), f"{TOPIC}-{number} in sync on {target}")  # type: ignore[misc]
        if with_disks:
            until(
                lambda n=number, t=target: holders(cluster, TOPIC, n) == sorted(t), f"{TOPIC}-{number} on no other disk"
            )  # type: ignore[misc]


def test_every_replica_moves_and_back_under_load(cluster: Cluster) -> None:
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on()
        move(cluster, (4, 5, 1), (5, 4, 2), (4, 3, 5))
        load.go_on()
        move(cluster, *SPREAD)
        load.go_on()
        move(cluster, (5, 4), (4, 1), (1, 2, 3, 4))
        load.go_on()
    load.check()


def test_controllers_die_while_partitions_move(cluster: Cluster) -> None:
    targets = [(4, 5, 1), (5, 4, 2), (4, 3, 5)]
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on()
        for round_targets in (targets, SPREAD, targets):
            kavka(cluster, "reassign", "execute", "-", text=plan(*round_targets))
            controller = cluster.controller()
            cluster.kill(controller)
            until(lambda gone=controller: cluster.controller() not in (-1, gone), "another controller")  # type: ignore[misc]
            load.go_on(50)
            cluster.start(controller)
            # A broker that was away may keep what it was to delete, if who was to tell it died meanwhile.
            rests_on(cluster, *round_targets, with_disks=False)
        load.go_on()
    load.check()


def test_a_move_that_cannot_end_waits_and_cancelled_leaves_nothing_behind(cluster: Cluster) -> None:
    """One of two targets cannot reach the leader."""
    stuck, other = (5, 4) if cluster.controller() != 5 else (4, 5)
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on()
        cluster.cut(stuck, cluster.leader(TOPIC, 0))
        kavka(cluster, "reassign", "execute", "-", text=plan((other, stuck, 1), *SPREAD[1:]))
        until(lambda: other in cluster.isr(TOPIC, 0), "the target that reaches the leader catches up")
        load.go_on()
        (found,) = json.loads(kavka(cluster, "reassign", "status", "--json"))["partitions"]
        assert (found["partition"], found["state"], found["adding"]) == (f"{TOPIC}-0", "moving", [other, stuck])
        kavka(cluster, "reassign", "cancel", "--topic", TOPIC)
        until(lambda: sorted(replicas(cluster, TOPIC, 0)) == [1, 2, 3], "the replicas are what they were")
        load.go_on()
        cluster.heal()
        until(lambda: holders(cluster, TOPIC, 0) == [1, 2, 3], "what was copied is deleted")
    load.check()


def test_the_znode_of_the_old_tools_moves_and_elects(cluster: Cluster) -> None:
    zookeeper = KazooClient(hosts=cluster.zookeeper_connect)
    zookeeper.start(20)
    try:
        target = (4, 5, 1)
        wish = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": list(target)}]}
        zookeeper.create("/admin/reassign_partitions", json.dumps(wish).encode())
        until(lambda: zookeeper.exists("/admin/reassign_partitions") is None, "the wish is fulfilled")
        rests_on(cluster, target, *SPREAD[1:])
        assert cluster.leader(TOPIC, 0) == 1
        election = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0}]}
        try:
            zookeeper.create("/admin/preferred_replica_election", json.dumps(election).encode())
        except NodeExistsError:
            pytest.fail("the election before was not worked off")
        until(lambda: cluster.leader(TOPIC, 0) == 4, "the preferred replica leads")
        until(lambda: zookeeper.exists("/admin/preferred_replica_election") is None, "the wish is fulfilled")
    finally:
        zookeeper.stop()


def test_a_plan_drains_a_broker_and_elections_follow(cluster: Cluster) -> None:
    text = kavka(cluster, "reassign", "plan", "--topic", TOPIC, "--brokers", "1,2,4,5")
    wanted = {each["partition"]: tuple(each["replicas"]) for each in json.loads(text)["partitions"]}
    kavka(cluster, "reassign", "execute", "-", "--throttle", "50000000", text=text)
    kavka(cluster, "reassign", "status", "--wait", "--clear", "--timeout", "90")
    rests_on(cluster, *[wanted.get(number, SPREAD[number]) for number in range(PARTITIONS)])
    assert all(3 not in replicas(cluster, TOPIC, number) for number in range(PARTITIONS))
    kavka(cluster, "elect", "--all")
    for number in range(PARTITIONS):
        until(lambda n=number: cluster.leader(TOPIC, n) == replicas(cluster, TOPIC, n)[0], "preferred leaders")  # type: ignore[misc]
    until(lambda: "throttled" not in kavka(cluster, "configs", "describe", "--topic", TOPIC), "no throttle is left")
