"""The znodes of a running Apache Kafka 3.9 and those of kavka: same paths, same kinds, same bytes.

What must differ is levelled first: ids, times, ports. Of maps that Kafka's hash order shuffles (more than four
partitions or settings) the content is compared, not the order.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kavka.controller.controller import Controller, ControllerPorts, ControllerSettings
from kavka.controller.decide.assignment import Assignment
from kavka.controller.decide.context import ControllerContext, KnownTopic, LiveBroker
from kavka.controller.decide.topic_plans import (
    PartitionsRequest,
    Refusal,
    TopicRequest,
    TopicRules,
    plan_partitions,
    plan_topic,
)
from kavka.controller.orders.channels import ChannelPorts
from kavka.controller.work.config_admin import ConfigAdmin
from kavka.errors import ConnectionFailed
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.leader_and_isr_response import LeaderAndIsrResponse
from kavka.protocol.messages.stop_replica_response import StopReplicaResponse
from kavka.protocol.messages.update_metadata_response import UpdateMetadataResponse
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper import znode_paths, znodes
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import Create, CreateMode, Stat
from kavka.zookeeper.znodes import (
    BrokerRegistration,
    ClusterId,
    ConfigChange,
    ConfigEntity,
    ControllerNode,
    FeatureNode,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
)
from tests.apache_kafka import ApacheKafka
from tests.conformance.zookeeper.jute_client import JuteClient, whole_tree

pytestmark = pytest.mark.kafka

Tree = Mapping[str, tuple[bytes | None, Stat]]

PLAIN = "znode-forms"
MANY = f"{PLAIN}-many"
CONFIG = {"retention.ms": "1000", "cleanup.policy": "compact"}

CODECS: list[tuple[str, Callable[[str, bytes | None], bytes]]] = [
    (r"/cluster/id", lambda path, data: ClusterId.decode(data).encode()),
    (r"/brokers/ids/(\d+)", lambda path, data: BrokerRegistration.decode(int(path.rsplit("/")[-1]), data).encode()),
    (r"/brokers/topics/[^/]+", lambda path, data: TopicAssignment.decode(path.rsplit("/")[-1], data).encode()),
    (
        r"/brokers/topics/[^/]+/partitions/\d+/state",
        lambda path, data: PartitionState.decode(TopicPartition("t", 0), data).encode(),
    ),
    (r"/controller", lambda path, data: ControllerNode.decode(data).encode()),
    (
        r"/controller_epoch",
        lambda path, data: znodes.encode_controller_epoch(znodes.decode_controller_epoch(data)),
    ),
    (
        r"/config/changes/config_change_\d{10}",
        lambda path, data: ConfigChange.decode(path, data).encode(),
    ),
    (r"/config/(?!changes)[^/]+/.+", lambda path, data: ConfigEntity.decode("x", data).encode()),
    (r"/feature", lambda path, data: FeatureNode.decode(data).encode()),
    (r"/latest_producer_id_block", lambda path, data: ProducerIdBlock.decode(data).encode()),
]


@pytest.fixture(scope="module")
def admin(apache_kafka: ApacheKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": apache_kafka.bootstrap})


@pytest.fixture(scope="module")
def theirs(apache_kafka: ApacheKafka, admin: AdminClient) -> Iterator[Tree]:
    """The tree of Apache Kafka after topics were made, grown and configured, and a producer was idempotent."""
    for future in admin.create_topics([NewTopic(PLAIN, 2, 1, config=CONFIG), NewTopic(MANY, 12, 1)]).values():
        future.result(30)
    admin.create_partitions([NewPartitions(PLAIN, 3)])[PLAIN].result(30)
    entry = ConfigEntry("retention.bytes", "5", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, PLAIN, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    producer = Producer({"bootstrap.servers": apache_kafka.bootstrap, "enable.idempotence": True})
    producer.produce(PLAIN, b"x")
    assert producer.flush(30) == 0
    client = JuteClient(apache_kafka.zookeeper)
    state = f"/brokers/topics/{PLAIN}/partitions/2/state"
    deadline = time.monotonic() + 20
    while client.exists(state) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield whole_tree(client)
    client.close()
    for future in admin.delete_topics([PLAIN, MANY]).values():
        future.result(30)


@pytest.fixture(scope="module")
def ours(theirs: Tree, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The tree of kavka after the same."""
    registration = next(data for path, (data, _) in theirs.items() if path.startswith("/brokers/ids/"))
    return asyncio.run(same_on_kavka(tmp_path_factory.mktemp("zk"), BrokerRegistration.decode(1, registration)))


