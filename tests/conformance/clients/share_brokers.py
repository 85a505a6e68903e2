"""The brokers on which clients are members of share groups: one of kavka, three, and Apache Kafka 4.3.

The ids of tests tell tools/client_matrix.py which they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import ProcessCluster

ONE: Final = "kavka"
THREE: Final = "kavka-three-brokers"
"""The states of most share-partitions are at another broker than their leader."""
APACHE_KAFKA: Final = "kafka-kraft"
SHARE_BROKERS: Final = (
    ONE,
    pytest.param(THREE, marks=pytest.mark.thorough),
    pytest.param(APACHE_KAFKA, marks=pytest.mark.kafka),
)
KAFKA_SETTINGS: Final = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@contextmanager
def serving(brokers: str, directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Their addresses, while they run. Skips the test where Apache Kafka is missing."""
    if brokers == ONE:
        with KavkaProcess(directory / brokers, settings=dict(settings or {})) as broker:
            yield broker.bootstrap
    elif brokers == THREE:
        with ProcessCluster(directory / brokers, defaults=settings or {}) as cluster:
            cluster.start()
            yield cluster.bootstrap
    else:
        try:
            kafka = ApacheKafka(
                directory / brokers,
                mode="kraft",
                settings={**KAFKA_SETTINGS, **(settings or {})},
                heap="-Xmx512M -Xms256M",
            )
        except PeerMissing as missing:
            pytest.skip(str(missing))
        with kafka:
            yield kafka.bootstrap
