"""The result of a ShareGroupHeartbeat: the records to write, the member's answer, the states to make.

Decides who may join, when the group's epoch rises, when partitions are assigned anew, and which of them need a state
first. Changes nothing: replaying the records does. Must not know the log, futures, clocks.

    I1  a request that is refused writes nothing
    I2  a partition is assigned only once its state is there
    I3  a member gets its target at once, with the next answer: partitions are shared, so nobody gives one back first
    I4  a member is told of no topic that it has unsubscribed from, whatever the target says: it may be of before
    I5  what a member may not know is in the next answer: a write of unknown outcome counts although its answer was a
        failure, a new coordinator cannot know which answers arrived, and who comes with its former epoch has not heard
        of its present one. Apache Kafka leaves it out; its Java client names its topics after each failure, and who
        does so is told. Of other clients nobody reads the partition until something else changes

    member epoch  what it asks
    0             to join, or to join again
    > 0           to stay, in this epoch
    -1            to leave

Source: KIP-932; Kafka's GroupMetadataManager.shareGroupHeartbeat.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kavka.coordinator.groups.consumer.decide.group import Assignment
from kavka.coordinator.groups.consumer.decide.target_assignment import Topics, metadata_hash
from kavka.coordinator.groups.share.decide.group import (
    NamedPartitions,
    ShareGroup,
    ShareGroupLimits,
    ShareMember,
    StatePartitions,
    together,
    without,
)
from kavka.coordinator.groups.share.decide.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    states_record,
    target_member_record,
    target_record,
)
from kavka.coordinator.groups.share.decide.simple_assignor import assign_simple
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError

LEAVING_EPOCH: Final = -1
JOINING_EPOCH: Final = 0


class ShareHeartbeat(NamedTuple):
    """What a member says; None: nothing new."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    topics: Sequence[str] | None
    client_id: str
    client_host: str


class ShareNow(NamedTuple):
    """What holds at the moment of a decision; `now_ms` is the monotonic clock. `making`: states that are being made."""

    wall_ms: int
    now_ms: int
    topics: Topics
    limits: ShareGroupLimits
    making: Mapping[uuid.UUID, NamedPartitions] = {}


class ShareAnswer(NamedTuple):
    """`assignment` is None if the member knows it already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None = None


class ShareDecision(NamedTuple):
    """`to_initialize` are partitions that need a state, of the group in `epoch`. `is_at_rest`: nothing follows from the
    next heartbeat that says nothing new, until the group's records or the topics change."""

    records: Sequence[CoordinatorRecord]
    answer: ShareAnswer
    epoch: int
    to_initialize: Mapping[uuid.UUID, NamedPartitions]
    is_at_rest: bool


def check_request(request: ShareHeartbeat) -> None:
    """Raises `RequestError` (INVALID_REQUEST)."""
    for holds, otherwise in (
        (bool(request.member_id.strip()), "MemberId can't be empty."),
        (bool(request.group_id.strip()), "GroupId can't be empty."),
        (request.rack_id is None or bool(request.rack_id.strip()), "RackId can't be empty."),
        (request.member_epoch >= LEAVING_EPOCH, "MemberEpoch is invalid."),
        (
            request.member_epoch != JOINING_EPOCH or bool(request.topics),
            "SubscribedTopicNames must be set in first request.",
        ),
    ):
        if not holds:
            raise RequestError(ErrorCode.INVALID_REQUEST, otherwise)


