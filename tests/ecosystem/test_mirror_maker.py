"""MirrorMaker 2 in both directions between two clusters: each record once on the other side, though it is killed.

Its records and positions are one transaction of the cluster that it writes to (KIP-618), so that a process which is
killed with -9 leaves nothing twice. Seen besides: topics with their configuration, what a group has committed, and that
nothing comes back to where it began.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.apache_kafka import Release
from tests.apache_kafka.servers import Servers
from tests.kit.committed_records import CommittedRecord, committed_records
from tests.kit.kavka_process import HOST
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually

pytestmark = pytest.mark.timeout(600)

PARTITIONS: Final = 3
BETWEEN_RECORDS_S: Final = 0.01
BEFORE_A_KILL: Final = 300
TIMEOUT_S: Final = 120.0
MIRROR_JVM: Final = ("-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")

PAIRS = [
    pytest.param("kavka", "kafka-3.9", "zk", id="kavka-and-kafka-3.9-mirror-maker-3.9"),
    pytest.param("kavka", "kafka-4.3", "kraft", id="kavka-and-kafka-4.3-mirror-maker-4.3"),
    pytest.param("kafka-3.9", "kafka-4.3", "zk", id="kafka-3.9-and-kafka-4.3-mirror-maker-3.9"),
    pytest.param("kafka-3.9", "kafka-4.3", "kraft", id="kafka-3.9-and-kafka-4.3-mirror-maker-4.3"),
]


DISCOVERY: Final = {"plugin.discovery": "service_load"}
"""Connectors are found by their service files: seconds less than a search of all classes."""


class MirrorMaker:
    """The process of Kafka's connect-mirror-maker, mirroring topics of both clusters into the other one."""

    def __init__(self, directory: Path, left: str, right: str, *, release: Release, topics: str) -> None:
        """left, right: bootstrap addresses. topics: a regular expression of the topics to mirror."""
        directory.mkdir()
        self._servers = Servers(directory.resolve())
        file = self._servers.directory / "mirror-maker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in _settings(left, right, topics).items()))
        main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
        self._servers.define("mirror-maker", release.server_command(main_class, str(file), options=MIRROR_JVM))

    def start(self) -> None:
        self._servers.start("mirror-maker")

    def kill(self) -> None:
        """kill -9."""
        self._servers.stop(at_once=True)

    def __enter__(self) -> MirrorMaker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def _settings(left: str, right: str, topics: str) -> dict[str, object]:
    of_clusters = {
        f"{name}.{setting}": value
        for name, bootstrap in (("left", left), ("right", right))
        for setting, value in {
            "bootstrap.servers": bootstrap,
            "exactly.once.source.support": "enabled",
            **DISCOVERY,
        }.items()
    }
    of_flows = {
        f"{flow}.{setting}": value
        for flow in ("left->right", "right->left")
        for setting, value in (("enabled", "true"), ("topics", topics))
    }
    one_replica = ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
    of_connect = ("offset.storage.", "status.storage.", "config.storage.")
    return {
        "clusters": "left, right",
        **of_clusters,
        **of_flows,
        **{f"{prefix}replication.factor": 1 for prefix in (*one_replica, *of_connect)},
        # Exactly-once sources need the door over which its nodes fence each other's tasks.
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://{HOST}:{free_port()}",
        **DISCOVERY,
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": 0,
        **{
            f"{what}.interval.seconds": 1
            for what in ("sync.group.offsets", "emit.checkpoints", "refresh.topics", "refresh.groups")
        },
        "sync.topic.configs.interval.seconds": 1,
        "scheduled.rebalance.max.delay.ms": 1000,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
    }


