"""The same ConsumerGroupHeartbeats, commits and fetches, right and wrong, to Apache Kafka 4.x and to kavka: the same
error codes, epochs and numbers of partitions. Member ids, topic ids and offsets of the log are each broker's own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kavka.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kavka.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.protocol.messages.list_groups_request import ListGroupsRequest
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kavka.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.apache_kafka import ApacheKafka
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess

TOPIC = "beats"
GROUP = 32
"""The type of resources that groups are, to configurations."""
INTERVAL = {"group.consumer.assignment.interval.ms": "0"}

pytestmark = pytest.mark.kafka


class Script:
    """Sends what a step says, and notes what came of it."""

    def __init__(self, port: int) -> None:
        self.client = BrokerClient(port, timeout_s=30)
        self.notes: list[tuple[object, ...]] = []
        self.topic_id = uuid.UUID(int=0)

    def prepare(self) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=4, replication_factor=1, assignments=[], configs=[])
        self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        deadline = time.monotonic() + 60
        while not self.topic_id.int:
            answer = self.client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
            self.topic_id = answer.topics[0].topic_id
            assert time.monotonic() < deadline
        while self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0].error_code:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        while self.beat("warm", "w", 0).error_code:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        self.notes.clear()

    def beat(
        self,
        group: str,
        member: str,
        epoch: int,
        *,
        version: int = 1,
        owned: list[int] | None = None,
        **fields: object,
    ) -> Any:
        """A heartbeat; at epoch 0 a whole one unless `fields` say otherwise."""
        values: dict[str, Any] = {}
        if epoch == 0:
            values = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
            owned = [] if owned is None else owned
        values.update(fields)
        if owned is not None and "topic_partitions" not in values:
            parts = [TopicPartitions(topic_id=self.topic_id, partitions=owned)] if owned else []
            values["topic_partitions"] = parts
        answer = self.client.ask(
            ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **values), version
        )
        told = answer.assignment
        counts = None if told is None else sorted(len(part.partitions) for part in told.topic_partitions)
        self.notes.append(
            ("beat", group, member, epoch, ErrorCode(answer.error_code).name, answer.member_epoch, counts)
        )
        return answer

    def another_topic(self, name: str, partitions: int) -> uuid.UUID:
        """Makes a topic, and waits until groups are given its partitions; returns its id."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        deadline = time.monotonic() + 60
        found = uuid.UUID(int=0)
        while not found.int:
            assert time.monotonic() < deadline
            found = self.client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0].topic_id
        noted = list(self.notes)
        while not self.beat(f"warm-{name}", "w", 0, subscribed_topic_names=[name]).assignment.topic_partitions:
            assert time.monotonic() < deadline
        self.notes[:] = noted
        return found

    def assign_every(self, group: str, interval_ms: int) -> None:
        """How long after an assignment the group's next one comes at the soonest; returns when that is in force."""
        name = "consumer.assignment.interval.ms"
        setting = AlterableConfig(name=name, config_operation=0, value=str(interval_ms))
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[setting])
        answer = self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, answer
        asked = DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=[name])
        deadline = time.monotonic() + 60
        while (
            self.client.ask(DescribeConfigsRequest(resources=[asked]), 4).results[0].configs[0].value != setting.value
        ):
            assert time.monotonic() < deadline

    def owned(self, answer: Any) -> list[int]:
        return [number for part in answer.assignment.topic_partitions for number in part.partitions]

    def commit(self, group: str, member: str, epoch: int, *, version: int = 9, partition: int = 0) -> None:
        answer = self.client.ask(
            OffsetCommitRequest(
                group_id=group,
                member_id=member,
                generation_id_or_member_epoch=epoch,
                topics=[
                    OffsetCommitRequestTopic(
                        name=TOPIC,
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=partition, committed_offset=7, committed_metadata="m"
                            )
                        ],
                    )
                ],
            ),
            version,
        )
        self.notes.append(
            ("commit", group, member, epoch, version, ErrorCode(answer.topics[0].partitions[0].error_code).name)
        )

    def fetch(self, group: str, member: str | None, epoch: int) -> None:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1])]
        wanted = OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=topics)
        found = self.client.ask(OffsetFetchRequest(groups=[wanted], require_stable=True), 9).groups[0]
        offsets = [
            (partition.partition_index, partition.committed_offset, ErrorCode(partition.error_code).name)
            for topic in found.topics
            for partition in topic.partitions
        ]
        self.notes.append(("fetch", group, member, epoch, ErrorCode(found.error_code).name, offsets))

    def describe(self, group: str) -> None:
        found = self.client.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]
        members = sorted(
            (
                member.member_id,
                member.instance_id,
                member.member_epoch,
                member.member_type,
                member.subscribed_topic_regex,
                sum(len(part.partitions) for part in member.assignment.topic_partitions),
                sum(len(part.partitions) for part in member.target_assignment.topic_partitions),
            )
            for member in found.members
        )
        self.notes.append(
            (
                "describe",
                group,
                ErrorCode(found.error_code).name,
                found.group_state,
                found.group_epoch,
                found.assignment_epoch,
                found.assignor_name,
                members,
            )
        )

    def describe_classic(self, group: str) -> None:
        found = self.client.ask(DescribeGroupsRequest(groups=[group]), 6).groups[0]
        self.notes.append(("classic", group, ErrorCode(found.error_code).name, found.group_state))

    def listed(self, *, states: list[str], types: list[str]) -> None:
        found = self.client.ask(ListGroupsRequest(states_filter=states, types_filter=types), 5).groups
        groups = sorted((one.group_id, one.protocol_type, one.group_state, one.group_type) for one in found)
        self.notes.append(("list", states, types, [one for one in groups if one[0] != "warm"]))

    def delete(self, group: str) -> None:
        found = self.client.ask(DeleteGroupsRequest(groups_names=[group]), 2).results[0]
        self.notes.append(("delete", group, ErrorCode(found.error_code).name))

    def delete_offset(self, group: str) -> None:
        partitions = [OffsetDeleteRequestPartition(partition_index=0), OffsetDeleteRequestPartition(partition_index=99)]
        topics = [OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)]
        found = self.client.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
        each = sorted(
            (partition.partition_index, ErrorCode(partition.error_code).name)
            for topic in found.topics
            for partition in topic.partitions
        )
        self.notes.append(("delete offset", group, ErrorCode(found.error_code).name, each))

    def join_classic(self, group: str, member: str, protocol_type: str, protocols: Mapping[str, bytes]) -> None:
        found = self.client.ask(
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=member,
                protocol_type=protocol_type,
                protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
            ),
            9,
        )
        self.notes.append(("join", group, protocol_type, sorted(protocols), ErrorCode(found.error_code).name))


