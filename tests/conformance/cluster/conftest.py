"""Three brokers: kavka's, and with `-m kafka` those of Apache Kafka 3.9 (ZooKeeper) and 4.3 (KRaft)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kavka.testing import Cluster
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.three_brokers import Brokers

SETTINGS = {
    # So that a transaction can be made to hang.
    "transaction.partition.verification.enable": "false",
}


@pytest.fixture(
    scope="module",
    params=[
        "kavka",
        pytest.param("zk", id="kafka-3.9", marks=pytest.mark.kafka),
        pytest.param("kraft", id="kafka-4.3", marks=pytest.mark.kafka),
    ],
)
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    if request.param == "kavka":
        with Cluster(brokers=3, settings=SETTINGS) as cluster:
            yield Brokers(cluster.bootstrap_servers)
        return
    directory = tmp_path_factory.mktemp("three") / request.param
    # Of 256 MB the cleaner's buffer of 128, in one piece, was not always to be had: a broker of 4.3 ended at its start.
    heap = "-Xmx512M -Xms128M"
    try:
        kafka = ApacheKafka(directory, mode=request.param, brokers=3, settings=SETTINGS, heap=heap)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield Brokers(kafka.bootstrap)