class Writing:
    """A thread that writes numbered records to all partitions of a topic, for as long as the `with` lasts."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.count = 0

    def _write(self) -> None:
        while not self._ended.wait(BETWEEN_RECORDS_S):
            number = self.count
            self._producer.produce(
                self._topic,
                None if number % 10 == 0 else f"{self._topic} {number}",
                f"key {number}",
                partition=number % PARTITIONS,
                timestamp=1_600_000_000_000 + number,
                headers=[("number", str(number).encode()), ("empty", b""), ("none", None)],
            )
            self._producer.poll(0)
            self.count += 1

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(TIMEOUT_S) == 0


@pytest.mark.parametrize(("left_name", "right_name", "release"), PAIRS, indirect=["release"])
def test_each_record_is_mirrored_once_in_both_directions_though_mirror_maker_is_killed(
    left_name: str, right_name: str, release: Release, start_brokers: Callable[[str], str], tmp_path: Path
) -> None:
    left, right = start_brokers(left_name), start_brokers(right_name)
    run = uuid.uuid4().hex[:8]
    orders, payments, group = f"orders-{run}", f"payments-{run}", f"readers-{run}"
    make_topic(left, orders, {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
    make_topic(right, payments, {"retention.ms": "-1"})
    there = {"left": f"left.{orders}", "right": f"right.{payments}"}

    def wait_for(bootstrap: str, topic: str, count: int) -> None:
        eventually(
            f"{count} records in {topic}",
            lambda: len(committed_records(bootstrap, topic)) >= count,
            timeout_s=TIMEOUT_S,
            every_s=0.5,
        )

    def wait_for_more() -> None:
        for bootstrap, topic in ((right, there["left"]), (left, there["right"])):
            wait_for(bootstrap, topic, len(committed_records(bootstrap, topic)) + BEFORE_A_KILL)

    with MirrorMaker(tmp_path / "mirror", left, right, release=release, topics=f".*{run}") as mirror:
        with Writing(left, orders) as of_orders, Writing(right, payments) as of_payments:
            wait_for_more()
            mirror.kill()
            mirror.start()
            wait_for_more()
        wait_for(right, there["left"], of_orders.count)
        wait_for(left, there["right"], of_payments.count)
        committed = commit(left, orders, group, of_orders.count // PARTITIONS)
        eventually(
            f"offsets of {group} on the other side",
            lambda: min(offsets(right, there["left"], group)) > 0,
            timeout_s=TIMEOUT_S,
            every_s=0.5,
        )
        translated = offsets(right, there["left"], group)

    ordered, paid = committed_records(left, orders), committed_records(right, payments)
    assert (len(ordered), len(paid)) == (of_orders.count, of_payments.count)
    mirrored = committed_records(right, there["left"])
    assert without_offsets(mirrored) == without_offsets(ordered)
    assert without_offsets(committed_records(left, there["right"])) == without_offsets(paid)
    for partition, offset in enumerate(translated):  # such a reader skips nothing on the other side
        assert sum(record.partition == partition and record.offset < offset for record in mirrored) <= committed
    assert configuration(right, there["left"], "cleanup.policy") == "compact"
    assert configuration(left, there["right"], "retention.ms") == "-1"
    assert topics_of(left, run) == {orders, there["right"]}, "nothing comes back"
    assert topics_of(right, run) == {payments, there["left"]}, "nothing comes back"


def without_offsets(records: list[CommittedRecord]) -> list[CommittedRecord]:
    """A transaction's markers take offsets, too: they differ on the other side."""
    return [record._replace(offset=0) for record in records]


def make_topic(bootstrap: str, name: str, configs: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1, config=configs)]).values():
        made.result(TIMEOUT_S)


def topics_of(bootstrap: str, run: str) -> set[str]:
    """Those of this test, on one side."""
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    return {name for name in topics if run in name}


def configuration(bootstrap: str, topic: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return str(described.result(TIMEOUT_S)[name].value)


def commit(bootstrap: str, topic: str, group: str, count: int) -> int:
    """As a reader who has read so many records of each partition; returns the offset, the same of each."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    partitions = [TopicPartition(topic, partition, count) for partition in range(PARTITIONS)]
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()
    return count


def offsets(bootstrap: str, topic: str, group: str) -> list[int]:
    """Of each partition, what the group has committed; -1001 where it has nothing."""
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    asked = [ConsumerGroupTopicPartitions(group, partitions)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (told,) = admin.list_consumer_group_offsets(asked).values()
    return [partition.offset for partition in told.result(30).topic_partitions]