def wrong_requests(script: Script) -> None:
    script.beat("", "m", 0)
    script.beat("g", "", 0)
    script.beat("g", "m", 0, instance_id="")
    script.beat("g", "m", 0, rack_id="")
    script.beat("g", "m", 0, rebalance_timeout_ms=-1)
    script.beat("g", "m", 0, owned=[0])
    script.beat("g", "m", 0, topic_partitions=None)
    script.beat("g", "m", 0, subscribed_topic_names=[])
    script.beat("g", "m", 0, subscribed_topic_names=None)
    script.beat("g", "m", -2)
    script.beat("g", "m", -3)
    script.beat("g", "m", 0, server_assignor="nope")
    script.beat("g", "m", 0, subscribed_topic_names=None, subscribed_topic_regex="(")
    script.beat("g", "m", 0, subscribed_topic_names=None, subscribed_topic_regex="a(?=b)")
    script.beat("nobody", "m", 5)
    script.beat("nobody", "m", -1)
    script.describe("nobody")
    script.describe("")


def life_of_members(script: Script) -> None:
    script.beat("life", "m1", 0)
    script.beat("life", "m1", 2)
    script.beat("life", "m1", 0)
    script.beat("life", "m1", 9)
    script.beat("life", "stranger", 1)
    script.beat("life", "m2", 0)
    script.describe("life")
    one = script.beat("life", "m1", 2, owned=[0, 1, 2, 3])
    keeps = script.owned(one)
    script.beat("life", "m2", 3)
    script.beat("life", "m1", 2, owned=[0, 1, 2, 3])
    script.beat("life", "m1", 2, owned=keeps)
    script.beat("life", "m1", 2, owned=keeps)
    script.beat("life", "m1", 3, owned=keeps)
    script.beat("life", "m1", 0)
    script.beat("life", "m2", 3)
    script.beat("life", "m2", 3, rebalance_timeout_ms=60_000, subscribed_topic_names=[TOPIC], owned=[])
    script.describe("life")
    script.describe_classic("life")
    script.join_classic("life", "", "connect", {"x": b""})
    script.join_classic("life", "", "consumer", {})
    script.delete("life")
    script.beat("life", "m1", -1)
    script.describe("life")
    script.beat("life", "m2", -1)
    script.describe("life")
    script.listed(states=[], types=["consumer"])
    script.listed(states=["empty"], types=[])
    script.listed(states=["Stable"], types=["classic"])
    script.delete("life")
    script.delete("life")
    script.describe("life")