async def same_on_kavka(directory: Path, registration: BrokerRegistration) -> Tree:
    database = Database.open(LocalFileSystem(), str(directory), DatabaseSettings(sync=SyncPolicy.NEVER))
    rng = random.Random(1)
    server = EmbeddedZooKeeper(database, now_ms=lambda: int(time.time() * 1000), rng=rng)
    await server.start(close_former_sessions=True)
    zookeeper = await server.connect()
    await zookeeper.multi([Create(path) for path in znode_paths.PERSISTENT_PATHS])
    await zookeeper.create(ClusterId.PATH, ClusterId(znodes.encode_uuid(uuid.uuid4())).encode())
    await zookeeper.create(znode_paths.broker_path(1), registration.encode(), mode=CreateMode.EPHEMERAL)

    async def no_peer(host: str, port: int, timeout_ms: int) -> Any:
        raise ConnectionFailed(f"{host}:{port}: there is one broker")

    async def carry_out(key: ApiKey, message: Any) -> Any:
        return {
            ApiKey.LEADER_AND_ISR: LeaderAndIsrResponse(),
            ApiKey.UPDATE_METADATA: UpdateMetadataResponse(),
            ApiKey.STOP_REPLICA: StopReplicaResponse(),
        }[key]

    controller = Controller(
        zookeeper,
        BrokerId(1),
        ControllerSettings(),
        ControllerPorts(
            channels=ChannelPorts(no_peer, "PLAINTEXT", carry_out),
            now_ms=lambda: int(time.time() * 1000),
            rng=rng,
        ),
    )
    await controller.start()
    await controller.topics.create_topics([TopicRequest(PLAIN, 2, 1, config=CONFIG), TopicRequest(MANY, 12, 1)])
    await controller.topics.create_partitions([PartitionsRequest(PLAIN, 3)])
    await ConfigAdmin(zookeeper).change(f"topics/{PLAIN}", lambda current: {**current, "retention.bytes": "5"})
    block = ProducerIdBlock(BrokerId(1), 0, znodes.PRODUCER_ID_BLOCK_SIZE - 1)
    await zookeeper.set(ProducerIdBlock.PATH, block.encode())
    nodes = {path: (node.data, node.stat()) for path, node in database.tree.nodes()}
    await controller.stop()
    await server.stop()
    return {path: value for path, value in nodes.items() if not path.startswith("/zookeeper")}


def levelled(path: str, data: bytes | None) -> object:
    """Data without what differs between two clusters: bytes, or the object where Kafka's hash order shuffles it."""
    if data is None:
        return None
    text = data.decode()
    text = re.sub(r'"(topic_id|id)":"[\w-]{22}"', r'"\1":""', text)
    text = re.sub(r'"timestamp":"\d+"', '"timestamp":""', text)
    text = re.sub(r'"(controller_epoch|brokerid)":\d+', r'"\1":0', text)
    if path == f"/brokers/topics/{MANY}" or "/config/topics/" in path:
        return json.loads(text)
    return text


def of_topics(tree: Tree) -> dict[str, tuple[bytes | None, Stat]]:
    return {path: node for path, node in tree.items() if PLAIN in path}


def test_every_znode_of_kafka_is_read_and_written_back_as_it_is(theirs: Tree) -> None:
    unread = []
    for path, (data, _) in theirs.items():
        if not data or path.startswith(("/kafka-acl", "/delegation_token")):
            continue
        codec = next((codec for pattern, codec in CODECS if re.fullmatch(pattern, path)), None)
        if codec is None:
            unread.append(path)
            continue
        again = codec(path, data)
        assert json.loads(again) == json.loads(data), path
        if isinstance(json.loads(data), dict):
            assert list(json.loads(again)) == list(json.loads(data)), f"order of keys of {path}"
            if len(json.loads(data).get("partitions", {})) <= 4 and "config" not in json.loads(data):
                assert again == data, path
    assert unread == []


def test_kavka_has_the_same_nodes_for_a_topic(theirs: Tree, ours: Tree) -> None:
    assert sorted(of_topics(ours)) == sorted(of_topics(theirs))


def test_kavkas_topics_states_and_configurations_are_byte_for_byte_kafkas(theirs: Tree, ours: Tree) -> None:
    for path, (data, _) in of_topics(theirs).items():
        assert levelled(path, ours[path][0]) == levelled(path, data), path


def test_the_stats_of_a_topics_nodes_are_kafkas(theirs: Tree, ours: Tree) -> None:
    for path, (_, stat) in of_topics(theirs).items():
        found = ours[path][1]
        assert (found.version, found.cversion, found.num_children, found.ephemeral_owner) == (
            stat.version,
            stat.cversion,
            stat.num_children,
            0,
        ), path


@pytest.mark.parametrize("path", ["/cluster/id", "/controller", "/feature"])
def test_single_znodes_are_byte_for_byte_kafkas(theirs: Tree, ours: Tree, path: str) -> None:
    assert levelled(path, ours[path][0]) == levelled(path, theirs[path][0])
    assert (ours[path][1].ephemeral_owner > 0) == (theirs[path][1].ephemeral_owner > 0)


