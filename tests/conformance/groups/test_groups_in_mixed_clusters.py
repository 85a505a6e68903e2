"""Share groups and streams groups while a broker of Apache Kafka 3.9 is in the cluster, and once it has left.

That broker could not take over such groups. So the others offer none while it is there, serve groups of the old kinds
with it, and offer them again, without a restart, when it has gone. What a share group had done before it came counts
afterwards.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.errors import ErrorCode
from kavka.protocol.messages.api_versions_request import ApiVersionsRequest
from kavka.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.streams_group_heartbeat_request import Subtopology, Topology
from tests.apache_kafka import PeerMissing
from tests.kit.broker_client import BrokerClient
from tests.kit.process_cluster import ProcessCluster, eventually
from tests.kit.share_member import ACCEPT, ShareMember
from tests.kit.streams_member import StreamsMember

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(500)]

KAFKA, KAVKA, SECOND = 0, 1, 2
GROUP_RESOURCE = 32
OFFSETS_PARTITIONS = 6
NEW_KINDS = {68, 69, *range(76, 80), *range(83, 93)}
"""The APIs of consumer, share and streams groups."""
TOPIC = "jobs"
SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "2",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessCluster]:
    """Two brokers of kavka, at work; a third, of Apache Kafka, that has not started yet. The parameter is how many of
    them keep what group coordinators write."""
    settings = {**SETTINGS, "offsets.topic.replication.factor": str(request.param)}
    try:
        brokers = ProcessCluster(tmp_path, brokers=3, own_kinds={KAFKA: "kafka"}, zookeeper="kavka", settings=settings)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with brokers:
        brokers.start_zookeeper()
        for broker_id in (KAVKA, SECOND):
            brokers.start_broker(broker_id)
        yield brokers


def create(cluster: ProcessCluster, *replicas: int) -> None:
    """The topic, with these replicas, the first of which leads."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[list(replicas)])]).values():
        created.result(60)


def port(cluster: ProcessCluster, broker_id: int) -> int:
    return cluster.address(broker_id)[1]


def advertised(cluster: ProcessCluster, broker_id: int) -> set[int]:
    """The APIs of newer kinds of groups that a broker offers."""
    with BrokerClient(port(cluster, broker_id)) as client:
        answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    return {row.api_key for row in answer.api_keys} & NEW_KINDS


def both_advertise(cluster: ProcessCluster, expected: set[int]) -> None:
    for broker_id in (KAVKA, SECOND):
        eventually(
            f"broker {broker_id} advertises {expected or 'none of them'}",
            lambda broker_id=broker_id: advertised(cluster, broker_id) == expected,
        )


def topic_id(cluster: ProcessCluster) -> uuid.UUID:
    wanted = [MetadataRequestTopic(name=TOPIC)]
    with BrokerClient(port(cluster, KAVKA)) as client:
        found = client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12).topics[0].topic_id
    assert isinstance(found, uuid.UUID)
    return found


