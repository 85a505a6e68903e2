"""The result of a StreamsGroupHeartbeat: the records to write, the member's answer, the topics to create.

Decides who may join, which epoch a request must have, when the group's epoch rises, when tasks are assigned anew, and
what a member's next step is. Changes nothing: replaying the records does, and the flow takes over what is not in the
log (`Decision`). Must not know the log, futures, clocks.

    I1  a request that is refused writes nothing
    I2  a member gets tasks only together with records of them (the caller answers when they are committed)
    I3  what a member may not know is in the next answer: a write of unknown outcome counts although its answer was a
        failure, a new coordinator cannot know which answers arrived, and who comes with its former epoch has not heard
        of its present one
    I4  a member that leaves or is removed raises the group's epoch, so that others get its tasks
    I5  tasks are given only of a topology whose topics are all there and fit; until then members have none

    member epoch  what it asks
    0             to join, or to join again without any task
    > 0           to stay, in this epoch
    -1            to leave

The group's epoch rises with a member's news, with topics that it needs, with the topology being found to fit or not to
fit them, and with settings of assignments.

Source: KIP-1071; Kafka's GroupMetadataManager.streamsGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kavka.coordinator.groups.consumer.decide.target_assignment import Topics, metadata_hash
from kavka.coordinator.groups.streams.decide.current_assignment import reconcile
from kavka.coordinator.groups.streams.decide.endpoints import EndpointPartitions, endpoints_of
from kavka.coordinator.groups.streams.decide.group import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOT_VALIDATED,
    STATIC_LEAVING_EPOCH,
    Endpoint,
    StreamsGroup,
    StreamsGroupLimits,
    StreamsMember,
)
from kavka.coordinator.groups.streams.decide.records import (
    Epoch,
    Target,
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    target_member_record,
    target_record,
    topology_record,
)
from kavka.coordinator.groups.streams.decide.sticky_assignor import Runner, TaskCount, assign_sticky
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, TaskIds, Tasks
from kavka.coordinator.groups.streams.decide.topology import (
    Configured,
    InternalTopic,
    Status,
    StatusCode,
    Topology,
    check_topology,
    configure,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError

STANDBYS: Final = "num.standby.replicas"
"""Under which name the log has the setting of assignments."""


class StreamsHeartbeat(NamedTuple):
    """What a member says. None, or -1 for the time-out: nothing new. `active`, `standby`, `warmup`: what it has."""

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: Topology | None
    active: TaskIds | None
    standby: TaskIds | None
    warmup: TaskIds | None
    process_id: str | None
    endpoint: Endpoint | None
    tags: tuple[tuple[str, str], ...] | None
    has_offsets: bool
    has_end_offsets: bool
    wants_shutdown: bool
    client_id: str
    client_host: str

    @property
    def owned(self) -> Tasks | None:
        """What it has, None if it does not say."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return Tasks(self.active, self.standby, self.warmup)


class StreamsNow(NamedTuple):
    """What holds at the moment of a decision. `now_ms` is the monotonic clock."""

    wall_ms: int
    now_ms: int
    topics: Topics
    limits: StreamsGroupLimits


class StreamsAnswer(NamedTuple):
    """`tasks` is None if the member knows them already, `endpoints` where it knows those."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    statuses: Sequence[Status] = ()
    tasks: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: Sequence[EndpointPartitions] | None = None
    missing: Mapping[str, InternalTopic] = {}


class Decision(NamedTuple):
    """`member` is the member as it is to be. The rest is what the group has besides its records: the topology as
    topics allow it, until when the first assignment waits, and the endpoints' epoch."""

    records: Sequence[CoordinatorRecord]
    answer: StreamsAnswer
    member: StreamsMember
    configured: Configured
    delayed_until_ms: int | None
    endpoint_epoch: int


# -- whether a request can be meant


