"""A log directory of Apache Kafka 3.9 (ZooKeeper) and 4.x (KRaft), stopped cleanly or killed, is served by kavka.

What Kafka itself served before is what kavka must serve: every record with offset, epoch, timestamp, key, value and
headers, the log starts, topic ids, the cluster's id, and what groups have committed. Then kavka appends, and Kafka gets
its directory back.
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.log.decide.checkpoint import CLEAN_SHUTDOWN, parse_epochs
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.conformance.clients.client_samples import CODECS
from tests.conformance.log_directory.log_directory_load import (
    TIMEOUT_S,
    Served,
    append,
    read_all,
    wait_for_log_start,
    write_load,
)
from tests.conformance.zookeeper.jute_client import JuteClient
from tests.kit.kavka_process import KavkaProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TEST_HEAP = "-Xmx512M -Xms256M"
SETTINGS = {
    # As often as a kill can be waited for: a log start is durable only with its checkpoint.
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "zookeeper.session.timeout.ms": "6000",
}
SEGMENT_BYTES = {"zk": 65_536, "kraft": 1_048_576}
"""Kafka 4 allows no smaller segments."""
LARGE_BYTES = {"zk": 1_000, "kraft": 10_000}
APPENDED = [b"appended %d" % number for number in range(30)]


class Life(NamedTuple):
    """What Apache Kafka left: what it served before it was killed, and before it was stopped cleanly; its directories
    after either; and what kavka said when it was started on its directory meanwhile."""

    kafka: ApacheKafka
    served_before: dict[str, Served]
    directories: dict[str, Path]
    refusal: str


@pytest.fixture(scope="module", params=["zk", pytest.param("kraft", marks=pytest.mark.thorough)])
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """Loaded, killed, started again, stopped cleanly."""
    mode = request.param
    home = tmp_path_factory.mktemp(f"kafka-{mode}")
    try:
        kafka = ApacheKafka(home / "kafka", mode=mode, heap=TEST_HEAP, settings=SETTINGS)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    logs = kafka.data_dir / "node-1"
    with kafka:
        write_load(
            kafka.bootstrap,
            segment_bytes=SEGMENT_BYTES[mode],
            large_bytes=LARGE_BYTES[mode],
            transactions=True,
            new_protocol=mode == "kraft",
        )
        wait_for_log_start(logs)
        killed = read_all(kafka.bootstrap)
        refusal = started_beside(home / "beside", logs)
        kafka.stop_node("broker-1", at_once=True)
        copy_with_holes(logs, home / "killed")
        if mode == "zk":
            wait_until_forgotten(kafka.zookeeper)
        kafka.start_node("broker-1")
        kafka.wait_until_ready()
        stopped = read_all(kafka.bootstrap)
        kafka.stop()
        assert (logs / CLEAN_SHUTDOWN).exists()
        copy_with_holes(logs, home / "stopped")
        yield Life(
            kafka,
            {"stopped": stopped, "killed": killed},
            {"stopped": home / "stopped", "killed": home / "killed"},
            refusal,
        )


@pytest.fixture(scope="module", params=["stopped", "killed"])
def how(request: pytest.FixtureRequest) -> str:
    """How Apache Kafka ended."""
    return str(request.param)


@pytest.fixture(scope="module")
def kavka(life: Life, how: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KavkaProcess]:
    """kavka on a copy of the directory, as `kavka up` finds it."""
    data = tmp_path_factory.mktemp("kavka") / "data"
    data.mkdir()
    copy_with_holes(life.directories[how], data / "logs")
    with KavkaProcess(data) as broker:
        yield broker


def copy_with_holes(source: Path, target: Path) -> None:
    """Kafka's index files of 10 MB are mostly holes while it runs, and after a kill. Written out they take 2 GB."""
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


def started_beside(data: Path, logs: Path) -> str:
    """What kavka says when it is started on a directory in use."""
    broker = KavkaProcess(data, settings={"log.dirs": str(logs), "kavka.zookeeper.data.dir": str(data / "zookeeper")})
    broker.launch()
    assert broker.wait_until_ended() == 1
    return broker.log_tail()