def produce(cluster: ProcessCluster, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(60) == 0


def coordinator(cluster: ProcessCluster, group: str) -> int:
    def found() -> tuple[int]:
        with BrokerClient(port(cluster, KAVKA)) as client:
            answer = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators[0]
        assert answer.error_code == 0, answer
        return (int(answer.node_id),)

    return eventually("the group has a coordinator", found)[0]


def share_member(cluster: ProcessCluster, group: str) -> ShareMember:
    """On a connection to the group's coordinator."""
    return ShareMember(port(cluster, coordinator(cluster, group)), group)


def streams_member(cluster: ProcessCluster, group: str) -> StreamsMember:
    """On a connection to the group's coordinator."""
    return StreamsMember(port(cluster, coordinator(cluster, group)), group, "one")


def begins_at_the_start(cluster: ProcessCluster, group: str) -> None:
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
    with BrokerClient(port(cluster, KAVKA)) as client:
        answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer


def take(cluster: ProcessCluster, group: str, *accepted: tuple[int, int]) -> list[tuple[int, int, int]]:
    """What a new member is given by the partition's leader; these offsets of it are accepted."""
    topic = topic_id(cluster)
    with ShareMember(port(cluster, cluster.state(TOPIC).leader), group) as reader:
        found: list[tuple[int, int, int]] = eventually(
            "the member gets records", lambda: reader.fetch(topic, wait_ms=500)
        )
        for first, last in accepted:
            assert reader.acknowledge(topic, (first, last, [ACCEPT])) == 0
    return found


def classic_group_reads(cluster: ProcessCluster, group: str, count: int) -> None:
    """A member of the classic protocol reads so many records and commits, all as far as it was not done before."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "session.timeout.ms": 6000, **settings})
    consumer.subscribe([TOPIC])
    seen = 0

    def has_all() -> bool:
        nonlocal seen
        seen += sum(1 for message in consumer.consume(100, timeout=0.5) if not message.error())
        return seen >= count

    try:
        if count:
            eventually(f"{group} reads {count} records", has_all)
            consumer.commit(asynchronous=False)
        assert seen == count
        (position,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
        assert position.offset == cluster_end(cluster)
    finally:
        consumer.close()


def cluster_end(cluster: ProcessCluster) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody"})
    _low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
    consumer.close()
    return int(high)


def leave(cluster: ProcessCluster) -> None:
    """The old broker stops in order."""
    assert cluster.brokers[KAFKA].stop() in (0, 143)
    eventually("the old broker is no longer registered", lambda: KAFKA not in cluster.registered())


def old_broker_leads(cluster: ProcessCluster) -> None:
    """It coordinates the groups in those partitions of which it is the preferred leader."""

    def leads() -> bool:
        with BrokerClient(port(cluster, cluster.controller())) as client:
            client.ask(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000), 2)
        return any(cluster.state("__consumer_offsets", index).leader == KAFKA for index in range(OFFSETS_PARTITIONS))

    eventually("the old broker coordinates groups", leads)


@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_newer_kinds_of_groups_rest_while_an_old_broker_is_there(cluster: ProcessCluster) -> None:
    create(cluster, KAVKA, SECOND)
    both_advertise(cluster, NEW_KINDS)
    produce(cluster, 10)
    begins_at_the_start(cluster, "workers")
    with share_member(cluster, "workers") as member:
        member.join_assigned(TOPIC)
    assert take(cluster, "workers", (0, 3), (6, 6)) == [(0, 9, 1)]

    cluster.start_broker(KAFKA, timeout_s=120)
    both_advertise(cluster, set())
    refused = ErrorCode.UNSUPPORTED_VERSION
    with share_member(cluster, "workers") as late:
        assert late.ask(late.joining(TOPIC), 1).error_code == refused
    with ShareMember(port(cluster, cluster.state(TOPIC).leader), "workers") as reader:
        assert reader.fetch_answer(topic_id(cluster)).error_code == refused
    topology = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=[TOPIC])])
    assert streams_member(cluster, "app").ask_to_join(topology).error_code == refused
    for group in ("classic-1", "classic-2", "classic-3"):
        classic_group_reads(cluster, group, 10)

    leave(cluster)
    both_advertise(cluster, NEW_KINDS)
    for group in ("classic-1", "classic-2", "classic-3"):
        classic_group_reads(cluster, group, 0)
    produce(cluster, 1)
    with share_member(cluster, "workers") as member:
        member.join_assigned(TOPIC)
    assert take(cluster, "workers", (4, 5), (7, 10)) == [(4, 5, 2), (7, 9, 2), (10, 10, 1)]
    assert streams_member(cluster, "app").join(topology).member_epoch > 0


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_an_old_broker_that_coordinates_groups_passes_over_newer_kinds(cluster: ProcessCluster) -> None:
    """It was there when the coordinators' topic was made, so that it has replicas, and comes back when they hold
    records of share groups and of streams groups."""
    topology = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=[TOPIC])])
    cluster.start_broker(KAFKA, timeout_s=120)
    cluster.wait_until_all_know()
    create(cluster, KAVKA, SECOND, KAFKA)
    produce(cluster, 10)
    names = [f"group-{number}" for number in range(12)]
    for name in names:
        classic_group_reads(cluster, name, 10)

    leave(cluster)
    both_advertise(cluster, NEW_KINDS)
    for name in names:
        begins_at_the_start(cluster, f"share-{name}")
        with share_member(cluster, f"share-{name}") as member:
            member.join_assigned(TOPIC)
        assert take(cluster, f"share-{name}", (0, 4)) == [(0, 9, 1)]
        assert streams_member(cluster, f"app-{name}").join(topology).member_epoch > 0

    cluster.start_broker(KAFKA, timeout_s=120)
    both_advertise(cluster, set())
    old_broker_leads(cluster)
    assert KAFKA in {coordinator(cluster, f"share-{name}") for name in names}
    for name in names:
        classic_group_reads(cluster, name, 0)

    leave(cluster)
    both_advertise(cluster, NEW_KINDS)
    for name in names:
        classic_group_reads(cluster, name, 0)
        with share_member(cluster, f"share-{name}") as member:
            member.join_assigned(TOPIC)
        assert take(cluster, f"share-{name}", (5, 9)) == [(5, 9, 2)]
        assert streams_member(cluster, f"app-{name}").join(topology).member_epoch > 1
