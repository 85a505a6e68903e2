"""The coordinator of a group is killed with -9 in the middle of a rebalance, on three brokers: what was committed is
there, the group goes on with the next coordinator, and every partition has one owner.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from tests.kit.broker_client import BrokerClient
from tests.kit.process_cluster import ProcessCluster, eventually

TOPIC, PARTITIONS, RECORDS = "orders", 6, 60
GROUP = "readers"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    settings = {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
        "group.consumer.assignment.interval.ms": "0",
        # Heartbeats come faster than the default's 5 s, for the test's patience.
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
    }
    with ProcessCluster(tmp_path / "cluster", brokers=3, kind="kavka", settings=settings) as cluster:
        cluster.start()
        yield cluster


def coordinator_of(cluster: ProcessCluster) -> int:
    def ask() -> str:
        with BrokerClient(cluster.address(1)[1], host=cluster.address(1)[0]) as client:
            found = client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4).coordinators[0]
            return "" if found.error_code else str(found.node_id)

    return int(eventually("the coordinator is known", ask))


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_rebalance_survives_its_coordinator(cluster: ProcessCluster, protocol: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    consumers: list[Consumer] = []

    def member() -> Consumer:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
        consumers.append(Consumer(settings))
        consumers[-1].subscribe([TOPIC])
        return consumers[-1]

    def assigned() -> list[int]:
        for consumer in consumers:
            consumer.poll(0.05)
        return [len(consumer.assignment()) for consumer in consumers]

    first = member()
    read = 0
    deadline = time.monotonic() + 120
    while read < RECORDS and time.monotonic() < deadline:
        message = first.poll(0.2)
        read += message is not None and message.error() is None
    assert read == RECORDS
    first.commit(asynchronous=False)

    member()
    member()
    for _ in range(4):
        assigned()  # The rebalance has begun, and is not over.
    cluster.kill(coordinator_of(cluster))

    eventually("everything is assigned again", lambda: sorted(assigned()) == [2, 2, 2], timeout_s=120)
    owned = [place.partition for consumer in consumers for place in consumer.assignment()]
    assert sorted(owned) == list(range(PARTITIONS))

    def committed() -> list[int]:
        with contextlib.suppress(KafkaException):
            places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            return [place.offset for place in consumers[1].committed(places, timeout=5)]
        return []

    expected = [RECORDS // PARTITIONS] * PARTITIONS
    assert eventually("what was committed is read", committed) == expected
    for consumer in consumers:
        consumer.close()
