"""A broker of Apache Kafka 3.9 and one of kavka in one cluster, either the controller, each following the other.

Who leads is decided by the order of the replicas: broker 0 is Kafka's, broker 1 kavka's. What is compared in the end
are the files: a replica is a copy of its leader's log, byte for byte, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.apache_kafka import PeerMissing
from tests.kit.process_cluster import ProcessCluster, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

KAFKA, KAVKA = 0, 1
LED_BY_KAFKA, LED_BY_KAVKA = "led-by-kafka", "led-by-kavka"
TOPICS = {LED_BY_KAFKA: [KAFKA, KAVKA], LED_BY_KAVKA: [KAVKA, KAFKA]}
RECORDS = 3_000
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "5000",
}


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessCluster]:
    """Both brokers and two topics, in sync. The first that starts is the controller."""
    try:
        brokers = ProcessCluster(tmp_path, brokers=2, own_kinds={KAFKA: "kafka"}, zookeeper="kavka", settings=SETTINGS)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with brokers:
        brokers.start_zookeeper()
        for broker_id in (request.param, 1 - request.param):
            brokers.start_broker(broker_id)
        assert brokers.controller() == request.param
        brokers.wait_until_all_know()
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        topics = [NewTopic(name, 1, replica_assignment=[replicas]) for name, replicas in TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result(60)
        in_sync(brokers)
        yield brokers


def in_sync(cluster: ProcessCluster) -> None:
    for topic in TOPICS:
        eventually(f"both replicas of {topic} are in sync", lambda topic=topic: len(cluster.state(topic).isr) == 2)


def produce(cluster: ProcessCluster, topic: str, first: int, count: int) -> None:
    """Records that all of the ISR has."""
    refused: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)

    settings = {"acks": "all", "linger.ms": 2, "enable.idempotence": True, "compression.type": "lz4"}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, on_delivery=on_delivery)
    assert producer.flush(60) == 0
    assert refused == []


def values(cluster: ProcessCluster, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []

    def has_all() -> bool:
        found.extend(int(message.value()) for message in consumer.consume(1_000, timeout=0.5) if not message.error())
        return len(found) >= count

    try:
        eventually(f"{count} records of {topic} are read", has_all)
    finally:
        consumer.close()
    return found


def log_of(cluster: ProcessCluster, broker_id: int, topic: str) -> bytes:
    """The records' file, without what Kafka makes it longer by in advance."""
    return (cluster.log_dir(broker_id, topic, 0) / "00000000000000000000.log").read_bytes().rstrip(b"\0")


def logs_are_equal(cluster: ProcessCluster, topic: str) -> bool:
    return log_of(cluster, KAFKA, topic) == log_of(cluster, KAVKA, topic) != b""


@pytest.mark.parametrize(
    ("cluster", "victim"),
    [
        pytest.param(KAFKA, KAFKA, id="kafka controls-kafka dies", marks=pytest.mark.always),
        pytest.param(KAFKA, KAVKA, id="kafka controls-kavka dies", marks=pytest.mark.thorough),
        pytest.param(KAVKA, KAFKA, id="kavka controls-kafka dies", marks=pytest.mark.thorough),
        pytest.param(KAVKA, KAVKA, id="kavka controls-kavka dies"),
    ],
    indirect=["cluster"],
)
def test_each_follows_the_other_takes_over_when_it_dies_and_is_followed_when_it_is_back(
    cluster: ProcessCluster, victim: int
) -> None:
    for topic in TOPICS:
        produce(cluster, topic, 0, RECORDS)
        eventually(f"the logs of {topic} are the same", lambda topic=topic: logs_are_equal(cluster, topic))
    cluster.kill(victim)
    survivor = 1 - victim
    for topic in TOPICS:
        eventually(f"{topic} is led by the survivor", lambda topic=topic: cluster.state(topic).leader == survivor)
        assert values(cluster, topic, RECORDS) == list(range(RECORDS))
        produce(cluster, topic, RECORDS, 100)
    # Apache Kafka does not start while its former session lives.
    registered = f"/brokers/ids/{victim}"
    eventually("the victim's session is over", lambda: cluster.zookeeper.exists(registered) is None)
    cluster.start_broker(victim)
    in_sync(cluster)
    for topic in TOPICS:
        produce(cluster, topic, RECORDS + 100, 100)
        assert values(cluster, topic, RECORDS + 200) == list(range(RECORDS + 200))
        eventually(f"the logs of {topic} are the same", lambda topic=topic: logs_are_equal(cluster, topic))
