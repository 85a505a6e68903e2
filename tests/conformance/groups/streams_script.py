"""StreamsScript: heartbeats, commits and descriptions of streams groups, sent to one broker, and what came of each.

Members and processes are named so that a hash map of a few of them has the order of their names, which is ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.messages import streams_group_heartbeat_request as heartbeat
from kavka.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kavka.protocol.messages.join_group_request import JoinGroupRequestProtocol
from kavka.protocol.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kavka.protocol.messages.offset_delete_request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.kit.streams_member import StreamsMember, task_ids

GROUP = 32
"""The type of resources that groups are, to configurations."""
ONE, TWO = "@", "A"
PATIENCE_S = 60.0

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


class StreamsScript:
    """Sends what a step says, and notes what came of it. `members` are by group and name."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.notes: list[tuple[object, ...]] = []
        self.members: dict[tuple[str, str], StreamsMember] = {}
        self.told: dict[tuple[str, str], list[dict[str, list[int]]]] = {}
        """The tasks of each kind that a member was told last."""
        self.client = StreamsMember(port, "prepared", "nobody")

    def close(self) -> None:
        for member in (self.client, *self.members.values()):
            member.close()

    def prepare(self) -> None:
        for name, partitions in (("four", 4), ("two", 2), ("three", 3)):
            self.client.create_topic(name, partitions=partitions)
        self.until(lambda: all(len(self.client.topics(name)[name].partitions) for name in ("four", "two", "three")))
        self.until(lambda: self.client.ask_to_join(READING).active_tasks)

    def create_topic(self, name: str, *, partitions: int) -> None:
        """Returns when groups know the topic: Kafka's coordinator hears of it later than those who ask for metadata."""
        self.client.create_topic(name, partitions=partitions)
        with StreamsMember(self.port, f"reading-{name}", "nobody") as reader:
            self.until(lambda: reader.ask_to_join(topology(part("0", name))).active_tasks)

    def until(self, condition: Callable[[], Any]) -> None:
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
        if answer.active_tasks is not None:
            kinds = (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            self.told[group, name] = [{each.subtopology_id: each.partitions for each in kind} for kind in kinds]
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

    def follow(self, group: str, *names: str) -> None:
        """Each says in turn that it has what it was told, and nothing else."""
        for name in names:
            active, standby, warmup = (task_ids(each) for each in self.told[group, name])
            self.beat(group, name, active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)

    def until_ready(self, group: str, name: str = ONE) -> None:
        """Heartbeats without a note, until the group's internal topics are there; then one with it."""
        member = self.member(group, name)
        self.until(lambda: not member.beat().status)

    def set(self, group: str, name: str, value: str, *, pause_s: float = 0.5) -> None:
        setting = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[setting])
        answer = self.client.ask(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        self.notes.append(("set", group, name, value, ErrorCode(answer.responses[0].error_code).name))
        time.sleep(pause_s)  # Kafka's brokers take it in a moment later.

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
