"""Share groups on three brokers, of which the leader of a partition, the coordinator of its states, or both are killed.

    F1  what a member was told is accepted is never delivered again to a fetch that begins later
    F2  every record is delivered, and in the end each is accepted, or its acceptance was sent and not answered
    F3  what was held and not acknowledged is delivered again, by the count that was stored

The state of a partition is kept by another broker than its leader, so that each can die alone.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.coordinator.shared.decide.partitions import Placement
from kavka.errors import ErrorCode
from kavka.protocol.messages import describe_share_group_offsets_request as describing
from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.records.builder import BatchBuilder
from tests.kit.broker_client import BrokerClient, Closed
from tests.kit.process_cluster import BROKER_SETTINGS, ProcessCluster, eventually
from tests.kit.share_member import ACCEPT, RELEASE, ShareMember

STATES = "__share_group_state"
SETTINGS = {
    **BROKER_SETTINGS,
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "min.insync.replicas": "2",
}
GROUP_RESOURCE = 32
FAILURES = (Closed, OSError, EOFError)


class ShareCluster:
    """Three brokers with share groups on."""

    def __init__(self, directory: Path) -> None:
        self.cluster = ProcessCluster(directory, defaults=SETTINGS)
        self.cluster.start()

    def client(self, *, without: int = -1) -> BrokerClient:
        """A connection to some broker that lives."""
        for number, server in self.cluster.brokers.items():
            if number != without and server.is_running:
                try:
                    return BrokerClient(server.port)
                except FAILURES:
                    continue
        raise ConnectionError("no broker takes connections")

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.cluster.state(topic, partition).leader

    def port(self, broker_id: int) -> int:
        return self.cluster.brokers[broker_id].port

    def come_back(self, *broker_ids: int) -> None:
        for number in broker_ids:
            eventually("its registration is gone", lambda number=number: number not in self.cluster.registered())
            self.cluster.brokers[number].start()
        self.cluster.wait_for_brokers(*broker_ids)


class Queue:
    """A topic of one partition that `leader` leads at first, and a group whose state another broker keeps."""

    def __init__(self, on: ShareCluster, leader: int = 0, **settings: str) -> None:
        self.on = on
        self.topic = f"queue-{uuid.uuid4().hex}"
        order = [leader, *(each for each in range(3) if each != leader)]
        assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=order)
        topic = CreatableTopic(name=self.topic, num_partitions=-1, replication_factor=-1, assignments=[assigned])

        def made() -> bool:
            with BrokerClient(on.port(on.cluster.controller())) as client:
                error = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5).topics[0].error_code
            return error in (0, ErrorCode.TOPIC_ALREADY_EXISTS)

        eventually("the topic is made", made)
        self.topic_id: uuid.UUID = eventually("the topic has an id", self._find_id)
        # The topic of the states is made with the first group; who keeps what is known then.
        self.joined()
        self.group = next(
            group for group in (f"g-{uuid.uuid4().hex}" for _ in range(100)) if self.keeper(group) != leader
        )
        with on.client() as client:
            wanted = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10", **settings}
            changes = [
                configs.AlterableConfig(name=name, config_operation=0, value=value) for name, value in wanted.items()
            ]
            resource = configs.AlterConfigsResource(
                resource_type=GROUP_RESOURCE, resource_name=self.group, configs=changes
            )
            answer = client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert answer.responses[0].error_code == 0, answer

    group = "first"
    end = 0

    def _find_id(self) -> uuid.UUID | None:
        wanted = [MetadataRequestTopic(name=self.topic)]
        with self.on.client() as client:
            found = client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12).topics[0]
        return None if found.error_code or found.topic_id.int == 0 else found.topic_id

    def keeper(self, group: str = "") -> int:
        """The broker that keeps the state."""
        placement = Placement()
        placement.learn(3)
        return self.on.leader(STATES, placement.of(str(ShareKey(group or self.group, self.topic_id, 0))))

    def leader(self) -> int:
        return self.on.leader(self.topic)

    def member(self, name: str = "") -> ShareMember:
        """A member with a connection to the partition's leader. It takes records without being in the group: who leads
        does not ask for that, as in Apache Kafka."""
        return ShareMember(self.on.port(self.leader()), self.group, name)

    def produce(self, count: int) -> None:
        builder = BatchBuilder()
        for number in range(count):
            builder.append(number, None, str(self.end + number).encode())
        data = builder.build()

        def sent() -> bool:
            with BrokerClient(self.on.port(self.leader())) as client:
                return bool(client.produce(self.topic, data).error_code == 0)

        eventually("records are committed", sent)
        self.end += count

    def joined(self) -> None:
        """A member has joined, so that states are made; the group stays as it is."""

        def is_assigned() -> bool:
            for number in self.on.cluster.brokers:
                with ShareMember(self.on.port(number), self.group, "keeper") as member:
                    member.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]), 6)
                    answer = member.ask(member.joining(self.topic), 1)
                    if answer.error_code == 0 and answer.assignment and answer.assignment.topic_partitions:
                        return True
            return False

        eventually("the state is there", is_assigned)

    def fetched(self) -> list[tuple[int, int, int]]:
        """What a new member gets of the leader that is there in the end; its connection closes at once."""

        def got() -> list[tuple[int, int, int]] | None:
            with self.member() as member:
                answer = member.fetch_answer(self.topic_id, wait_ms=500)
                assert answer.error_code == 0, answer
                data = answer.responses[0].partitions[0]
                assert data.error_code == 0, data
                return [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]

        found = eventually("a fetch is answered", got)
        assert found is not None
        return found

    def is_done(self) -> bool:
        topic = describing.DescribeShareGroupOffsetsRequestTopic(topic_name=self.topic, partitions=[0])
        asked = describing.DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=[topic])
        with self.on.client() as client:
            answer = client.ask(describing.DescribeShareGroupOffsetsRequest(groups=[asked]), 1).groups[0]
        found = answer.topics[0].partitions[0]
        return bool(found.error_code == 0 and found.start_offset == self.end and found.lag == 0)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareCluster]:
    made = ShareCluster(tmp_path_factory.mktemp("share-failover"))
    with made.cluster:
        yield made


def victims(queue: Queue, who: str) -> list[int]:
    return {"leader": [queue.leader()], "keeper": [queue.keeper()], "both": [queue.leader(), queue.keeper()]}[who]


@pytest.mark.parametrize("who", ["leader", "keeper", "both"])
def test_what_was_accepted_is_not_delivered_again_and_what_was_held_is(brokers: ShareCluster, who: str) -> None:
    queue = Queue(brokers)
    queue.produce(10)
    queue.joined()
    with queue.member() as member:
        assert member.fetch(queue.topic_id) == [(0, 9, 1)]
        assert member.acknowledge(queue.topic_id, (0, 2, [ACCEPT]), (4, 4, [RELEASE]), (6, 7, [ACCEPT])) == 0
        killed = victims(queue, who)
        brokers.cluster.kill(*killed)
        if who == "keeper":
            # The leader is there, and so are its locks. It writes to who keeps the state next.
            assert member.acknowledge(queue.topic_id, (3, 3, [ACCEPT])) in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if who == "both":
        brokers.come_back(*killed)
    expected = [(3, 3, 1), (4, 4, 2), (5, 5, 1), (8, 9, 1)]
    if who == "keeper":
        # Its session has ended with its connection: what it held was released, and 3 is done.
        eventually("released", lambda: queue.fetched()[0][0] == 4)
        found = queue.fetched()
        assert {offset for first, last, _count in found for offset in range(first, last + 1)} == {4, 5, 8, 9}
    else:
        assert queue.fetched() == expected
    if who != "both":
        brokers.come_back(*killed)


class History:
    """Members that fetch, wait, accept, release and let go of records, and what they were told."""

    def __init__(self, queue: Queue, seed: int) -> None:
        self.queue = queue
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.told: dict[int, float] = {}
        """When it was answered that an offset is accepted."""
        self.tried: set[int] = set()
        """Offsets of which an acceptance was sent."""
        self.delivered: dict[int, int] = {}
        self.problems: list[str] = []
        self.ended = threading.Event()

    def live(self) -> None:
        while not self.ended.is_set():
            try:
                with self.queue.member() as member:
                    self._serve(member)
            except (*FAILURES, AssertionError):
                time.sleep(0.05)

    def _serve(self, member: ShareMember) -> None:
        while not self.ended.is_set():
            began = time.monotonic()
            pieces = member.fetch(self.queue.topic_id, wait_ms=300, max_records=40)
            with self.lock:
                for first, last, count in pieces:
                    for offset in range(first, last + 1):
                        self.delivered[offset] = self.delivered.get(offset, 0) + 1
                        if self.told.get(offset, began) < began:
                            self.problems.append(f"{offset} was accepted, and delivered again with count {count}")
                        if count > 10:
                            self.problems.append(f"{offset} was delivered with count {count}")
                drawn = self.random.random()
            if not pieces:
                continue
            if drawn < 0.1:
                return  # The connection closes, and what it held is free.
            kinds = [(first, last, [RELEASE if drawn < 0.2 else ACCEPT]) for first, last, _count in pieces]
            offsets = [offset for first, last, _count in pieces for offset in range(first, last + 1)]
            if drawn >= 0.2:
                with self.lock:
                    self.tried.update(offsets)
            error = member.acknowledge(self.queue.topic_id, *kinds)
            if error == 0 and drawn >= 0.2:
                with self.lock:
                    answered = time.monotonic()
                    self.told.update(dict.fromkeys(offsets, answered))

    def verdict(self) -> None:
        everything = set(range(self.queue.end))
        assert self.problems == []
        assert everything - set(self.delivered) == set()  # F2
        assert everything - self.tried == set()


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("who", ["leader", "keeper", "both"])
def test_a_history_under_kills(brokers: ShareCluster, who: str) -> None:
    queue = Queue(brokers, leader=1)
    queue.produce(50)
    queue.joined()
    history = History(queue, seed=17)
    members = [threading.Thread(target=history.live) for _ in range(3)]
    for member in members:
        member.start()
    try:
        for _ in range(4):
            for _ in range(4):
                queue.produce(50)
                time.sleep(0.3)
            killed = list(dict.fromkeys(victims(queue, who)))
            brokers.cluster.kill(*killed)
            time.sleep(1.0)
            brokers.come_back(*killed)
        eventually("everything is done", queue.is_done, timeout_s=90.0)
    finally:
        history.ended.set()
        for member in members:
            member.join()
    history.verdict()