def static_members(script: Script) -> None:
    script.beat("s", "a", 0, instance_id="i")
    script.beat("s", "b", 0, instance_id="i")
    script.beat("s", "b", 1, instance_id="i")
    script.beat("s", "a", 1, instance_id="other")
    script.beat("s", "a", -2, instance_id="i")
    script.describe("s")
    script.beat("s", "a", 1, instance_id="i")
    script.beat("s", "c", 0, instance_id="i")
    script.beat("s", "a", 1, instance_id="i")
    script.describe("s")
    script.beat("s", "c", -1, instance_id="i")
    script.describe("s")


def offsets(script: Script) -> None:
    script.commit("o", "", -1)
    script.commit("o", "m", 4)
    script.beat("o", "m", 0)
    script.commit("o", "m", 1)
    script.commit("o", "m", 0)
    script.commit("o", "m", 2)
    script.commit("o", "stranger", 1)
    script.commit("o", "", -1)
    script.commit("o", "m", 1, version=8)
    script.commit("o", "m", 1, partition=99)
    script.fetch("o", "m", 1)
    script.fetch("o", "m", 0)
    script.fetch("o", "stranger", 1)
    script.fetch("o", None, -1)
    script.fetch("nobody", None, -1)
    script.delete_offset("o")
    script.beat("o", "m", -1)
    script.commit("o", "", -1)
    script.delete_offset("o")
    script.delete_offset("nobody")
    script.fetch("o", None, -1)
    script.delete("o")


def commits_of_an_older_epoch(script: Script) -> None:
    """Which partitions one of two keeps depends on its id: those that it is shown."""
    script.beat("older", "m1", 0)
    script.beat("older", "m2", 0)
    kept = script.owned(script.beat("older", "m1", 2, owned=[0, 1, 2, 3]))
    given = [number for number in range(4) if number not in kept]
    script.describe("older")
    script.commit("older", "m1", 2, partition=given[0])
    script.beat("older", "m1", 2, owned=kept)
    script.describe("older")
    script.commit("older", "m1", 2, partition=kept[0])
    script.commit("older", "m1", 2, partition=given[0])
    script.commit("older", "m1", 3, partition=given[0])
    script.commit("older", "m1", 1, partition=kept[0])
    script.commit("older", "m1", 4, partition=kept[0])
    script.beat("older", "m2", 3)
    script.commit("older", "m2", 2, partition=given[0])
    script.commit("older", "m2", 3, partition=given[0])


