"""Two brokers of Apache Kafka 3.9 and two of kavka on one real ensemble, each pair in a chroot: the same nodes.

The same things are asked of both: topics with given replicas, more partitions, settings of a topic and of a broker, an
idempotent producer, a group, a topic that goes again; then the broker that is not the controller is killed. What lies
in ZooKeeper after that is compared node for node: paths, bytes, kinds and versions. What must differ is levelled first:
ids, times, ports. The same broker is the controller of both pairs: the death of a controller raises the leader epochs
of Kafka's partitions twice (the new one marks replicas offline before it elects), those of kavka's once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kavka.zookeeper.port import Stat
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.conformance.zookeeper.jute_client import JuteClient, whole_tree
from tests.kit.kavka_process import HOST, ProcessFailed, answers_metadata
from tests.kit.ports import free_port
from tests.kit.process_cluster import Server, eventually
from tests.kit.zookeeper_ensemble import ZooKeeperEnsemble

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(240)]

PLAIN, GONE = "ensemble-forms", "ensemble-gone"
SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "2",
    "unclean.leader.election.enable": "false",
}
OUR_OWN = ("/brokers/topics/__kavka_decisions", "/config/topics/__kavka_decisions", "/kavka_log_directories")
"""The topic of kavka's decisions, and where each broker had its logs: Kafka knows nothing of them."""

Tree = Mapping[str, tuple[bytes | None, Stat]]


class Pair(NamedTuple):
    """Two brokers, 1 and 2. `kill` ends one with SIGKILL."""

    bootstrap: str
    chroot: str
    kill: Callable[[int], None]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    try:
        members = ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"))
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with members:
        yield members


