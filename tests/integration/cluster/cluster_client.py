"""ClusterClient: asks single brokers single questions, so that a test sees every error code as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from kavka.errors import ErrorCode
from kavka.model import NO_LEADER
from kavka.protocol.messages import CreateTopicsRequest, ElectLeadersRequest, MetadataRequest
from kavka.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kavka.protocol.messages.elect_leaders_request import TopicPartitions
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.protocol.schema import Message
from tests.chaos.replica_logs import StoredBatch, read_log
from tests.kit.broker_client import LATEST, BrokerClient, Closed, batch, produce_of, read_records
from tests.kit.process_cluster import PartitionState, ProcessCluster, eventually

TOPIC = "t"
ALL, ONE = -1, 1
PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 9, 12, 9
# Beyond Apache Kafka's time to notice a death, which is the session's, on a machine that does other things too.
FAILOVER_S = 60.0


class Produced(NamedTuple):
    """What a broker answered to one batch."""

    error: ErrorCode
    offset: int


class Led(NamedTuple):
    """What a broker says of a partition in Metadata."""

    error: ErrorCode
    leader: int
    isr: tuple[int, ...]


class ClusterClient:
    """Every question on a connection of its own."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self.cluster = cluster

    @contextmanager
    def connection(self, broker_id: int, *, timeout_s: float = 20.0) -> Iterator[BrokerClient]:
        host, port = self.cluster.address(broker_id)
        with BrokerClient(port, host=host, timeout_s=timeout_s) as client:
            yield client

    def ask(self, broker_id: int, request: Message, version: int, *, timeout_s: float = 20.0) -> Any:
        with self.connection(broker_id, timeout_s=timeout_s) as client:
            return client.ask(request, version)

    # -- topics

    def create_topic(
        self,
        name: str = TOPIC,
        *,
        replicas: Sequence[Sequence[int]] = ((0, 1, 2),),
        in_sync: bool = True,
        **configs: str,
    ) -> None:
        """With this assignment. configs: with _ for each dot. Returns when every replica is in sync, and the preferred
        ones lead: where the machine stood still for longer than a session meanwhile, they are elected again."""
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in enumerate(replicas)
        ]
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=settings
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=15_000)

        def created() -> bool:
            answer = self.ask(self.cluster.controller(), request, 5).topics[0]
            code = ErrorCode(answer.error_code)
            assert code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), f"{code.name}: {answer.error_message}"
            return True

        eventually(f"{name} is created", created)
        for index, ids in enumerate(replicas):
            if in_sync:
                self.wait_for_isr(*ids, topic=name, partition=index)
            eventually(f"{name}-{index} has its leader", partial(self._preferred_leads, name, index, ids[0]))

    def _preferred_leads(self, topic: str, partition: int, broker_id: int) -> bool:
        if self._leads(topic, partition, broker_id):
            return True
        if self.cluster.state(topic, partition).leader not in (broker_id, NO_LEADER):
            # Its session ended before the test began, and nothing moves leaders back in these clusters.
            self.elect_preferred(topic, at=self.cluster.controller(), partition=partition)
        return False

    def _leads(self, topic: str, partition: int, broker_id: int) -> bool:
        return all(
            self.metadata(topic, partition=partition, at=one).leader == broker_id
            for one, server in self.cluster.brokers.items()
            if server.is_running and not server.is_paused
        )

    def metadata(self, topic: str = TOPIC, *, at: int, partition: int = 0) -> Led:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = self.ask(at, request, METADATA_VERSION).topics
        by_index = {one.partition_index: one for one in found.partitions}
        if partition not in by_index:
            return Led(ErrorCode(found.error_code), -1, ())
        one = by_index[partition]
        return Led(ErrorCode(one.error_code), one.leader_id, tuple(one.isr_nodes))

    def elect_preferred(self, topic: str = TOPIC, *, at: int, partition: int = 0) -> ErrorCode:
        wanted = [TopicPartitions(topic=topic, partitions=[partition])]
        request = ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=5000)
        answer = self.ask(at, request, 2)
        return ErrorCode(answer.error_code or answer.replica_election_results[0].partition_result[0].error_code)

    # -- records

    def produce(
        self, *values: bytes, at: int, acks: int = ALL, topic: str = TOPIC, partition: int = 0, timeout_ms: int = 5000
    ) -> Produced:
        with self.connection(at, timeout_s=timeout_ms / 1000 + 20) as client:
            return self.receive_produced(
                client, self.send(client, *values, acks=acks, topic=topic, partition=partition, timeout_ms=timeout_ms)
            )

    @staticmethod
    def send(
        client: BrokerClient,
        *values: bytes,
        acks: int = ALL,
        topic: str = TOPIC,
        partition: int = 0,
        timeout_ms: int = 5000,
    ) -> Message:
        """Without waiting; what it returns is for `receive_produced`."""
        request = produce_of(topic, bytes(batch(*values)), partition=partition, acks=acks)
        request.timeout_ms = timeout_ms
        client.send(request, PRODUCE_VERSION)
        return request

    @staticmethod
    def receive_produced(client: BrokerClient, request: Message) -> Produced:
        answer = client.receive(request, PRODUCE_VERSION).responses[0].partition_responses[0]
        return Produced(ErrorCode(answer.error_code), answer.base_offset)

    def accepted(
        self, *values: bytes, at: int, acks: int = ALL, topic: str = TOPIC, timeout_s: float = FAILOVER_S
    ) -> int:
        """The offset, once the broker accepts. Each try sends the same records again: a refused one left none, so a
        test that calls this may not expect that nothing was appended by a try that timed out."""

        def once() -> Produced | None:
            produced = self.produce(*values, at=at, acks=acks, topic=topic, timeout_ms=30_000)
            assert produced.error is ErrorCode.NONE, produced
            return produced

        produced = eventually(f"broker {at} accepts acks={acks}", once, timeout_s=timeout_s, every_s=0.1)
        assert produced is not None
        return produced.offset

    def values(self, *, at: int, topic: str = TOPIC, partition: int = 0) -> list[bytes]:
        """All values below the high watermark, at a follower below the one that it knows of. Raises AssertionError
        with the error code where they may not be read."""
        with self.connection(at) as client:
            found: list[bytes] = []
            while True:
                answer = client.fetch(topic, len(found), partition=partition, wait_ms=0)
                assert answer.error_code == 0, f"fetch at broker {at}: {ErrorCode(answer.error_code).name}"
                read = [value for _offset, value in read_records(answer.records, len(found))]
                if not read:
                    return found
                found += read

    def list_offsets_error(self, *, at: int, topic: str = TOPIC) -> ErrorCode:
        """A question that only the leader answers; records are given by followers too."""
        with self.connection(at) as client:
            return ErrorCode(client.offset(topic, LATEST).error_code)

    # -- what a test waits for

    def wait_for_isr(self, *broker_ids: int, topic: str = TOPIC, partition: int = 0) -> PartitionState:
        """Until the in-sync replicas are exactly these, in any order."""
        return self.wait_for_state(
            f"isr {broker_ids}", lambda state: sorted(state.isr) == sorted(broker_ids), topic=topic, partition=partition
        )

    def wait_for_state(
        self, what: str, is_so: Any, *, topic: str = TOPIC, partition: int = 0, timeout_s: float = FAILOVER_S
    ) -> PartitionState:
        def look() -> PartitionState:
            state = self.cluster.state(topic, partition)
            assert is_so(state), state
            return state

        return eventually(f"{topic}-{partition}: {what}", look, timeout_s=timeout_s)

    def wait_for_values(self, *values: bytes, at: int, topic: str = TOPIC) -> None:
        """Until exactly these can be read."""

        def read() -> bool:
            found = self.values(at=at, topic=topic)
            assert found == list(values), found
            return True

        eventually(f"broker {at} gives {values}", read, timeout_s=FAILOVER_S)

    def wait_for_checkpoint(self, high_watermark: int, *, at: int, topic: str = TOPIC, partition: int = 0) -> None:
        """Until the high watermark stands in the broker's checkpoint file."""
        path = self.cluster.data_dir(at) / "replication-offset-checkpoint"
        line = f"{topic} {partition} {high_watermark}"
        eventually(f"{line!r} at {at}", lambda: line in path.read_text().splitlines())

    def wait_for_equal_logs(self, *broker_ids: int, topic: str = TOPIC, partition: int = 0) -> None:
        """Until the replicas' files hold the same batches."""

        def equal() -> bool:
            logs = [self.stored(broker_id, topic=topic, partition=partition) for broker_id in broker_ids]
            assert all(log == logs[0] for log in logs), logs
            return True

        eventually(f"equal logs of {topic} at {broker_ids}", equal, timeout_s=FAILOVER_S)

    def stored(self, broker_id: int, *, topic: str = TOPIC, partition: int = 0) -> list[StoredBatch]:
        """What is in a replica's files."""
        return list(read_log(self.cluster.log_dir(broker_id, topic, partition)))

    def end_of_stored(self, broker_id: int, *, topic: str = TOPIC) -> int:
        batches = self.stored(broker_id, topic=topic)
        return batches[-1].last_offset + 1 if batches else 0


def holds_for(seconds: float, what: str, is_so: Any, *, every_s: float = 0.1) -> None:
    """Asserts that something stays true: the one place where a test waits for nothing to happen."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            assert is_so(), what
        except (OSError, Closed):
            pass  # no answer is no contradiction
        time.sleep(every_s)


StartCluster = Callable[..., ClusterClient]
"""What the fixture `start_cluster` is."""

BOTH = ["kavka", pytest.param("kafka", marks=pytest.mark.kafka)]
"""For tests that ask Apache Kafka as well."""
