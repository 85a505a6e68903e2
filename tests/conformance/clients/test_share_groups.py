"""Java's KafkaShareConsumer: each record is done once, by whom and after how many deliveries the members say.

`share/Queue.java` does what docs/groups.md shows, and more. It runs on Apache Kafka too, which shows that it asks for
what Kafka does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.apache_kafka import ApacheKafka
from tests.conformance.clients.check_program import set_up
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import ProcessCluster

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

VERSION = "4.3.1"
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256M")
RUN_S = 240


@pytest.fixture
def program() -> list[str]:
    return [*JAVA, "-cp", set_up("setup_java_clients.sh", VERSION, "share"), "Queue"]


def run(program: list[str], bootstrap: str) -> None:
    done = subprocess.run([*program, bootstrap], capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ALL OK" in done.stdout


def test_a_queue_on_kavka(program: list[str], tmp_path: Path) -> None:
    with KavkaProcess(tmp_path / "kavka") as broker:
        run(program, broker.bootstrap)


def test_a_queue_on_three_brokers(program: list[str], tmp_path: Path) -> None:
    """The states of most share-partitions are at another broker than their leader."""
    with ProcessCluster(tmp_path / "kavka", defaults={}) as cluster:
        cluster.start()
        run(program, cluster.bootstrap)


@pytest.mark.kafka
def test_a_queue_on_apache_kafka(program: list[str], tmp_path: Path) -> None:
    settings = {
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    with ApacheKafka(tmp_path / "kafka", mode="kraft", settings=settings) as broker:
        run(program, broker.bootstrap)