@pytest.fixture(scope="module")
def kafka(ensemble: ZooKeeperEnsemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    settings = {**SETTINGS, "zookeeper.connect": f"{ensemble.connect_string}/kafka"}
    try:
        brokers = ApacheKafka(
            tmp_path_factory.mktemp("kafka") / "zk", brokers=2, settings=settings, heap="-Xmx256M -Xms128M"
        )
    except PeerMissing as missing:
        pytest.skip(str(missing))

    def kill(broker_id: int) -> None:
        os.kill(int((brokers.data_dir / f"broker-{broker_id}.pid").read_text()), signal.SIGKILL)

    with brokers:
        yield Pair(brokers.bootstrap, "/kafka", kill)


@pytest.fixture(scope="module")
def survivor(kafka: Pair, nodes: Callable[[str], Tree]) -> int:
    """The broker that has the controller's seat; the other is killed."""
    data, _ = nodes(kafka.chroot)["/controller"]
    return int(json.loads(data or b"")["brokerid"])


@pytest.fixture(scope="module")
def kavka(ensemble: ZooKeeperEnsemble, survivor: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("kavka")
    servers = {}
    for broker_id in (1, 2):
        port = free_port()
        settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(directory / f"data-{broker_id}"),
            "zookeeper.connect": f"{ensemble.connect_string}/kavka",
            "group.initial.rebalance.delay.ms": "0",
            "transaction.state.log.replication.factor": "2",
            "transaction.state.log.min.isr": "1",
            **SETTINGS,
        }
        path = directory / f"server-{broker_id}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [str(Path(sys.executable).parent / "kavka"), "server", str(path)]
        servers[broker_id] = Server(f"kavka-{broker_id}", command, host=HOST, port=port, directory=directory)
    try:
        for broker_id in (survivor, 3 - survivor):
            servers[broker_id].start()
            wait_for(servers[broker_id])
        yield Pair(
            ",".join(f"{HOST}:{server.port}" for server in servers.values()),
            "/kavka",
            lambda broker_id: servers[broker_id].kill(),
        )
    finally:
        for server in servers.values():
            server.kill()


def wait_for(server: Server) -> None:
    """Until it serves. Raises ProcessFailed if it ended."""

    def serves() -> bool:
        if not server.is_running:
            raise ProcessFailed(f"{server.name} ended with {server.returncode}: {server.log_tail()}")
        return answers_metadata(server.port)

    eventually(f"{server.name} serves", serves)


@pytest.fixture(scope="module")
def nodes(ensemble: ZooKeeperEnsemble) -> Iterator[Callable[[str], Tree]]:
    """All nodes below a chroot, by their paths in it."""
    client = JuteClient(ensemble.address(1))
    yield lambda chroot: {path.removeprefix(chroot): node for path, node in whole_tree(client, chroot).items()}
    client.close()


class Trees(NamedTuple):
    """Both pairs' nodes while two brokers lived, and after one was killed."""

    theirs: Tree
    ours: Tree
    theirs_later: Tree
    ours_later: Tree


@pytest.fixture(scope="module")
def trees(kafka: Pair, kavka: Pair, survivor: int, nodes: Callable[[str], Tree]) -> Trees:
    alive = []
    for pair in (kafka, kavka):
        use(pair)
        eventually("all is as it was asked for", lambda pair=pair: settled(nodes(pair.chroot)))  # type: ignore[misc]
        alive.append(nodes(pair.chroot))
    later = []
    for pair in (kafka, kavka):
        pair.kill(3 - survivor)
    for pair in (kafka, kavka):
        eventually("one leads alone", lambda pair=pair: led_by(survivor, nodes(pair.chroot)))  # type: ignore[misc]
        later.append(nodes(pair.chroot))
    return Trees(*alive, *later)


def use(pair: Pair) -> None:
    """Everything that leaves something in ZooKeeper."""
    admin = AdminClient({"bootstrap.servers": pair.bootstrap})
    replicas = [[1, 2], [2, 1], [2, 1]]
    topics = [
        NewTopic(PLAIN, 3, replica_assignment=replicas, config={"retention.ms": "1000", "cleanup.policy": "compact"}),
        NewTopic(GONE, 3, replica_assignment=replicas),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    admin.create_partitions([NewPartitions(PLAIN, 4, [[1, 2]])])[PLAIN].result(30)
    for kind, name, setting, value in (
        (ResourceType.TOPIC, PLAIN, "retention.bytes", "5"),
        (ResourceType.BROKER, "1", "log.retention.ms", "100000000"),
    ):
        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)
    producer = Producer({"bootstrap.servers": pair.bootstrap, "enable.idempotence": True})
    for partition in range(4):
        producer.produce(PLAIN, b"x", key=b"k", partition=partition)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": pair.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([PLAIN])
    deadline = time.monotonic() + 40
    while consumer.poll(0.5) is None:
        assert time.monotonic() < deadline, "the group reads nothing"
    consumer.close()
    admin.delete_topics([GONE])[GONE].result(30)


def state_of(tree: Tree, topic: str, partition: int) -> dict[str, object]:
    data, _ = tree[f"/brokers/topics/{topic}/partitions/{partition}/state"]
    state: dict[str, object] = json.loads(data or b"")
    return state


def settled(tree: Tree) -> bool:
    return (
        not any(GONE in path for path in tree)
        and all(sorted(state_of(tree, PLAIN, partition)["isr"]) == [1, 2] for partition in range(4))  # type: ignore[call-overload]
        and all(f"/brokers/topics/__consumer_offsets/partitions/{partition}/state" in tree for partition in range(3))
    )


def led_by(survivor: int, tree: Tree) -> bool:
    states = [json.loads(data or b"") for path, (data, _) in tree.items() if path.endswith("/state")]
    return f"/brokers/ids/{3 - survivor}" not in tree and all(
        (state["leader"], state["isr"]) == (survivor, [survivor]) for state in states
    )


def levelled(path: str, data: bytes | None) -> object:
    """Data without what differs between two clusters: bytes, or the object where Kafka's hash order shuffles it."""
    if data is None:
        return None
    text = re.sub(r'"(topic_id|id)":"[\w-]{22}"', r'"\1":""', data.decode())
    text = re.sub(r'"timestamp":"\d+"', '"timestamp":""', text)
    # A broker of kavka says which levels of Kafka 4's features it knows; Kafka 3.9 has none to tell of.
    text = re.sub(r'"features":\{.*?\}(?=,"listener_security)', '"features":{}', text)
    text = re.sub(r'"(controller_epoch|brokerid|broker)":\d+', r'"\1":0', text)
    text = re.sub(rf"{HOST}:\d+", f"{HOST}:0", text)
    text = re.sub(r'"port":\d+', '"port":0', text)
    text = re.sub(r"^\d+$", "0", text) if path == "/controller_epoch" else text
    if path.startswith(("/config/topics/", "/config/brokers/")):
        return json.loads(text)
    if path.startswith("/brokers/topics/__consumer_offsets"):
        # Where its replicas lie was drawn by lot.
        return re.sub(r"\[[\d,]+\]", "[]", re.sub(r'"leader":\d', '"leader":0', text))
    return text


def differences(theirs: Tree, ours: Tree) -> list[object]:
    """What is not the same, in words of (path, what, Kafka's, kavka's)."""
    found: list[object] = []
    for path in sorted({*theirs, *ours}):
        if path.startswith(OUR_OWN):
            continue
        if path not in theirs or path not in ours:
            found.append((path, "exists", path in theirs, path in ours))
            continue
        (their_data, their_stat), (our_data, our_stat) = theirs[path], ours[path]
        if levelled(path, their_data) != levelled(path, our_data):
            found.append((path, "data", their_data, our_data))
        if bool(their_stat.ephemeral_owner) != bool(our_stat.ephemeral_owner):
            found.append((path, "ephemeral", their_stat, our_stat))
    return found


def test_both_leave_the_same_nodes_with_the_same_bytes(trees: Trees) -> None:
    assert differences(trees.theirs, trees.ours) == []


def test_both_write_the_same_states_when_a_broker_dies(trees: Trees) -> None:
    assert differences(trees.theirs_later, trees.ours_later) == []


def test_topics_and_settings_were_written_as_often(trees: Trees) -> None:
    for path, (_, stat) in trees.theirs.items():
        if PLAIN in path:
            assert (path, trees.ours[path][1].version) == (path, stat.version)


def test_leader_epochs_rise_alike(trees: Trees) -> None:
    for partition in range(4):
        epochs = [state_of(tree, PLAIN, partition)["leader_epoch"] for tree in trees]
        assert epochs[0] == epochs[1]
        assert epochs[2] == epochs[3]
