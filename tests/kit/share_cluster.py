"""Three brokers with share groups, and a queue on them whose records and whose state different brokers have."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.coordinator.shared.decide.partitions import Placement
from kavka.errors import ErrorCode
from kavka.protocol.messages import describe_share_group_offsets_request as describing
from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kavka.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.records.builder import BatchBuilder
from tests.kit.broker_client import BrokerClient, Closed
from tests.kit.network_lab import NetworkLab
from tests.kit.process_cluster import BROKER_SETTINGS, ProcessCluster, eventually
from tests.kit.secured_brokers import SecuredBrokers
from tests.kit.share_member import ShareMember

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

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        secured: SecuredBrokers | None = None,
        lab: NetworkLab | None = None,
    ) -> None:
        """`settings`: beyond those that all have. `lab`: each broker is a host of its own, and can be cut off."""
        self.cluster = ProcessCluster(directory, defaults=SETTINGS, settings=settings, secured=secured, lab=lab)
        self.cluster.start()

    def client(self, *, without: int = -1) -> BrokerClient:
        """A connection to some broker that lives."""
        for number, server in self.cluster.brokers.items():
            if number != without and server.is_running:
                try:
                    return BrokerClient(server.port, host=server.host)
                except FAILURES:
                    continue
        raise ConnectionError("no broker takes connections")

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.cluster.state(topic, partition).leader

    def port(self, broker_id: int) -> int:
        return self.cluster.brokers[broker_id].port

    def host(self, broker_id: int) -> str:
        return self.cluster.brokers[broker_id].host

    def client_of(self, broker_id: int) -> BrokerClient:
        return BrokerClient(self.port(broker_id), host=self.host(broker_id))

    def create_topic(self, name: str, leader: int, **settings: str) -> None:
        """A topic of one partition, which this broker leads at first."""
        order = [leader, *(each for each in range(3) if each != leader)]
        assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=order)
        wanted = [CreatableTopicConfig(name=setting, value=value) for setting, value in settings.items()]
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[assigned], configs=wanted
        )

        def made() -> bool:
            with self.client_of(self.cluster.controller()) as client:
                error = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5).topics[0].error_code
            return error in (0, ErrorCode.TOPIC_ALREADY_EXISTS)

        eventually("the topic is made", made)

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
        on.create_topic(self.topic, leader)
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

    def apart(self) -> tuple[int, int]:
        """The partition's leader and who keeps the state, two brokers. After a broker has come back one may lead both,
        until the preferred leaders lead again."""

        def are_apart() -> tuple[int, int] | None:
            found = self.leader(), self.keeper()
            if found[0] == found[1]:
                with self.on.client_of(self.on.cluster.controller()) as client:
                    client.ask(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000), 2)
                return None
            return found

        return eventually("leader and keeper are two brokers", are_apart)

    def member(self, name: str = "") -> ShareMember:
        """A member with a connection to the partition's leader. It takes records without being in the group: who leads
        does not ask for that, as in Apache Kafka."""
        leader = self.leader()
        return ShareMember(self.on.port(leader), self.group, name, host=self.on.host(leader))

    def produce(self, count: int) -> None:
        builder = BatchBuilder()
        for number in range(count):
            builder.append(number, None, str(self.end + number).encode())
        data = builder.build()

        def sent() -> bool:
            with self.on.client_of(self.leader()) as client:
                return bool(client.produce(self.topic, data).error_code == 0)

        eventually("records are committed", sent)
        self.end += count

    def joined(self) -> None:
        """A member has joined, so that states are made; the group stays as it is."""

        def is_assigned() -> bool:
            for number in self.on.cluster.brokers:
                with ShareMember(self.on.port(number), self.group, "keeper", host=self.on.host(number)) as member:
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
