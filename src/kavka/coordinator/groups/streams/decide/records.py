"""Records of streams groups in `__consumer_offsets`, in Apache Kafka 4.3's own formats.

    key version   key             value
    17            group           the group's epoch, a hash of the topics it needs, the topology's validated epoch
    19            group, member   what the member says of itself
    20            group           the target assignment's epoch
    21            group, member   the member's part of the target
    22            group, member   what the member has, in which epoch
    23            group           the topology

All values are of version 0.

Source: Kafka's StreamsCoordinatorRecordHelpers; its dump-log decodes what is written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from kavka.coordinator.groups.consumer.decide.records import assigned_since
from kavka.coordinator.groups.streams.decide.group import Endpoint, MemberState, StreamsGroup, StreamsMember
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, TaskIds, Tasks
from kavka.coordinator.groups.streams.decide.topology import InternalTopic, Topology, topology_of
from kavka.coordinator.shared.decide.records import CoordinatorRecord, record_of, value_of
from kavka.errors import ProtocolViolation, RequestError
from kavka.protocol.codec import decode
from kavka.protocol.messages import streams_group_current_member_assignment_value as current
from kavka.protocol.messages import streams_group_member_metadata_value as members
from kavka.protocol.messages import streams_group_metadata_value as groups
from kavka.protocol.messages import streams_group_target_assignment_member_value as targets
from kavka.protocol.messages import streams_group_topology_value as topologies
from kavka.protocol.messages.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from kavka.protocol.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from kavka.protocol.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from kavka.protocol.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from kavka.protocol.messages.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from kavka.protocol.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from kavka.protocol.messages.streams_group_topology_key import StreamsGroupTopologyKey
from kavka.protocol.schema import Message

GROUP_KEY: Final = 17
MEMBER_KEY: Final = 19
TARGET_KEY: Final = 20
TARGET_MEMBER_KEY: Final = 21
CURRENT_KEY: Final = 22
TOPOLOGY_KEY: Final = 23


class Epoch(NamedTuple):
    """The group's epoch, and what it was raised for."""

    epoch: int
    metadata_hash: int
    validated_epoch: int
    configs: Mapping[str, str]


class Target(NamedTuple):
    """Which epoch the target assignment is of, and when it was made."""

    epoch: int
    timestamp_ms: int


class GroupChange(NamedTuple):
    """The group's epoch; None if the group was deleted."""

    epoch: Epoch | None


class MemberChange(NamedTuple):
    """What the member says of itself; None if it is gone."""

    member_id: str
    member: StreamsMember | None


class TargetChange(NamedTuple):
    """None if it was deleted."""

    target: Target | None


class TargetMemberChange(NamedTuple):
    """The member's part of the target; None if it was deleted."""

    member_id: str
    tasks: Tasks | None


class CurrentChange(NamedTuple):
    """The member's progress; None if it is gone."""

    member_id: str
    member: StreamsMember | None


class TopologyChange(NamedTuple):
    """None if it was deleted."""

    topology: Topology | None


Change: TypeAlias = GroupChange | MemberChange | TargetChange | TargetMemberChange | CurrentChange | TopologyChange


class StreamsGroupRecord(NamedTuple):
    """A record of one group, and what it changes."""

    group_id: str
    change: Change

    @property
    def is_deletion(self) -> bool:
        """Whether it only takes something away: of a group that is not there, nothing."""
        return self.change[-1] is None


# -- writing


def epoch_record(group_id: str, epoch: Epoch) -> CoordinatorRecord:
    """The group has a new epoch."""
    value = groups.StreamsGroupMetadataValue(
        epoch=epoch.epoch,
        metadata_hash=epoch.metadata_hash,
        validated_topology_epoch=epoch.validated_epoch,
        last_assignment_configs=[
            groups.LastAssignmentConfig(key=name, value=epoch.configs[name]) for name in sorted(epoch.configs)
        ],
    )
    return record_of(GROUP_KEY, StreamsGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """What a member says of itself."""
    endpoint = member.endpoint
    value = members.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else members.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[members.KeyValue(key=key, value=value) for key, value in sorted(member.tags)],
    )
    return record_of(MEMBER_KEY, _member_key(group_id, member.member_id), value)