def check_request(request: StreamsHeartbeat) -> None:
    """Raises `RequestError`: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    epoch = request.member_epoch
    _require(request.instance_id is None, "Static membership is not yet supported.")
    _require(not request.has_offsets, "TaskOffsets are not supported yet.")
    _require(not request.has_end_offsets, "TaskEndOffsets are not supported yet.")
    _require(not request.warmup, "WarmupTasks are not supported yet.")
    parts = () if request.topology is None else request.topology.subtopologies.values()
    _require(
        not any(part.source_topic_regex for part in parts),
        "Regular expressions for source topics are not supported yet.",
    )
    _require(bool(request.member_id.strip()), "MemberId can't be empty.")
    _require(bool(request.group_id.strip()), "GroupId can't be empty.")
    _require(request.rack_id is None or bool(request.rack_id.strip()), "RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        for owned, what in ((request.active, "Active"), (request.standby, "Standby"), (request.warmup, "Warmup")):
            _require(owned is not None and not owned, f"{what}Tasks must be empty when (re-)joining.")
        if request.topology is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Topology must be non-null when (re-)joining.")
        check_topology(request.topology)
    else:
        _require(epoch != STATIC_LEAVING_EPOCH, "InstanceId can't be null.")
        _require(epoch >= LEAVING_EPOCH, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    says_nothing = request.active is None and request.standby is None and request.warmup is None
    _require(says_nothing or request.owned is not None, "If one task-type is non-null, all must be non-null.")
    if epoch != JOINING_EPOCH:
        _require(request.topology is None, "Topology can only be provided when (re-)joining.")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RequestError(ErrorCode.INVALID_REQUEST, otherwise)


# -- staying and joining


def decide_heartbeat(group: StreamsGroup, request: StreamsHeartbeat, now: StreamsNow) -> Decision:
    """A member joins or stays. Raises `RequestError`."""
    is_joining = request.member_epoch == JOINING_EPOCH
    before = _known_member(group, request, now.limits)
    updated = _with_news(before, request)
    records: list[CoordinatorRecord] = []
    is_new = before.member_id not in group.members
    if is_new or updated != before:
        records.append(member_record(group.group_id, updated))
    topology = _topology(group, request, records)
    statuses = _stale(updated, topology)
    configured, epoch = _raised(group, topology, now, bumps=is_new or updated != before)
    owned = request.owned
    if configured.subtopologies is not None and configured.is_ready and owned is not None:
        _check_tasks(configured, owned)
    if epoch.epoch != group.epoch:
        records.append(epoch_record(group.group_id, epoch))
    delayed_until_ms = group.delayed_until_ms
    if not group.members and now.limits.initial_delay_ms > 0 and delayed_until_ms is None:
        delayed_until_ms = now.now_ms + now.limits.initial_delay_ms
    target_epoch, target = group.assignment_epoch, group.target_of(updated.member_id)
    if delayed_until_ms is not None:
        statuses.append(_delayed("initial rebalance delay"))
        target = NOTHING
    elif epoch.epoch > target_epoch:
        if _is_time_to_assign(group, now):
            target_epoch = epoch.epoch
            targets = assign(group, _members_with(group, updated), configured, now.limits)
            target = targets[updated.member_id]
            records.extend(target_records(group, targets, Target(target_epoch, now.wall_ms)))
        else:
            statuses.append(_delayed("assignment interval"))
    after = reconcile(updated, target_epoch=target_epoch, target=target, owners=group, owned=owned)
    if after != updated or is_new:
        records.append(current_record(group.group_id, after))
    is_changed = is_joining or after.assigned != before.assigned
    endpoint_epoch = group.endpoint_epoch + (1 if is_changed and after.endpoint is not None else 0)
    is_new_group = group.topology is None
    if configured.status is not None:
        statuses.append(configured.status)
    statuses.extend(_shutdown(group, request))
    is_told = is_changed or request.member_epoch != before.epoch or after.member_id in group.untold
    answer = StreamsAnswer(
        after.member_id,
        after.epoch,
        now.limits.heartbeat_interval_ms,
        statuses,
        after.assigned if is_told else None,
        # That of a group which is being made stays 0, as in Kafka: its first member is told its endpoint, and again.
        0 if is_new_group else endpoint_epoch,
        None
        if endpoint_epoch == request.endpoint_epoch
        else endpoints_of(_members_with(group, after).values(), configured.subtopologies, now.topics),
        configured.missing,
    )
    return Decision(records, answer, after, configured, delayed_until_ms, 0 if is_new_group else endpoint_epoch)


def _members_with(group: StreamsGroup, member: StreamsMember) -> dict[str, StreamsMember]:
    """The members as they are to be. Most heartbeats need no other member than their own."""
    return {**group.members, member.member_id: member}


def _known_member(group: StreamsGroup, request: StreamsHeartbeat, limits: StreamsGroupLimits) -> StreamsMember:
    """The member that a request is of; a new one where it joins. Raises `RequestError`."""
    member = group.members.get(request.member_id)
    if request.member_epoch == JOINING_EPOCH:
        if member is None and len(group.members) >= limits.max_size:
            raise RequestError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {limits.max_size} members.",
            )
        return StreamsMember(request.member_id) if member is None else member
    member = group.require_member(request.member_id)
    _check_epoch(member, request)
    return member


def _check_epoch(member: StreamsMember, request: StreamsHeartbeat) -> None:
    received = request.member_epoch
    if received == member.epoch:
        return
    if received < member.epoch and received == member.previous_epoch:
        owned = request.owned
        if owned is not None and member.assigned.has_all(owned):
            return
    relation = "greater" if received > member.epoch else "smaller"
    raise RequestError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {relation} member epoch ({received}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _with_news(member: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    timeout_ms, topology = request.rebalance_timeout_ms, request.topology
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if request.endpoint is None else request.endpoint,
        tags=member.tags if request.tags is None else request.tags,
    )


def _topology(group: StreamsGroup, request: StreamsHeartbeat, records: list[CoordinatorRecord]) -> Topology:
    """The group's topology; that of its first member. Raises `RequestError` (INVALID_REQUEST) for another one."""
    known, told = group.topology, request.topology
    if told is None:
        if known is None:
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The log of group {group.group_id} has no topology.")
        return known
    if known is None:
        records.append(topology_record(group.group_id, told))
        return told
    if known.epoch <= told.epoch and known != told:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _raised(group: StreamsGroup, topology: Topology, now: StreamsNow, *, bumps: bool) -> tuple[Configured, Epoch]:
    """The topology as topics allow it now, and the group's epoch with what it is for."""
    configured, hashed = group.configured, group.metadata_hash
    if configured is None or group.checked_version != now.topics.version or group.topology is None:
        hashed = metadata_hash(topology.required_topics(), now.topics)
        if configured is None or hashed != group.metadata_hash or group.topology is None:
            configured = configure(topology, now.topics)
    validated_epoch = topology.epoch if configured.is_ready else NOT_VALIDATED
    configs = {STANDBYS: str(now.limits.standby_replicas)}
    raises = (
        bumps
        or hashed != group.metadata_hash
        or validated_epoch != group.validated_epoch
        or configs != dict(group.configs)
    )
    return configured, Epoch(group.epoch + (1 if raises else 0), hashed, validated_epoch, configs)


