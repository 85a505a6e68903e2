"""One broker's disk after the other is full, under a share group, a streams group and a schema registry at once.

The broker ends with a sentence that names the file; the other two go on; nothing that was acknowledged is lost; with
space again the broker comes back into every ISR. With one log directory a broker ends, as Apache Kafka's does.

    F1  what a share group was told is accepted is never delivered again, and every record is delivered
    F2  a schema that was registered keeps its id, also for a registry that begins anew
    F3  a member of a streams group keeps its tasks
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, ShareConsumer

from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.protocol.messages.streams_group_heartbeat_request import Subtopology, Topology
from tests.integration.cluster.cluster_client import ClusterClient
from tests.kit.broker_client import Closed
from tests.kit.process_cluster import BROKER_SETTINGS, ProcessCluster, eventually
from tests.kit.registry_process import RegistryProcess
from tests.kit.streams_member import StreamsMember

SETTINGS = {
    **BROKER_SETTINGS,
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "min.insync.replicas": "2",
    "log.index.size.max.bytes": str(1 << 16),
    "kavka.flight.recorder.bytes": str(1 << 20),
    "group.streams.initial.rebalance.delay.ms": "0",
}
HALTED = 70
GROUP_RESOURCE = 32
DISK_MB = 64
RECORDS_A_ROUND = 60
INTERNAL = ("__consumer_offsets", "__share_group_state", "_schemas", "queue")
PATIENCE_S = 60.0

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(os.geteuid() != 0, reason="a file system for each broker needs root"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path / "cluster", defaults=SETTINGS, disk_mb=DISK_MB) as cluster:
        cluster.start()
        yield cluster


class Queue:
    """A topic and one consumer of its share group, which says of each record that it is accepted."""

    def __init__(self, client: ClusterClient) -> None:
        bootstrap = client.cluster.bootstrap
        client.create_topic("queue", min_insync_replicas="2")
        earliest = configs.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        group = configs.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name="readers", configs=[earliest])
        request = configs.IncrementalAlterConfigsRequest(resources=[group])
        answer = client.ask(client.cluster.controller(), request, 1)
        assert answer.responses[0].error_code == 0, answer
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "log_level": 0,
                "share.acknowledgement.mode": "explicit",
            }
        )
        self._consumer.subscribe(["queue"])
        self.accepted: set[int] = set()
        self.again: list[int] = []
        self._sent = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce("queue", b"%d" % self._sent)
            self._sent += 1
        assert self._producer.flush(PATIENCE_S) == 0

    def take_all(self) -> None:
        """Until all that was sent is accepted, whatever fails meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.accepted) < self._sent:
            assert time.monotonic() < deadline, f"{len(self.accepted)} of {self._sent} are accepted"
            messages = [one for one in self._consumer.poll(0.5) if one.error() is None]
            for message in messages:
                self._consumer.acknowledge(message)
            try:
                outcome = self._consumer.commit_sync(20.0)
            except KafkaException:
                continue
            if any(problem is not None for problem in outcome.values()):
                continue
            numbers = [int(message.value() or b"-1") for message in messages]
            self.again += [number for number in numbers if number in self.accepted]
            self.accepted.update(numbers)

    def close(self) -> None:
        self._consumer.close()


def schema(number: int) -> dict[str, str]:
    return {"schema": f'{{"type": "record", "name": "R{number}", "fields": []}}'}


def test_a_full_disk_ends_one_broker_and_loses_nothing(cluster: ProcessCluster, tmp_path: Path) -> None:
    client = ClusterClient(cluster)
    queue = Queue(client)
    registry = RegistryProcess(cluster.bootstrap, tmp_path)
    registry.start()
    ids: dict[int, int] = {}

    def register(number: int) -> bool:
        status, answer = registry.ask("POST", f"/subjects/s{number}/versions", schema(number))
        assert status == 200, answer
        ids[number] = answer["id"]
        return True

    register(0)
    topology = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=["queue"])])
    tasks: Any = None
    queue.send(5)
    queue.take_all()
    try:
        for broker_id, server in cluster.brokers.items():
            eventually("all are in sync", lambda: _is_whole(cluster), timeout_s=PATIENCE_S)
            cluster.fill_disk(broker_id)
            queue.send(RECORDS_A_ROUND)  # To a leader that halts under it, or that loses a follower.
            assert server.wait_until_ended(timeout_s=PATIENCE_S) == HALTED
            log = server.log_file.read_text()
            assert "No space left on device" in log
            assert "Traceback" not in log
            queue.take_all()
            eventually("a schema is registered", lambda number=broker_id + 1: register(number), timeout_s=PATIENCE_S)
            tasks = eventually("a member has its tasks", lambda: _tasks(cluster, topology), timeout_s=PATIENCE_S)
            assert tasks == [("0", [0])]
            cluster.free_disk(broker_id)
            eventually("its registration is gone", lambda one=broker_id: one not in cluster.registered())
            cluster.start_broker(broker_id)
        eventually("all are in sync", lambda: _is_whole(cluster), timeout_s=PATIENCE_S)
        assert queue.again == []
        registry.stop()
        registry.start()
        for number, found in ids.items():
            status, answer = registry.ask("GET", f"/subjects/s{number}/versions/latest")
            assert (status, answer["id"]) == (200, found)
    finally:
        queue.close()
        registry.stop()


def _tasks(cluster: ProcessCluster, topology: Topology) -> list[tuple[str, list[int]]]:
    """Of a member that comes to the group's coordinator, whoever that is now."""
    coordinator = cluster.state("__consumer_offsets").leader
    try:
        with StreamsMember(cluster.brokers[coordinator].port, "application", "only-member") as member:
            answer = member.join(topology)
            return [(one.subtopology_id, list(one.partitions)) for one in answer.active_tasks or ()]
    except (Closed, AssertionError, KeyError):
        return []


def _is_whole(cluster: ProcessCluster) -> bool:
    return all(sorted(cluster.state(topic).isr) == [0, 1, 2] for topic in INTERNAL)