def decide_heartbeat(group: ShareGroup, request: ShareHeartbeat, now: ShareNow) -> ShareDecision:
    """A member joins or stays. Raises `RequestError`."""
    before = _known_member(group, request, now.limits)
    updated = replace(
        before,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=before.topics if request.topics is None else frozenset(request.topics),
    )
    is_new = before.member_id not in group.members
    records: list[CoordinatorRecord] = []
    if is_new or updated != before:
        records.append(member_record(group.group_id, updated))
    elif group.rest_version == now.topics.version:
        # Nothing can follow for the group: most heartbeats come then, and look at no other member.
        target = _read_by(updated, group.target_of(updated.member_id), now.topics)
        after = _with_target(group, updated, group.assignment_epoch, target, records)
        return ShareDecision(records, _answer(group, request, after, now), group.epoch, {}, is_at_rest=not records)
    members = {**group.members, updated.member_id: updated}
    read = {name for member in members.values() for name in member.topics}
    epoch, hashed = group.epoch, group.metadata_hash
    bumps = is_new or updated.topics != before.topics
    if group.assignment_epoch >= epoch and not bumps:
        bumps = _lacks_partitions(group, read)
    if bumps or group.checked_version != now.topics.version:
        hashed = metadata_hash(read, now.topics)
    if bumps or hashed != group.metadata_hash:
        epoch += 1
        records.append(epoch_record(group.group_id, epoch, hashed))
    target_epoch, target = group.assignment_epoch, group.target_of(updated.member_id)
    if epoch > target_epoch and (is_new or _is_time_to_assign(group, now)):
        target_epoch = epoch
        targets = _assign(group, members, now)
        target = targets[updated.member_id]
        records.extend(_target_records(group, targets, epoch, now))
    after = _with_target(group, updated, target_epoch, _read_by(updated, target, now.topics), records)
    missing = _without_state(group, read, now)
    to_initialize = _not_asked_for(group, missing, now)
    if to_initialize:
        records.append(_asking(group, to_initialize))
    is_at_rest = not records and not missing and epoch == target_epoch
    return ShareDecision(records, _answer(group, request, after, now), epoch, to_initialize, is_at_rest)


def _with_target(
    group: ShareGroup, member: ShareMember, target_epoch: int, target: Assignment, records: list[CoordinatorRecord]
) -> ShareMember:
    """The member with its part of the target, and the record of it (I3)."""
    if member.epoch == target_epoch and member.assigned == target:
        return member
    after = replace(member, epoch=target_epoch, previous_epoch=member.epoch, assigned=target)
    records.append(current_record(group.group_id, after))
    return after


def _read_by(member: ShareMember, target: Assignment, topics: Topics) -> Assignment:
    """What of it the member reads (I4). A topic that is not known here, or not yet, stays until the next target."""
    names = {topic_id: topics.name(topic_id) for topic_id in target}
    if all(name is None or name in member.topics for name in names.values()):
        return target
    return {
        topic_id: partitions
        for topic_id, partitions in target.items()
        if (name := names[topic_id]) is None or name in member.topics
    }


def _answer(group: ShareGroup, request: ShareHeartbeat, after: ShareMember, now: ShareNow) -> ShareAnswer:
    before = group.members.get(after.member_id)
    is_told = (
        before is None
        or request.member_epoch != before.epoch  # Also who joins again: its epoch is 0.
        or request.topics is not None
        or after.assigned != before.assigned
        or after.member_id in group.untold
    )
    return ShareAnswer(
        after.member_id, after.epoch, now.limits.heartbeat_interval_ms, after.assigned if is_told else None
    )