def _check_tasks(configured: Configured, owned: Tasks) -> None:
    """Raises `RequestError` (INVALID_REQUEST) for tasks that the application does not have."""
    parts = configured.subtopologies or {}
    for ids in owned:
        for subtopology, partitions in ids.items():
            part = parts.get(subtopology)
            if part is None:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST, f"Subtopology {subtopology} does not exist in the topology."
                )
            for partition in sorted(partitions):
                if not 0 <= partition < part.task_count:
                    raise RequestError(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {partition} for subtopology {subtopology} is invalid. Number of tasks for this "
                        f"subtopology: {part.task_count}",
                    )


def _stale(member: StreamsMember, topology: Topology) -> list[Status]:
    if member.topology_epoch >= topology.epoch:
        return []
    detail = (
        f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
    )
    return [Status(StatusCode.STALE_TOPOLOGY, detail)]


def _shutdown(group: StreamsGroup, request: StreamsHeartbeat) -> list[Status]:
    """Whether some member, or this one now, wants the whole application to stop."""
    asked_by = group.shutdown_asked_by or (request.member_id if request.wants_shutdown else None)
    if asked_by is None:
        return []
    detail = f"Streams group member {asked_by} encountered a fatal error and requested a shutdown for the entire "
    return [Status(StatusCode.SHUTDOWN_APPLICATION, f"{detail}application.")]


def _delayed(by: str) -> Status:
    return Status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {by}.")


# -- assignments


def _is_time_to_assign(group: StreamsGroup, now: StreamsNow) -> bool:
    """Whether the last assignment is old enough for another. One that comes from a clock ahead of this one is."""
    if group.assignment_timestamp_ms == 0:
        return True
    return not 0 <= now.wall_ms - group.assignment_timestamp_ms < now.limits.assignment_interval_ms


def assign(
    group: StreamsGroup, members: Mapping[str, StreamsMember], configured: Configured, limits: StreamsGroupLimits
) -> dict[str, Tasks]:
    """Member id to its tasks. Empty while the topology is not ready (I5)."""
    if configured.subtopologies is None or not configured.is_ready:
        return dict.fromkeys(members, NOTHING)
    runners = [
        Runner(member_id, members[member_id].process_id, group.target_of(member_id)) for member_id in sorted(members)
    ]
    counts = {
        name: TaskCount(part.task_count, is_stateful=bool(part.changelogs))
        for name, part in configured.subtopologies.items()
    }
    return assign_sticky(runners, counts, standby_replicas=limits.standby_replicas)


def target_records(group: StreamsGroup, targets: Mapping[str, Tasks], target: Target) -> list[CoordinatorRecord]:
    """The records of a new target; of members whose part is another than before."""
    changed = [
        target_member_record(group.group_id, member_id, tasks)
        for member_id, tasks in targets.items()
        if group.target.get(member_id) != tasks
    ]
    return [*changed, target_record(group.group_id, target)]


def decide_delayed(group: StreamsGroup, now: StreamsNow) -> tuple[list[CoordinatorRecord], Configured | None]:
    """The first assignment has waited long enough: its records, and the topology as topics allow it now.

    Apache Kafka assigns by the topology as it was when the last member was heard of. Here internal topics that are
    there by now count, so that members do not wait for another round.
    """
    topology = group.topology
    if not group.members or topology is None:
        return [], None
    configured, epoch = _raised(group, topology, now, bumps=False)
    records: list[CoordinatorRecord] = []
    if epoch.epoch != group.epoch:
        records.append(epoch_record(group.group_id, epoch))
    if epoch.epoch > group.assignment_epoch:
        targets = assign(group, group.members, configured, now.limits)
        records.extend(target_records(group, targets, Target(epoch.epoch, now.wall_ms)))
    return records, configured


# -- leaving


def decide_leave(group: StreamsGroup, member_ids: Sequence[str]) -> list[CoordinatorRecord]:
    """The records that take members out, and raise the group's epoch, so that others get their tasks."""
    epoch = Epoch(group.epoch + 1, group.metadata_hash, group.validated_epoch, group.configs)
    return [
        *(record for member_id in member_ids for record in member_tombstones(group.group_id, member_id)),
        epoch_record(group.group_id, epoch),
    ]