def wait_until_forgotten(zookeeper: str) -> None:
    """Until ZooKeeper has ended the session of the broker that was killed."""
    client = JuteClient(zookeeper)
    deadline = time.monotonic() + TIMEOUT_S
    while client.exists("/brokers/ids/1") is not None:
        assert time.monotonic() < deadline, "the broker's session does not end"
        time.sleep(0.1)
    client.close()


def test_a_directory_that_kafka_uses_is_refused(life: Life) -> None:
    assert "another broker uses this directory" in life.refusal


def test_every_record_is_served_as_kafka_served_it(life: Life, how: str, kavka: KavkaProcess) -> None:
    served, before = read_all(kavka.bootstrap), life.served_before[how]
    assert sorted(served.partitions) == sorted(before.partitions)
    for partition, expected in before.partitions.items():
        assert served.partitions[partition] == expected, partition
    assert sum(len(records) for _, _, records in served.partitions.values()) > 1_000


def test_groups_go_on_where_they_were(life: Life, how: str, kavka: KavkaProcess) -> None:
    before = life.served_before[how].offsets
    assert before["plain-group"] == {1: (7, "at 7")}
    assert before["transactional-group"] == {0: (3, None)}
    assert before["subscribed-group"]
    assert bool(before["new-protocol-group"]) is (life.kafka.mode == "kraft")
    assert read_all(kavka.bootstrap).offsets == before


def test_cluster_and_topics_keep_their_ids(life: Life, how: str, kavka: KavkaProcess) -> None:
    served, before = read_all(kavka.bootstrap), life.served_before[how]
    assert served.cluster_id == before.cluster_id
    assert served.topic_ids == before.topic_ids
    assert "doomed" not in served.topic_ids


def test_what_is_kafkas_own_is_left_alone(life: Life, how: str, kavka: KavkaProcess) -> None:
    logs = kavka.data_dir / "logs"
    kept = ["meta.properties", *(path.name for path in logs.glob("*.checkpoint"))]
    assert filecmp.cmpfiles(life.directories[how], logs, kept, shallow=False) == (kept, [], [])
    metadata = filecmp.dircmp(life.directories[how] / "__cluster_metadata-0", logs / "__cluster_metadata-0")
    if life.kafka.mode == "kraft":
        assert metadata.left_list == metadata.right_list == metadata.same_files
        assert len(kept) == 2


def test_what_is_appended_lies_behind_and_outlives_a_kill(life: Life, how: str, kavka: KavkaProcess) -> None:
    before = read_all(kavka.bootstrap)
    for partition, codec in enumerate(CODECS):
        append(kavka.bootstrap, "codecs", partition, APPENDED, codec=codec)
    append(kavka.bootstrap, "changed", 0, APPENDED)
    kavka.kill()
    kavka.start()
    after = read_all(kavka.bootstrap)
    for partition, (start, end, records) in before.partitions.items():
        grown = after.partitions[partition]
        more = len(APPENDED) if partition[0] == "codecs" or partition == ("changed", 0) else 0
        assert grown[:2] == (start, end + more), partition
        assert grown[2][: len(records)] == records, partition
        assert [record.value for record in grown[2][len(records) :]] == APPENDED[:more], partition
    assert after.offsets == before.offsets


def test_kafka_takes_its_directory_back(life: Life, how: str, kavka: KavkaProcess) -> None:
    if how == "killed":
        pytest.skip("Kafka's other half, its metadata, is of the life that was stopped cleanly")
    append(kavka.bootstrap, "codecs", 0, APPENDED)
    served = read_all(kavka.bootstrap)
    kavka.stop()
    logs = life.kafka.data_dir / "node-1"
    shutil.rmtree(logs)
    shutil.copytree(kavka.data_dir / "logs", logs)
    with life.kafka:
        assert read_all(life.kafka.bootstrap) == served
        append(life.kafka.bootstrap, "codecs", 0, [b"back"])
        start, end, records = read_all(life.kafka.bootstrap).partitions["codecs", 0]
        assert (start, end) == (served.partitions["codecs", 0][0], served.partitions["codecs", 0][1] + 1)
        assert records[-1].value == b"back"
        life.kafka.stop()
    epochs = [entry.epoch for entry in parse_epochs((logs / "codecs-0" / "leader-epoch-checkpoint").read_bytes())]
    assert epochs == sorted(epochs)
    kavka.start()