def less_to_read_before_the_next_assignment(script: Script) -> None:
    """Who subscribes to less is told at once, who subscribes to more by the next assignment."""
    script.assign_every("less", 15_000)
    second, third = script.another_topic("second", 2), script.another_topic("third", 2)
    all_of = {script.topic_id: 4, second: 2, third: 2}

    def owns(*topics: uuid.UUID) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=topic_id, partitions=list(range(all_of[topic_id]))) for topic_id in topics]

    first = script.topic_id
    names = [TOPIC, "second", "third"]
    script.beat("less", "m1", 0, subscribed_topic_names=names)
    script.beat("less", "m1", 2, subscribed_topic_names=[*names, "fourth"])
    script.beat("less", "m1", 2, subscribed_topic_names=names[:2], topic_partitions=owns(*all_of))
    script.describe("less")
    script.beat("less", "m1", 2, subscribed_topic_names=names[:1], topic_partitions=owns(*all_of))
    script.describe("less")
    script.beat("less", "m1", 2, topic_partitions=owns(first, second))
    script.describe("less")
    script.beat("less", "m1", 2, topic_partitions=owns(first))
    script.describe("less")
    script.beat("less", "m1", 2, subscribed_topic_names=names[:2], topic_partitions=owns(first))
    script.beat("less", "m1", 2, subscribed_topic_names=names[1:2], topic_partitions=[])
    script.describe("less")


def more_and_more_to_give_back(script: Script) -> None:
    """The next assignment takes more of a member that has just given back what the one before took."""
    script.beat("more", "m1", 0)
    script.beat("more", "m2", 0)
    kept = script.owned(script.beat("more", "m1", 2, owned=[0, 1, 2, 3]))
    script.beat("more", "m3", 0)
    script.beat("more", "m4", 0)
    left = script.owned(script.beat("more", "m1", 2, owned=kept))
    script.describe("more")
    script.beat("more", "m1", 2, owned=kept)
    script.beat("more", "m1", 2, owned=left)
    script.beat("more", "m1", 5, owned=left)
    script.describe("more")


def given_back_and_to_have_again(script: Script) -> None:
    script.beat("again", "m1", 0)
    script.beat("again", "m2", 0)
    kept = script.owned(script.beat("again", "m1", 2, owned=[0, 1, 2, 3]))
    gone = [number for number in range(4) if number not in kept]
    script.beat("again", "m2", -1)
    script.beat("again", "m1", 2, owned=kept)
    script.describe("again")
    script.commit("again", "m1", 2, partition=kept[0])
    script.commit("again", "m1", 2, partition=gone[0])


SCRIPTS = (
    more_and_more_to_give_back,
    given_back_and_to_have_again,
    wrong_requests,
    life_of_members,
    static_members,
    offsets,
    commits_of_an_older_epoch,
    less_to_read_before_the_next_assignment,
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with ApacheKafka(
        tmp_path_factory.mktemp("groups") / "kraft", mode="kraft", settings=INTERVAL, heap="-Xmx512M -Xms256M"
    ) as peer:
        yield peer.port


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("kavka") / "data"
    with KavkaProcess(directory, settings=INTERVAL) as broker:
        yield int(broker.bootstrap.rpartition(":")[2])


@pytest.mark.parametrize("steps", SCRIPTS, ids=lambda steps: steps.__name__)
def test_answers_are_those_of_kafka(kafka: int, ours: int, steps: Any) -> None:
    found = []
    for port in (kafka, ours):
        script = Script(port)
        script.prepare()
        try:
            steps(script)
        finally:
            print(*script.notes, sep="\n")
        found.append(script.notes)
    for theirs, own in zip(*found, strict=True):
        print(theirs == own, theirs, own)
    assert found[1] == found[0]


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["zk", "kraft"])
def test_where_the_newer_protocol_is_off_groups_are_described_as_kafka_does(tmp_path: Path, mode: str) -> None:
    off = {"group.coordinator.rebalance.protocols": "classic"}
    asked = ConsumerGroupDescribeRequest(group_ids=["b", "a", "b"])
    answers = []
    with ApacheKafka(tmp_path / "kafka", mode=mode, settings=off, heap="-Xmx512M -Xms256M") as peer:
        answers.append(BrokerClient(peer.port, timeout_s=30).ask(asked, 0))
    with KavkaProcess(tmp_path / "kavka", settings=off) as broker:
        answers.append(BrokerClient(broker.port, timeout_s=30).ask(asked, 0))
    theirs, ours = ([(g.group_id, g.error_code, g.error_message) for g in answer.groups] for answer in answers)
    assert ours == theirs == [(group_id, 35, None) for group_id in ("b", "a", "b")]
