"""A log directory of kavka is served by Apache Kafka 3.9, record for record.

Kafka's topics are in ZooKeeper; so what kavka would register of its own directory, if its ZooKeeper were lost, is
written into a real one. A KRaft broker has its topics in a log of its own that nobody else can write: that it serves
what kavka has appended to its directory is tested in test_kavka_serves_kafkas_logs.py.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.broker.membership.adoption import FoundTopic, operations, plan, survey
from kavka.log.decide.checkpoint import CLEAN_SHUTDOWN, parse_epochs
from kavka.model import BrokerId
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.znode_paths import CLUSTER_ID_PATH, PRODUCER_ID_BLOCK_PATH
from kavka.zookeeper.znodes import ClusterId, ProducerIdBlock
from tests.apache_kafka import ApacheKafka, PeerMissing, run_tool
from tests.conformance.log_directory.log_directory_load import GROUPS, Served, append, read_all, write_load
from tests.conformance.zookeeper.jute_client import JuteClient
from tests.kit.kavka_process import KavkaProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TEST_HEAP = "-Xmx512M -Xms256M"
BROKER_ID = BrokerId(1)
KEEP = {"retention.ms": "-1"}


class Written(NamedTuple):
    """What kavka served before it was stopped, and its log directory."""

    served: Served
    logs: Path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The load, written by kavka over a restart and a kill, and stopped cleanly."""
    data = tmp_path_factory.mktemp("kavka") / "data"
    with KavkaProcess(data) as broker:
        write_load(broker.bootstrap, segment_bytes=65_536, large_bytes=1_000, transactions=True, new_protocol=False)
        broker.kill()
        broker.start()
        append(broker.bootstrap, "codecs", 0, [b"after a kill"])
        broker.restart()
        append(broker.bootstrap, "codecs", 1, [b"after a stop"])
        served = read_all(broker.bootstrap)
        assert broker.stop() == 0
    assert (data / "logs" / CLEAN_SHUTDOWN).exists()
    assert len(list((data / "logs" / "codecs-0").glob("*.log"))) > 1
    return Written(served, data / "logs")


@pytest.fixture
def kafka(written: Written, tmp_path: Path) -> Iterator[ApacheKafka]:
    """Apache Kafka 3.9 on a copy of the directory, its topics registered in its ZooKeeper."""
    try:
        kafka = ApacheKafka(tmp_path / "kafka", heap=TEST_HEAP)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        kafka.stop_node("broker-1")
        shutil.rmtree(kafka.data_dir / "node-1")
        shutil.copytree(written.logs, kafka.data_dir / "node-1")
        planned = plan(survey(LocalFileSystem(), [str(written.logs)]), BROKER_ID)
        assert planned.cluster_id is not None
        zookeeper = JuteClient(kafka.zookeeper)
        zookeeper.set(CLUSTER_ID_PATH, ClusterId(planned.cluster_id).encode())
        # The logs remember producers; an id that kavka gave out must not be given out again.
        zookeeper.set(PRODUCER_ID_BLOCK_PATH, ProducerIdBlock(BROKER_ID, 9_000, 9_999).encode())
        for topic in planned.topics:
            register(zookeeper, topic)
        zookeeper.close()
        kafka.start_node("broker-1")
        kafka.wait_until_ready()
        yield kafka


def register(zookeeper: JuteClient, topic: FoundTopic) -> None:
    zookeeper.multi(list(operations(topic, KEEP, BROKER_ID, uuid.UUID(int=0))))


def test_kafka_serves_what_kavka_wrote_and_goes_on(written: Written, kafka: ApacheKafka) -> None:
    assert read_all(kafka.bootstrap) == written.served
    append(kafka.bootstrap, "codecs", 0, [b"by Kafka"])
    records = read_all(kafka.bootstrap).partitions["codecs", 0][2]
    assert records[:-1] == written.served.partitions["codecs", 0][2]
    assert records[-1].value == b"by Kafka"
    log = (kafka.data_dir / "broker-1.log").read_text()
    assert "Recovering unflushed segment" not in log, "the clean-shutdown mark was not believed"
    assert "Found a corrupted index file" not in log
    epochs = parse_epochs((kafka.data_dir / "node-1" / "codecs-0" / "leader-epoch-checkpoint").read_bytes())
    assert [entry.epoch for entry in epochs] == [0]


def test_kafkas_dump_log_reads_the_groups_that_kavka_wrote(written: Written) -> None:
    try:
        files = sorted(path for path in written.logs.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
        output = run_tool("kraft", "dump-log", "--offsets-decoder", "--files", ",".join(map(str, files)))
    except PeerMissing as missing:
        pytest.skip(str(missing))
    for group in GROUPS[:2]:
        assert f'"group":"{group}"' in output
    assert '"protocolType":"consumer"' in output
    assert '"offset":7' in output
    lines = output.splitlines()
    assert not [line for line in lines if "Failed to decode" in line or "Unknown" in line]
