"""The same StreamsGroupHeartbeats, commits and descriptions, right and wrong, to Apache Kafka 4.3 and to kavka: the
same error codes, messages, statuses, epochs and tasks.

Members and processes are named so that a hash map of two of them has the order of their names, which is ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.messages import streams_group_heartbeat_request as heartbeat
from kavka.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kavka.protocol.messages.join_group_request import JoinGroupRequestProtocol
from kavka.protocol.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kavka.protocol.messages.offset_delete_request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.apache_kafka import ApacheKafka
from tests.kit.kavka_process import KavkaProcess
from tests.kit.streams_member import StreamsMember, task_ids

GROUP = 32
"""The type of resources that groups are, to configurations."""
SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}
ONE, TWO = "@", "A"
PATIENCE_S = 60.0

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

info, key_value = heartbeat.TopicInfo, heartbeat.KeyValue


def part(name: str, *sources: str, **fields: Any) -> heartbeat.Subtopology:
    return heartbeat.Subtopology(subtopology_id=name, source_topics=list(sources), **fields)


def topology(*parts: heartbeat.Subtopology, epoch: int = 0) -> heartbeat.Topology:
    return heartbeat.Topology(epoch=epoch, subtopologies=list(parts))


READING = topology(part("0", "four"))


def counting(group: str) -> heartbeat.Topology:
    """Words go to the partition that counts them, and the counts are kept."""
    repartition = f"{group}-by-word-repartition"
    changelog = info(name=f"{group}-counts-changelog", topic_configs=[key_value(key="cleanup.policy", value="compact")])
    return topology(
        part("0", "four", repartition_sink_topics=[repartition]),
        part("1", repartition_source_topics=[info(name=repartition)], state_changelog_topics=[changelog]),
    )


def ids(tasks: Sequence[Any] | None) -> object:
    return None if tasks is None else {each.subtopology_id: sorted(each.partitions) for each in tasks}


class Script:
    """Sends what a step says, and notes what came of it. `members` are by group and name."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.notes: list[tuple[object, ...]] = []
        self.members: dict[tuple[str, str], StreamsMember] = {}
        self.client = StreamsMember(port, "prepared", "nobody")

    def close(self) -> None:
        for member in (self.client, *self.members.values()):
            member.close()

    def prepare(self) -> None:
        for name, partitions in (("four", 4), ("two", 2), ("three", 3)):
            self.client.create_topic(name, partitions=partitions)
        self._until(lambda: all(len(self.client.topics(name)[name].partitions) for name in ("four", "two", "three")))
        self._until(lambda: self.client.ask_to_join(READING).active_tasks)

    def _until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def member(self, group: str, name: str) -> StreamsMember:
        if (group, name) not in self.members:
            self.members[group, name] = StreamsMember(self.port, group, name)
        return self.members[group, name]

    def _note(self, what: str, group: str, name: str, answer: Any) -> Any:
        endpoints = answer.partitions_by_user_endpoint
        found = (
            None
            if endpoints is None
            else sorted(
                (
                    each.user_endpoint.host,
                    each.user_endpoint.port,
                    sorted((one.topic, sorted(one.partitions)) for one in each.active_partitions),
                )
                for each in endpoints
            )
        )
        tasks = [ids(each) for each in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)]
        statuses = [(status.status_code, status.status_detail) for status in answer.status or ()]
        error = ErrorCode(answer.error_code).name
        self.notes.append((what, group, name, error, answer.error_message, answer.member_epoch, statuses, tasks))
        if error == "NONE":
            self.notes.append((answer.heartbeat_interval_ms, answer.endpoint_information_epoch, found))
        return answer

    def join(self, group: str, name: str = ONE, application: heartbeat.Topology = READING, **fields: Any) -> Any:
        member = self.member(group, name)
        return self._note("join", group, name, member.ask_to_join(application, **{"process_id": name, **fields}))

    def beat(
        self,
        group: str,
        name: str = ONE,
        epoch: int | None = None,
        *,
        has: Mapping[str, Sequence[int]] | None = None,
        **fields: Any,
    ) -> Any:
        """In the epoch that the member knows, unless `epoch` says another."""
        member = self.member(group, name)
        known, member.epoch = member.epoch, member.epoch if epoch is None else epoch
        answer = member.beat(has=has, **fields)
        if answer.error_code:
            member.epoch = known
        return self._note("beat", group, name, answer)

    def until_ready(self, group: str, name: str = ONE) -> None:
        """Heartbeats without a note, until the group's internal topics are there; then one with it."""
        member = self.member(group, name)
        self._until(lambda: not member.beat().status)

    def set(self, group: str, name: str, value: str) -> None:
        setting = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[setting])
        answer = self.client.ask(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        self.notes.append(("set", group, name, value, ErrorCode(answer.responses[0].error_code).name))
        time.sleep(0.5)  # Kafka's brokers take it in a moment later.

    def commit(self, group: str, name: str, epoch: int, *topics: str, partition: int = 0, version: int = 9) -> None:
        offset = OffsetCommitRequestPartition(partition_index=partition, committed_offset=7, committed_metadata="")
        request = m.OffsetCommitRequest(
            group_id=group,
            member_id=name,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[offset]) for topic in topics or ("four",)],
        )
        answer = self.client.ask(request, version)
        codes = [ErrorCode(each.error_code).name for topic in answer.topics for each in topic.partitions]
        self.notes.append(("commit", group, name, epoch, topics, partition, version, codes))

    def fetch(self, group: str, name: str | None, epoch: int) -> None:
        topics = [OffsetFetchRequestTopics(name="four", partition_indexes=[0])]
        wanted = OffsetFetchRequestGroup(group_id=group, member_id=name, member_epoch=epoch, topics=topics)
        found = self.client.ask(m.OffsetFetchRequest(groups=[wanted], require_stable=True), 9).groups[0]
        self.notes.append(("fetch", group, name, epoch, ErrorCode(found.error_code).name))

    def forget(self, group: str) -> None:
        """Deletes an offset of the group."""
        topic = OffsetDeleteRequestTopic(name="four", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        answer = self.client.ask(m.OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
        codes = [ErrorCode(each.error_code).name for one in answer.topics for each in one.partitions]
        self.notes.append(("forget", group, ErrorCode(answer.error_code).name, codes))

    def delete(self, group: str) -> None:
        (found,) = self.client.ask(m.DeleteGroupsRequest(groups_names=[group]), 2).results
        self.notes.append(("delete", group, ErrorCode(found.error_code).name))

    def classic_join(self, group: str) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
        request = m.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = self.client.ask(request, 3)
        self.notes.append(("classic join", group, ErrorCode(answer.error_code).name))

    def describe(self, group: str) -> None:
        found = self.client.ask(m.StreamsGroupDescribeRequest(group_ids=[group]), 0).groups[0]
        error = ErrorCode(found.error_code).name
        self.notes.append(("describe", group, error, found.error_message, found.group_state))
        old = self.client.ask(m.DescribeGroupsRequest(groups=[group]), 6).groups[0]
        self.notes.append(("classic", ErrorCode(old.error_code).name, old.group_state))
        listed = self.client.ask(m.ListGroupsRequest(states_filter=[], types_filter=["streams"]), 5).groups
        self.notes.append(
            ("listed", [(each.protocol_type, each.group_state) for each in listed if each.group_id == group])
        )
        if found.topology is None:
            return
        self.notes.append((found.group_epoch, found.assignment_epoch, found.topology.epoch))
        for one in found.topology.subtopologies:
            internal = [
                (each.name, each.partitions, each.replication_factor, [(c.key, c.value) for c in each.topic_configs])
                for each in (*one.state_changelog_topics, *one.repartition_source_topics)
            ]
            self.notes.append((one.subtopology_id, one.source_topics, one.repartition_sink_topics, internal))
        for member in sorted(found.members, key=lambda member: member.member_id):
            tasks = [
                ids(each)
                for tasks in (member.assignment, member.target_assignment)
                for each in (tasks.active_tasks, tasks.standby_tasks, tasks.warmup_tasks)
            ]
            tags = [(tag.key, tag.value) for tag in member.client_tags]
            self.notes.append(
                (member.member_id, member.member_epoch, member.topology_epoch, member.process_id, tags, tasks)
            )


# -- scripts


def wrong_requests(script: Script) -> None:
    has = {"active_tasks": task_ids({"0": [0]})}
    for number, fields in enumerate(
        (
            {"instance_id": "static"},
            {"instance_id": ""},
            {"rack_id": " "},
            {"rebalance_timeout_ms": -1},
            {"topology": None},
            has,
            {"standby_tasks": task_ids({"0": [0]})},
            {"warmup_tasks": task_ids({"0": [0]})},
            {"active_tasks": None},
            {"task_offsets": []},
            {"task_end_offsets": []},
            {"group_id": ""},
            {"member_id": ""},
            {"topology": topology(part("0", source_topic_regex=["t.*"]))},
            {"topology": topology(part("0", "__consumer_offsets"))},
            {"topology": topology(part("0", "no/name", "four"))},
        )
    ):
        script.join(f"wrong-{number}", **fields)
    for epoch in (1, -1, -2, -3):
        script.beat("nowhere", ONE, epoch)
    script.join("wrong")
    for epoch in (0, 1, 3, -2, -3):
        script.beat("wrong", ONE, epoch, has={"0": [0]})
    script.beat("wrong", TWO, 2)
    script.beat("wrong", ONE, has={"9": [0]})
    script.beat("wrong", ONE, has={"0": [4]})
    script.beat("wrong", ONE, has={"0": [-1]})
    script.beat("wrong", ONE, active_tasks=[])
    script.beat("wrong", ONE, topology=READING)
    script.describe("wrong")


def life_of_members(script: Script) -> None:
    script.describe("life")
    script.join("life", ONE, client_tags=[key_value(key="zone", value="a")])
    script.beat("life", ONE, has={"0": [0, 1, 2, 3]})
    script.join("life", TWO)
    script.describe("life")
    script.beat("life", TWO, has={})
    script.beat("life", ONE, has={"0": [0, 1, 2, 3]})
    script.beat("life", ONE)
    script.beat("life", TWO, has={})
    script.describe("life")
    script.beat("life", ONE, has={"0": [0, 1]})
    script.beat("life", TWO, has={})
    script.beat("life", TWO, has={"0": [2, 3]})
    script.describe("life")
    script.delete("life")
    script.beat("life", TWO, rack_id="r", has={"0": [2, 3]})
    script.beat("life", ONE, has={"0": [0, 1]})
    script.join("life", ONE)
    script.beat("life", ONE, -1)
    script.beat("life", TWO, has={"0": [2, 3]})
    script.beat("life", TWO, -1)
    script.describe("life")
    script.join("life", ONE)
    script.beat("life", ONE, -1)
    script.delete("life")
    script.describe("life")


def internal_topics(script: Script) -> None:
    script.join("counts", ONE, counting("counts"))
    script.describe("counts")
    script.until_ready("counts")
    script.beat("counts", ONE, has={"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]})
    script.describe("counts")
    script.set("counts", "streams.num.standby.replicas", "3")
    script.set("counts", "streams.num.standby.replicas", "1")
    script.join("counts", TWO, counting("counts"))
    script.describe("counts")


def source_topics(script: Script) -> None:
    script.join("sources", ONE, topology(part("0", "four", "gone")))
    script.describe("sources")
    script.beat("sources", ONE, has={})
    script.beat("sources", ONE, has={"7": [0]})
    together = heartbeat.CopartitionGroup(source_topics=[0, 1])
    script.join("unequal", ONE, topology(part("0", "four", "two", copartition_groups=[together])))
    script.describe("unequal")
    with_fixed = heartbeat.CopartitionGroup(source_topics=[0], repartition_source_topics=[0])
    fixed = part("0", "two", repartition_source_topics=[info(name="r", partitions=3)], copartition_groups=[with_fixed])
    script.join("fixed", ONE, topology(fixed, part("1", "four", repartition_sink_topics=["r"])))
    there = part("0", "four", state_changelog_topics=[info(name="three")])
    script.join("there", ONE, topology(there))


def invalid_topologies(script: Script) -> None:
    for number, parts in enumerate(
        (
            [part("0", "four"), part("1")],
            [part("0", "four", state_changelog_topics=[info(name="c", partitions=3)])],
            [part("0", "four", repartition_source_topics=[info(name="r")])],
            [part("0", repartition_source_topics=[info(name="r")], repartition_sink_topics=["r"])],
        )
    ):
        script.join(f"invalid-{number}", ONE, topology(*parts))
        script.describe(f"invalid-{number}")


def other_topologies(script: Script) -> None:
    script.join("changing", ONE, topology(part("0", "four"), epoch=2))
    script.join("changing", TWO, topology(part("0", "two"), epoch=2))
    script.join("changing", TWO, topology(part("0", "four"), epoch=3))
    script.join("changing", TWO, topology(part("0", "two"), epoch=1))
    script.beat("changing", TWO, has={})
    script.describe("changing")
    script.beat("changing", ONE, -1)
    script.beat("changing", TWO, -1)
    script.join("changing", ONE, topology(part("0", "two"), epoch=3))


def offsets(script: Script) -> None:
    script.join("offsets")
    for epoch in (2, 1, 3, -1):
        script.commit("offsets", ONE, epoch)
        script.fetch("offsets", ONE, epoch)
    script.commit("offsets", TWO, 2)
    script.commit("offsets", "", -1)
    script.commit("offsets", ONE, 2, version=8)
    script.fetch("offsets", None, -1)
    script.forget("offsets")
    script.join("offsets", TWO)
    script.beat("offsets", ONE, has={"0": [0, 1, 2, 3]})
    script.beat("offsets", ONE, has={"0": [0, 1]})
    script.commit("offsets", ONE, 2, partition=0)
    script.commit("offsets", ONE, 2, partition=3)
    script.commit("offsets", ONE, 2, "two")
    script.beat("offsets", ONE, -1)
    script.beat("offsets", TWO, -1)
    script.commit("offsets", "", -1)
    script.forget("offsets")
    script.delete("offsets")


def first_assignment_waits(script: Script) -> None:
    script.set("waiting", "streams.initial.rebalance.delay.ms", "2000")
    script.set("waiting", "streams.heartbeat.interval.ms", "6000")
    script.join("waiting", ONE)
    script.beat("waiting", ONE, has={})
    script.join("waiting", TWO)
    script.describe("waiting")
    time.sleep(3)
    script.beat("waiting", ONE, has={})
    script.beat("waiting", TWO, has={})
    script.describe("waiting")


def assignments_are_apart(script: Script) -> None:
    script.set("apart", "streams.assignment.interval.ms", "3000")
    script.join("apart", ONE)
    script.join("apart", TWO)
    script.describe("apart")
    time.sleep(4)
    script.beat("apart", TWO, has={})
    script.describe("apart")


def shutdown(script: Script) -> None:
    script.join("shut")
    script.join("shut", TWO)
    script.beat("shut", ONE, shutdown_application=True)
    script.beat("shut", TWO)
    script.beat("shut", ONE, -1)
    script.beat("shut", TWO)
    script.beat("shut", TWO, -1, shutdown_application=True)
    script.join("shut")


def endpoints(script: Script) -> None:
    one, two = (heartbeat.Endpoint(host=host, port=9) for host in ("one", "two"))
    script.join("ends", ONE, user_endpoint=one)
    script.beat("ends", ONE)
    script.beat("ends", ONE, endpoint_information_epoch=1)
    script.join("ends", TWO, user_endpoint=two)
    script.beat("ends", ONE, has={"0": [0, 1, 2, 3]}, endpoint_information_epoch=2)
    script.beat("ends", ONE, has={"0": [0, 1]}, endpoint_information_epoch=3)
    script.beat("ends", TWO, has={}, endpoint_information_epoch=3)


def other_kinds(script: Script) -> None:
    script.join("kinds")
    script.classic_join("kinds")
    answer = script.client.ask(
        m.ConsumerGroupHeartbeatRequest(
            group_id="kinds",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["four"],
            topic_partitions=[],
        ),
        1,
    )
    script.notes.append(("consumer", ErrorCode(answer.error_code).name, answer.error_message))
    script.beat("kinds", ONE, -1)
    script.classic_join("kinds")
    script.join("kinds")
    script.commit("bare", "", -1)
    script.join("bare")
    script.describe("bare")


SCRIPTS = (
    wrong_requests,
    life_of_members,
    internal_topics,
    source_topics,
    invalid_topologies,
    other_topologies,
    offsets,
    first_assignment_waits,
    assignments_are_apart,
    shutdown,
    endpoints,
    other_kinds,
)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Script, Script]]:
    """On Apache Kafka and on kavka."""
    kafka: Path = tmp_path_factory.mktemp("groups") / "kraft"
    with (
        ApacheKafka(kafka, mode="kraft", settings=SETTINGS, heap="-Xmx512M -Xms256M") as theirs,
        KavkaProcess(tmp_path_factory.mktemp("kavka") / "data", settings=SETTINGS) as ours,
    ):
        found = Script(theirs.port), Script(ours.port)
        for script in found:
            script.prepare()
        yield found
        for script in found:
            script.close()


@pytest.mark.parametrize("steps", SCRIPTS, ids=lambda steps: steps.__name__)
def test_answers_are_those_of_kafka(scripts: tuple[Script, Script], steps: Callable[[Script], None]) -> None:
    for script in scripts:
        script.notes.clear()
        steps(script)
    theirs, ours = (script.notes for script in scripts)
    for their, own in zip(theirs, ours, strict=False):
        print("same " if their == own else "OTHER", their, "" if their == own else own)
    assert ours == theirs