def test_the_broker_is_registered_as_kafka_does(theirs: Tree, ours: Tree) -> None:
    path = next(path for path in theirs if path.startswith("/brokers/ids/"))
    assert ours["/brokers/ids/1"][0] == theirs[path][0]
    assert theirs[path][1].ephemeral_owner > 0
    assert ours["/brokers/ids/1"][1].ephemeral_owner > 0


def test_every_persistent_path_is_there_and_empty_in_both(theirs: Tree, ours: Tree) -> None:
    for path in znode_paths.PERSISTENT_PATHS:
        if path != ProducerIdBlock.PATH:
            assert (ours[path][0], theirs[path][0]) == (None, None), path
    ours_alone = {path for path in ours if path.count("/") == 1} - {path for path in theirs if path.count("/") == 1}
    assert ours_alone == set()


def test_a_change_of_configuration_is_notified_alike(theirs: Tree, ours: Tree) -> None:
    def notified(tree: Tree) -> list[bytes | None]:
        changes = [data for path, (data, _) in tree.items() if path.startswith("/config/changes/")]
        return [data for data in changes if data is not None and PLAIN.encode() in data]

    assert notified(ours) == notified(theirs) == [f'{{"version":2,"entity_path":"topics/{PLAIN}"}}'.encode()]


# ---------------------------------------------------------------------------------------------------------- refusals

WISHES = [
    TopicRequest("", 1, 1),
    TopicRequest(".", 1, 1),
    TopicRequest("..", 1, 1),
    TopicRequest("a b", 1, 1),
    TopicRequest("x" * 250, 1, 1),
    TopicRequest(PLAIN, 1, 1),
    TopicRequest(f"{PLAIN}-0", 0, 1),
    TopicRequest(f"{PLAIN}-1", 1, 0),
    TopicRequest(f"{PLAIN}-2", 1, 2),
    TopicRequest(f"{PLAIN}-3", assignment={0: [1, 1]}),
    TopicRequest(f"{PLAIN}-4", assignment={0: [1], 1: [1, 2]}),
]
GROWTHS = [
    PartitionsRequest(PLAIN, 3),
    PartitionsRequest(PLAIN, 2),
    PartitionsRequest("gone", 3),
    PartitionsRequest(PLAIN, 5, [[1]]),
    PartitionsRequest(PLAIN, 4, [[2]]),
    PartitionsRequest(PLAIN, 4, [[1, 1]]),
]
OWN_WORDS = {f"{PLAIN}-3"}
"""Where Kafka prints a Scala object, kavka says it in words."""


def known_cluster(theirs: Tree) -> ControllerContext:
    data, stat = theirs[f"/brokers/topics/{PLAIN}"]
    registration, _ = next(node for path, node in theirs.items() if path.startswith("/brokers/ids/"))
    context = ControllerContext(brokers={BrokerId(1): LiveBroker(BrokerRegistration.decode(1, registration), 1)})
    context.set_topic(KnownTopic(TopicAssignment.decode(PLAIN, data), stat.version))
    return context


def kafkas_refusal(future: object) -> tuple[int, str]:
    with pytest.raises(KafkaException) as refused:
        future.result(30)  # type: ignore[attr-defined]
    error = refused.value.args[0]
    return error.code(), error.str()


@pytest.mark.parametrize("wish", WISHES, ids=[wish.name[:20] for wish in WISHES])
def test_a_bad_topic_is_refused_as_kafka_does(theirs: Tree, admin: AdminClient, wish: TopicRequest) -> None:
    if wish.assignment:
        assigned: Assignment = {number: tuple(replicas) for number, replicas in wish.assignment.items()}  # type: ignore[misc]
        topic = NewTopic(wish.name, len(assigned), replica_assignment=[list(one) for one in assigned.values()])
    else:
        topic = NewTopic(wish.name, wish.partition_count, wish.replication_factor)
    code, message = kafkas_refusal(admin.create_topics([topic])[wish.name])
    ours = plan_topic(wish, known_cluster(theirs), TopicRules(), random.Random(1))
    assert isinstance(ours, Refusal)
    assert ours.code == code
    if wish.name not in OWN_WORDS:
        assert ours.message == message


@pytest.mark.parametrize("wish", GROWTHS, ids=map(str, range(len(GROWTHS))))
def test_a_bad_growth_is_refused_as_kafka_does(theirs: Tree, admin: AdminClient, wish: PartitionsRequest) -> None:
    assigned = [list(replicas) for replicas in wish.assignment] if wish.assignment is not None else None
    wanted = (
        NewPartitions(wish.topic, wish.partition_count, assigned)
        if assigned
        else NewPartitions(wish.topic, wish.partition_count)
    )
    code, message = kafkas_refusal(admin.create_partitions([wanted])[wish.topic])
    ours = plan_partitions(wish, known_cluster(theirs))
    assert isinstance(ours, Refusal)
    assert (ours.code, ours.message) == (code, message)
