"""Clusters of real processes. Every test of this directory asks kavka; those whose question Apache Kafka 3.9 (ZooKeeper
mode) answers in the same way ask it too, in `make conformance`, which shows that the test asks the right thing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.apache_kafka import PeerMissing
from tests.integration.cluster.cluster_client import ClusterClient, StartCluster
from tests.kit.network_lab import NetworkLab, NoNetworkLab
from tests.kit.process_cluster import ProcessCluster

# Followers that stop fetching are dropped after three seconds instead of thirty; leaders move by faults only.
SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.segment.bytes": "1048576",
    "log.index.size.max.bytes": "65536",
}


@pytest.fixture
def flavour(request: pytest.FixtureRequest) -> str:
    """Of brokers: "kavka", unless the test is parametrised with BOTH."""
    return str(getattr(request, "param", "kavka"))


@pytest.fixture
def start_cluster(flavour: str, tmp_path: Path) -> Iterator[StartCluster]:
    """start_cluster(brokers=3, network=False, settings=..., ...): a cluster that runs; its end is the test's. What its
    servers logged last stands in the report of a test that failed: their files go."""
    with ExitStack() as stack:

        def start(
            *,
            brokers: int = 3,
            network: bool = False,
            disk_mb: int = 0,
            zookeeper: str = "",
            settings: dict[str, str] | None = None,
            own_settings: dict[int, dict[str, str]] | None = None,
            controller: int | None = None,
        ) -> ClusterClient:
            """controller: the broker that shall be it; it is started before the others."""
            try:
                lab = stack.enter_context(NetworkLab()) if network else None
                cluster = ProcessCluster(
                    tmp_path / "cluster",
                    brokers=brokers,
                    kind=flavour,
                    zookeeper=zookeeper or ("kavka" if flavour == "kavka" else "apache"),
                    lab=lab,
                    settings={**SETTINGS, **(settings or {})},
                    own_settings=own_settings,
                    disk_mb=disk_mb,
                )
            except (NoNetworkLab, PeerMissing) as missing:
                pytest.skip(str(missing))
            stack.enter_context(cluster)
            stack.callback(_show_logs, cluster)
            if controller is None:
                cluster.start()
            else:
                cluster.start_zookeeper()
                cluster.start_broker(controller)
                others = [number for number in cluster.brokers if number != controller]
                for number in others:
                    cluster.brokers[number].start()
                cluster.wait_for_brokers(*others)
                assert cluster.controller() == controller
            return ClusterClient(cluster)

        yield start
    shutil.rmtree(tmp_path / "cluster", ignore_errors=True)


def _show_logs(cluster: ProcessCluster) -> None:
    for server in (*cluster.zookeepers, *cluster.brokers.values()):
        print(f"-- {server.name}{server.log_tail(lines=60)}")