def _known_member(group: ShareGroup, request: ShareHeartbeat, limits: ShareGroupLimits) -> ShareMember:
    member = group.members.get(request.member_id)
    if member is None and len(group.members) >= limits.max_size:
        raise RequestError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {limits.max_size} members.",
        )
    if member is None and request.member_epoch == JOINING_EPOCH:
        return ShareMember(request.member_id)
    member = group.require_member(request.member_id)
    received = request.member_epoch
    if received in (JOINING_EPOCH, member.epoch, min(member.previous_epoch, member.epoch)):
        return member
    relation = "greater" if received > member.epoch else "smaller"
    raise RequestError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {relation} member epoch ({received}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _lacks_partitions(group: ShareGroup, read: set[str]) -> bool:
    """Whether a partition that has a state is assigned to no member."""
    assigned: dict[uuid.UUID, frozenset[int]] = {}
    for part in group.target.values():
        for topic_id, partitions in part.items():
            assigned[topic_id] = assigned.get(topic_id, frozenset()) | partitions
    return any(
        named.name in read and assigned.get(topic_id, frozenset()) != named.partitions
        for topic_id, named in group.states.initialized.items()
    )


def _is_time_to_assign(group: ShareGroup, now: ShareNow) -> bool:
    """Whether the last assignment is old enough for another one. An empty assignment always is."""
    if not any(part for part in group.target.values()):
        return True
    return not 0 <= now.wall_ms - group.assignment_timestamp_ms < now.limits.assignment_interval_ms


def _assign(group: ShareGroup, members: Mapping[str, ShareMember], now: ShareNow) -> dict[str, Assignment]:
    subscriptions: dict[str, frozenset[uuid.UUID]] = {}
    assignable: dict[uuid.UUID, frozenset[int]] = {}
    for member in members.values():
        known = (now.topics.topic(name) for name in member.topics)
        subscriptions[member.member_id] = frozenset(topic.topic_id for topic in known if topic is not None)
    for name in {name for member in members.values() for name in member.topics}:
        topic = now.topics.topic(name)
        if topic is not None and topic.topic_id in group.states.initialized:
            has_state = group.states.initialized[topic.topic_id].partitions
            assignable[topic.topic_id] = frozenset(index for index in has_state if index < topic.partition_count)
    return assign_simple(subscriptions, assignable, group.target)


def _target_records(
    group: ShareGroup, targets: Mapping[str, Assignment], epoch: int, now: ShareNow
) -> list[CoordinatorRecord]:
    records = [
        target_member_record(group.group_id, member_id, part)
        for member_id, part in targets.items()
        if group.target.get(member_id) != part
    ]
    return [*records, target_record(group.group_id, epoch, now.wall_ms)]


def _without_state(group: ShareGroup, read: set[str], now: ShareNow) -> dict[uuid.UUID, NamedPartitions]:
    """What is read and has no state."""
    wanted: dict[uuid.UUID, NamedPartitions] = {}
    for name in sorted(read):
        topic = now.topics.topic(name)
        if topic is not None:
            wanted[topic.topic_id] = NamedPartitions(name, frozenset(range(topic.partition_count)))
    return without(wanted, {topic_id: named.partitions for topic_id, named in group.states.initialized.items()})


def _not_asked_for(
    group: ShareGroup, missing: Mapping[uuid.UUID, NamedPartitions], now: ShareNow
) -> Mapping[uuid.UUID, NamedPartitions]:
    """What of it was not asked for just now, and is not being made."""
    missing = without(missing, {topic_id: named.partitions for topic_id, named in now.making.items()})
    is_asked = group.asks_again_ms is not None and now.now_ms < group.asks_again_ms
    if not is_asked:
        return missing
    return without(missing, {topic_id: named.partitions for topic_id, named in group.states.initializing.items()})


def _asking(group: ShareGroup, to_initialize: Mapping[uuid.UUID, NamedPartitions]) -> CoordinatorRecord:
    """The record that states of these are being made."""
    states = group.states
    return states_record(
        group.group_id,
        states._replace(
            initializing=together(states.initializing, to_initialize),
            deleting={key: name for key, name in states.deleting.items() if key not in to_initialize},
        ),
    )


def initialized(group: ShareGroup, done: Mapping[uuid.UUID, frozenset[int]]) -> StatePartitions:
    """The states as they are once those of `done` exist."""
    states = group.states
    found = {
        topic_id: NamedPartitions(states.initializing[topic_id].name, partitions)
        for topic_id, partitions in done.items()
        if topic_id in states.initializing
    }
    return states._replace(
        initializing=without(states.initializing, done), initialized=together(states.initialized, found)
    )


def decide_leave(group: ShareGroup, member_ids: Sequence[str], now: ShareNow) -> list[CoordinatorRecord]:
    """The records that take members out, and raise the group's epoch, so that others get their partitions."""
    left = (member for member_id, member in group.members.items() if member_id not in member_ids)
    names = [name for member in left for name in member.topics]
    return [
        *member_tombstones(group.group_id, member_ids),
        epoch_record(group.group_id, group.epoch + 1, metadata_hash(names, now.topics)),
    ]
