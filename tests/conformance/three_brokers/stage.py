"""Stages: three brokers with the ids 1, 2 and 3 that can be stopped and started again, of kavka or of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from kavka.testing import Cluster
from tests.apache_kafka import ApacheKafka

LINES: Final = {"kafka-3.9": "zk", "kafka-4.3": "kraft"}
SETTINGS: Final = {
    "default.replication.factor": "1",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "2000",
}
"""Of every broker, so that nothing is done but what a scenario asks for."""


class Stage(Protocol):
    """A running cluster."""

    @property
    def ports(self) -> dict[int, int]:
        """By broker's id."""

    def stop(self, broker_id: int) -> None:
        """In order, as SIGTERM does."""

    def start(self, broker_id: int) -> None:
        """Again, after a stop."""


class KavkaStage:
    """kavka's brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.ports = {each: int(cluster.address(each).rpartition(":")[2]) for each in (1, 2, 3)}

    def stop(self, broker_id: int) -> None:
        self._cluster.stop(broker_id)

    def start(self, broker_id: int) -> None:
        self._cluster.start(broker_id)


class KafkaStage:
    """Apache Kafka's."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self.ports = {each: kafka.port + each - 1 for each in (1, 2, 3)}

    def stop(self, broker_id: int) -> None:
        self._kafka.stop_node(f"broker-{broker_id}")

    def start(self, broker_id: int) -> None:
        self._kafka.start_node(f"broker-{broker_id}")


@contextmanager
def kavka_stage() -> Iterator[Stage]:
    with Cluster(brokers=3, settings={**SETTINGS, "zookeeper.session.timeout.ms": 6000}) as cluster:
        yield KavkaStage(cluster)


@contextmanager
def kafka_stage(line: str, directory: Path) -> Iterator[Stage]:
    """Raises PeerMissing."""
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": "6000"} if line == "kafka-3.9" else dict(SETTINGS)
    heap = "-Xmx640M -Xms256M"
    with ApacheKafka(directory, mode=LINES[line], brokers=3, settings=settings, heap=heap) as kafka:
        yield KafkaStage(kafka)
