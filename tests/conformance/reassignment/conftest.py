"""Three brokers to move partitions between: kavka's, and with `-m kafka` Apache Kafka 3.9's with ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kavka.testing import Cluster
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.three_brokers import Brokers


@pytest.fixture(scope="module", params=["kavka", pytest.param("apache", marks=pytest.mark.kafka)])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    if request.param == "kavka":
        with Cluster(brokers=3) as cluster:
            yield Brokers(cluster.bootstrap_servers)
        return
    try:
        kafka = ApacheKafka(tmp_path_factory.mktemp("reassignment") / "zk", brokers=3, heap="-Xmx256M -Xms128M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield Brokers(kafka.bootstrap)