def target_record(group_id: str, target: Target) -> CoordinatorRecord:
    """The target assignment is that of this epoch."""
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=target.epoch, assignment_timestamp=target.timestamp_ms
    )
    return record_of(TARGET_KEY, StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_member_record(group_id: str, member_id: str, tasks: Tasks) -> CoordinatorRecord:
    """A member's part of the target assignment."""
    active, standby, warmup = (
        [targets.TaskIds(subtopology_id=name, partitions=sorted(ids[name])) for name in sorted(ids)] for ids in tasks
    )
    value = targets.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=active, standby_tasks=standby, warmup_tasks=warmup
    )
    return record_of(TARGET_MEMBER_KEY, _target_member_key(group_id, member_id), value)


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """What a member has, and how far it is."""
    has, revoking = member.assigned, member.revoking
    value = current.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        active_tasks=_with_epochs(member, has.active),
        standby_tasks=_current(has.standby),
        warmup_tasks=_current(has.warmup),
        active_tasks_pending_revocation=_with_epochs(member, revoking.active),
        standby_tasks_pending_revocation=_current(revoking.standby),
        warmup_tasks_pending_revocation=_current(revoking.warmup),
    )
    return record_of(CURRENT_KEY, _current_key(group_id, member.member_id), value)


def topology_record(group_id: str, topology: Topology) -> CoordinatorRecord:
    """The application is this one."""
    value = topologies.StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            topologies.Subtopology(
                subtopology_id=part.subtopology_id,
                source_topics=list(part.source_topics),
                source_topic_regex=list(part.source_topic_regex),
                state_changelog_topics=[_topic_info(topic) for topic in part.changelogs],
                repartition_sink_topics=list(part.repartition_sinks),
                repartition_source_topics=[_topic_info(topic) for topic in part.repartition_sources],
                copartition_groups=[
                    topologies.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in part.copartition_groups
                ],
            )
            for part in topology.subtopologies.values()
        ],
    )
    return record_of(TOPOLOGY_KEY, StreamsGroupTopologyKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The records that take a member out, in the order in which Kafka writes them."""
    return [
        record_of(CURRENT_KEY, _current_key(group_id, member_id), None),
        record_of(TARGET_MEMBER_KEY, _target_member_key(group_id, member_id), None),
        record_of(MEMBER_KEY, _member_key(group_id, member_id), None),
    ]


def group_tombstones(group: StreamsGroup) -> list[CoordinatorRecord]:
    """The records that delete a group."""
    group_id = group.group_id
    listed = list(group.members)
    return [
        *(record_of(CURRENT_KEY, _current_key(group_id, member_id), None) for member_id in listed),
        *(
            record_of(TARGET_MEMBER_KEY, _target_member_key(group_id, member_id), None)
            for member_id in dict.fromkeys((*listed, *group.target))
        ),
        record_of(TARGET_KEY, StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(record_of(MEMBER_KEY, _member_key(group_id, member_id), None) for member_id in listed),
        record_of(GROUP_KEY, StreamsGroupMetadataKey(group_id=group_id), None),
        record_of(TOPOLOGY_KEY, StreamsGroupTopologyKey(group_id=group_id), None),
    ]


def _member_key(group_id: str, member_id: str) -> Message:
    return StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def _target_member_key(group_id: str, member_id: str) -> Message:
    return StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def _current_key(group_id: str, member_id: str) -> Message:
    return StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)


def _current(ids: TaskIds) -> list[current.TaskIds]:
    return [current.TaskIds(subtopology_id=name, partitions=sorted(ids[name])) for name in sorted(ids)]


def _with_epochs(member: StreamsMember, ids: TaskIds) -> list[current.TaskIds]:
    listed = _current(ids)
    for part in listed:
        tasks = (Task(part.subtopology_id, partition) for partition in part.partitions)
        part.assignment_epochs = [member.assignment_epochs.get(task, max(member.epoch, 0)) for task in tasks]
    return listed


def _topic_info(topic: InternalTopic) -> topologies.TopicInfo:
    return topologies.TopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        topic_configs=[topologies.TopicConfig(key=key, value=value) for key, value in topic.settings],
    )


# -- reading


def decode_streams_group_record(
    key_version: int, key: bytes, value: tuple[int, bytes] | None
) -> StreamsGroupRecord | None:
    """What a record says; None for keys that are of no streams group. Key and value come without their versions.

    Raises `ProtocolViolation` for bytes that are no such record.
    """
    match key_version:
        case _ if key_version == GROUP_KEY:
            group_id = decode(StreamsGroupMetadataKey, key, key_version).group_id
            group = value_of(groups.StreamsGroupMetadataValue, value)
            return StreamsGroupRecord(group_id, GroupChange(None if group is None else _epoch(group)))
        case _ if key_version == MEMBER_KEY:
            member_key = decode(StreamsGroupMemberMetadataKey, key, key_version)
            told = value_of(members.StreamsGroupMemberMetadataValue, value)
            member = None if told is None else _member(member_key.member_id, told)
            return StreamsGroupRecord(member_key.group_id, MemberChange(member_key.member_id, member))
        case _ if key_version == TARGET_KEY:
            group_id = decode(StreamsGroupTargetAssignmentMetadataKey, key, key_version).group_id
            made = value_of(StreamsGroupTargetAssignmentMetadataValue, value)
            target = None if made is None else Target(made.assignment_epoch, made.assignment_timestamp)
            return StreamsGroupRecord(group_id, TargetChange(target))
        case _ if key_version == TARGET_MEMBER_KEY:
            target_key = decode(StreamsGroupTargetAssignmentMemberKey, key, key_version)
            part = value_of(targets.StreamsGroupTargetAssignmentMemberValue, value)
            tasks = None if part is None else _tasks(part.active_tasks, part.standby_tasks, part.warmup_tasks)
            return StreamsGroupRecord(target_key.group_id, TargetMemberChange(target_key.member_id, tasks))
        case _ if key_version == CURRENT_KEY:
            current_key = decode(StreamsGroupCurrentMemberAssignmentKey, key, key_version)
            has = value_of(current.StreamsGroupCurrentMemberAssignmentValue, value)
            progress = None if has is None else _progress(current_key.member_id, has)
            return StreamsGroupRecord(current_key.group_id, CurrentChange(current_key.member_id, progress))
        case _ if key_version == TOPOLOGY_KEY:
            group_id = decode(StreamsGroupTopologyKey, key, key_version).group_id
            topology = value_of(topologies.StreamsGroupTopologyValue, value)
            return StreamsGroupRecord(group_id, TopologyChange(None if topology is None else _topology(topology)))
        case _:
            return None


def _epoch(value: groups.StreamsGroupMetadataValue) -> Epoch:
    configs = {config.key: config.value for config in value.last_assignment_configs or ()}
    return Epoch(value.epoch, value.metadata_hash, value.validated_topology_epoch, configs)


def _member(member_id: str, value: members.StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return StreamsMember(
        member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tuple((tag.key, tag.value) for tag in value.client_tags),
    )


def _progress(member_id: str, value: current.StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    revoking = (
        value.active_tasks_pending_revocation,
        value.standby_tasks_pending_revocation,
        value.warmup_tasks_pending_revocation,
    )
    return StreamsMember(
        member_id,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state,
        assigned=_tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks),
        revoking=_tasks(*revoking),
        assignment_epochs={
            Task(part.subtopology_id, partition): since
            for part in (*value.active_tasks, *revoking[0])
            for partition, since in zip(part.partitions, assigned_since(part, value.member_epoch), strict=True)
        },
    )


def _topology(value: topologies.StreamsGroupTopologyValue) -> Topology:
    try:
        return topology_of(value.epoch, value.subtopologies)
    except RequestError as flaw:
        raise ProtocolViolation(f"no topology: {flaw.message}") from flaw


class TaskIdsMessage(Protocol):
    """Tasks of one subtopology, in a request or a record."""

    subtopology_id: str
    partitions: list[int]


def _tasks(
    active: Iterable[TaskIdsMessage], standby: Iterable[TaskIdsMessage], warmup: Iterable[TaskIdsMessage]
) -> Tasks:
    found = Tasks(ids_of(active), ids_of(standby), ids_of(warmup))
    return NOTHING if found.is_empty else found


def ids_of(parts: Iterable[TaskIdsMessage]) -> TaskIds:
    """The tasks that a request or a record lists."""
    found: dict[str, frozenset[int]] = {}
    for part in parts:
        if part.partitions:
            found[part.subtopology_id] = found.get(part.subtopology_id, frozenset()) | frozenset(part.partitions)
    return found


def apply_to(group: StreamsGroup, change: Change) -> None:
    """Changes the group as a committed record says. What a record deletes may not be there: the log is compacted."""
    match change:
        case GroupChange(Epoch() as told):
            group.epoch = told.epoch
            group.metadata_hash = told.metadata_hash
            group.validated_epoch = told.validated_epoch
            group.configs = told.configs
        case GroupChange():
            pass  # Who holds the groups removes it.
        case MemberChange(member_id, None):
            group.remove_member(member_id)
        case MemberChange(member_id, StreamsMember() as said):
            known = group.members.get(member_id)
            group.put_member(said if known is None else known.with_news_of(said))
        case TargetChange(target):
            group.assignment_epoch, group.assignment_timestamp_ms = (-1, 0) if target is None else target
        case TargetMemberChange(member_id, None):
            group.target.pop(member_id, None)
        case TargetMemberChange(member_id, Tasks() as tasks):
            group.target[member_id] = tasks
        case CurrentChange(member_id, progress):
            known = group.members.get(member_id)
            if progress is not None:
                group.put_member(progress if known is None else progress.with_news_of(known))
            elif known is not None:
                group.put_member(StreamsMember(member_id).with_news_of(known))
        case TopologyChange(topology):
            group.put_topology(topology)
