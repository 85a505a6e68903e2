"""The result of a ConsumerGroupHeartbeat: the records to write and the member's answer.

Decides who may join, which epoch a request must have, when the group's epoch rises, when the target assignment is
computed again, and what a member's next step is. Changes nothing: replaying the records does. Must not know the log,
futures, clocks.

    I1  a request that is refused writes nothing
    I2  a member gets an assignment only together with records of it (the caller answers when they are committed)
    I3  what a member may not know is in the next answer, even if it does not ask: a write of unknown outcome counts
        although its answer was a failure, and a new coordinator cannot know which answers arrived
    I4  a member that no longer reads a topic gives its partitions back with the answer, however long the next
        assignment takes: otherwise it would still read what its application has just given up
    I5  a member that leaves or is removed raises the group's epoch, so that others get its partitions

    member epoch  what it asks
    0             to join, or to join again without any partition
    > 0           to stay, in this epoch
    -1            to leave
    -2            a static member: to leave, and to come back under its instance id

A request with the member's previous epoch counts like one with its current epoch, if the member owns no more than it
was given: the answer with the new epoch may have been lost.

Source: KIP-848, KIP-1082; Kafka's GroupMetadataManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kavka.coordinator.groups.consumer.decide.assignors import preferred_assignor
from kavka.coordinator.groups.consumer.decide.current_assignment import reconcile
from kavka.coordinator.groups.consumer.decide.group import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOTHING,
    STATIC_LEAVING_EPOCH,
    Assignment,
    ConsumerGroup,
    ConsumerGroupLimits,
    ConsumerMember,
    ResolvedRegex,
)
from kavka.coordinator.groups.consumer.decide.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    regex_record,
    target_member_record,
    target_record,
)
from kavka.coordinator.groups.consumer.decide.target_assignment import (
    ASSIGNORS,
    Reader,
    Topics,
    compute_target,
    metadata_hash,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError

FIRST_VERSION_WITH_MEMBER_IDS_OF_CLIENTS = 1
FIRST_EPOCH = 1
"""That of a group whose first member reads nothing; as in Kafka, a subscription raises it."""


class ConsumerHeartbeat(NamedTuple):
    """What a member says. None, or -1 for the time-out: nothing new."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topics: Sequence[str] | None
    topic_regex: str | None
    assignor: str | None
    owned: Assignment | None
    client_id: str
    client_host: str
    version: int = 1

    @property
    def is_full(self) -> bool:
        """True if the request has all of the member's fields: then the answer must have the assignment."""
        return self.member_epoch == JOINING_EPOCH or (
            self.rebalance_timeout_ms != -1
            and (self.topics is not None or self.topic_regex is not None)
            and self.owned is not None
        )


class Now(NamedTuple):
    """What holds at the moment of a decision. `resolved` has what regular expressions were matched to just now."""

    wall_ms: int
    topics: Topics
    limits: ConsumerGroupLimits
    resolved: Mapping[str, ResolvedRegex]


class HeartbeatAnswer(NamedTuple):
    """`assignment` is None if the member knows it already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None = None


class Decision(NamedTuple):
    """`member` is the member as it is to be, None if it goes."""

    records: Sequence[CoordinatorRecord]
    answer: HeartbeatAnswer
    member: ConsumerMember | None


# -- whether a request can be meant


def check_request(request: ConsumerHeartbeat, limits: ConsumerGroupLimits) -> None:
    """Raises `RequestError`: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    _require(bool(request.group_id), "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    epoch = request.member_epoch
    if request.version >= FIRST_VERSION_WITH_MEMBER_IDS_OF_CLIENTS or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
        _require(bool(request.member_id), "MemberId can't be empty.")
    if epoch == JOINING_EPOCH:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        _require(request.owned is not None and not request.owned, "TopicPartitions must be empty when (re-)joining.")
        _require(
            request.topics is not None or request.topic_regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif epoch == STATIC_LEAVING_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(epoch >= LEAVING_EPOCH, "MemberEpoch is invalid.")
    if request.assignor is not None and request.assignor not in limits.assignors:
        raise RequestError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(limits.assignors)}.",
        )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RequestError(ErrorCode.INVALID_REQUEST, otherwise)


# -- staying and joining


def decide_heartbeat(group: ConsumerGroup, request: ConsumerHeartbeat, member_id: str, now: Now) -> Decision:
    """A member joins or stays; `member_id` is its id, or the one that it gets. Raises `RequestError`."""
    check_not_full(group, member_id, request.instance_id, now.limits)
    records: list[CoordinatorRecord] = []
    before = _known_member(group, request, member_id, records)
    updated = _with_news(before, request)
    after = advance(group, before, updated, owned=request.owned, now=now, records=records)
    is_told = request.is_full or after.assigned != before.assigned or after.member_id in group.untold
    told = after.assigned if is_told else None
    answer = HeartbeatAnswer(after.member_id, after.epoch, now.limits.heartbeat_interval_ms, told)
    return Decision(records, answer, after)


def check_not_full(group: ConsumerGroup, member_id: str, instance_id: str | None, limits: ConsumerGroupLimits) -> None:
    """Raises `RequestError` (GROUP_MAX_SIZE_REACHED) for who would be one too many."""
    if len(group.members) < limits.max_size or member_id in group.members:
        return
    if group.static_member(instance_id) is None:
        raise RequestError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limits.max_size} members.",
        )


def _known_member(
    group: ConsumerGroup, request: ConsumerHeartbeat, member_id: str, records: list[CoordinatorRecord]
) -> ConsumerMember:
    """The member that a request is of; a new one where it joins. Raises `RequestError`."""
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is None and joins:
            return ConsumerMember(member_id)
        member = group.require_member(member_id)
        _check_epoch(member, request)
        return member
    static = group.static_member(request.instance_id)
    if not joins:
        static = require_static(static, member_id, request.instance_id)
        _check_epoch(static, request)
        return static
    if static is None:
        return group.members.get(member_id, ConsumerMember(member_id))
    if static.classic is None and static.epoch != STATIC_LEAVING_EPOCH:
        raise RequestError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
            f"instance id is owned by {static.member_id} member.",
        )
    successor = replace(static, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    replace_member(group, static, successor, records)
    return successor


def require_static(static: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """The static member, if it is this one. Raises `RequestError`: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if static is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        raise RequestError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}.",
        )
    return static


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    received = request.member_epoch
    if received in (member.epoch, JOINING_EPOCH):
        return  # A member that joins again owns nothing, and gets its assignment again.
    if received < member.epoch and received == member.previous_epoch and _owns_no_more(request.owned, member.assigned):
        return
    relation = "greater" if received > member.epoch else "smaller"
    raise RequestError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({received}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _owns_no_more(owned: Assignment | None, assigned: Assignment) -> bool:
    if owned is None:
        return False
    return all(partitions <= assigned.get(topic_id, frozenset()) for topic_id, partitions in owned.items())


def _with_news(member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=member.topics if request.topics is None else frozenset(request.topics),
        topic_regex=member.topic_regex if request.topic_regex is None else request.topic_regex,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.assignor is None else request.assignor,
        classic=None,
    )


def replace_member(
    group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, records: list[CoordinatorRecord]
) -> None:
    """A static member's place goes to `new`, with its part of the target and what it had."""
    records.extend(member_tombstones(group.group_id, [old.member_id]))
    records.append(member_record(group.group_id, new))
    records.append(target_member_record(group.group_id, new.member_id, group.target.get(old.member_id, NOTHING)))
    records.append(current_record(group.group_id, new))


# -- what follows


def advance(
    group: ConsumerGroup,
    before: ConsumerMember,
    updated: ConsumerMember,
    *,
    owned: Assignment | None,
    now: Now,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    """Adds the records of what follows when `before` becomes `updated`. Returns the member after its next step."""
    group_id = group.group_id
    is_new = before.member_id not in group.members
    if is_new or updated != before:
        records.append(member_record(group_id, updated))
    elif _is_at_rest(group, now):
        return _next_step(group, updated, owned, records)
    members = members_with(group, updated)
    regexes = _regexes(group, members, now, records)
    read = {member.member_id: _topics_of(member, regexes) for member in members.values()}
    epoch = max(group.epoch, FIRST_EPOCH)
    hashed = group.metadata_hash
    bumps = is_new_subscription(before, updated) or any(
        group.regexes.get(regex) is None or group.regexes[regex].topics != resolved.topics
        for regex, resolved in regexes.items()
    )
    if bumps or group.checked_version != now.topics.version:
        hashed = metadata_hash((name for names in read.values() for name in names), now.topics)
    if bumps or hashed != group.metadata_hash:
        epoch += 1
    if epoch != group.epoch:
        if group.has_partition_metadata:
            records.append(partition_metadata_tombstone(group_id))
        records.append(epoch_record(group_id, epoch, hashed))
    target_epoch = group.assignment_epoch
    target = group.target_of(updated.member_id, updated.instance_id)
    if epoch > target_epoch and is_time_to_assign(group, now):
        target_epoch = epoch
        targets, changes = _assign(group, members, read, epoch, now)
        target = targets[updated.member_id]
        records.extend(changes)
    reads = read[updated.member_id]
    reads_otherwise = not is_new and reads != group.topics_of(before)
    if updated.is_reconciled_to(target_epoch) and not reads_otherwise:
        return updated

    def is_read(topic_id: uuid.UUID) -> bool:
        name = now.topics.name(topic_id)
        return name is None or name in reads

    after = reconcile(
        updated,
        target_epoch=target_epoch,
        target=target,
        owner_epoch=group.owner_epoch,
        owned=owned,
        is_read=is_read if reads_otherwise or epoch > target_epoch else None,
    )
    if after != updated or is_new:
        records.append(current_record(group_id, after))
    return after


def _is_at_rest(group: ConsumerGroup, now: Now) -> bool:
    """Whether nothing can follow for the group from a heartbeat that says nothing new: its subscriptions and topics are
    those that were looked at before, and have their target. Most heartbeats come then, and look at no other member."""
    return (
        group.checked_version == now.topics.version
        and not now.resolved
        and FIRST_EPOCH <= group.epoch <= group.assignment_epoch
    )


def _next_step(
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: Assignment | None,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    """The member one step nearer to its part of the target that there is, with the record of it."""
    if member.is_reconciled_to(group.assignment_epoch):
        return member
    after = reconcile(
        member,
        target_epoch=group.assignment_epoch,
        target=group.target_of(member.member_id, member.instance_id),
        owner_epoch=group.owner_epoch,
        owned=owned,
        is_read=None,
    )
    if after != member:
        records.append(current_record(group.group_id, after))
    return after


def members_with(group: ConsumerGroup, updated: ConsumerMember) -> dict[str, ConsumerMember]:
    """The members as they are to be: whose instance id `updated` has is replaced by it."""
    replaced = group.static_member(updated.instance_id)
    members = {
        member_id: member
        for member_id, member in group.members.items()
        if replaced is None or member_id != replaced.member_id
    }
    members[updated.member_id] = updated
    return members


def is_new_subscription(before: ConsumerMember, updated: ConsumerMember) -> bool:
    """Whether the member reads something else than before."""
    return before.topics != updated.topics or before.topic_regex != updated.topic_regex


def is_time_to_assign(group: ConsumerGroup, now: Now) -> bool:
    """Whether the last target assignment is old enough for another: members that come at once are taken together."""
    interval_ms = now.limits.assignment_interval_ms
    return not 0 <= now.wall_ms - group.assignment_timestamp_ms < interval_ms


def _regexes(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], now: Now, records: list[CoordinatorRecord]
) -> dict[str, ResolvedRegex]:
    """The expressions in use and what they match, with records of what changed."""
    used = dict.fromkeys(member.topic_regex for member in members.values() if member.topic_regex)
    found: dict[str, ResolvedRegex] = {}
    for regex in used:
        resolved = now.resolved.get(regex) or group.regexes.get(regex)
        if resolved is None:
            continue
        found[regex] = resolved
        if resolved is not group.regexes.get(regex):
            records.append(regex_record(group.group_id, regex, resolved))
    records.extend(regex_record(group.group_id, regex, None) for regex in group.regexes if regex not in used)
    return found


def _topics_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    resolved = regexes.get(member.topic_regex) if member.topic_regex else None
    return member.topics if resolved is None else member.topics | resolved.topics


def _assign(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    read: Mapping[str, frozenset[str]],
    epoch: int,
    now: Now,
) -> tuple[Mapping[str, Assignment], list[CoordinatorRecord]]:
    """A new target assignment, by member id, and its records."""
    name = preferred_assignor((member.assignor for member in members.values()), now.limits.assignors)
    readers = [
        Reader(member, read[member.member_id], group.target_of(member.member_id, member.instance_id))
        for member in members.values()
    ]
    targets = compute_target(ASSIGNORS[name], readers, now.topics)
    records = []
    for member in members.values():
        assignment = targets[member.member_id]
        if group.target.get(member.member_id) != assignment:
            records.append(target_member_record(group.group_id, member.member_id, assignment))
    records.append(target_record(group.group_id, epoch, now.wall_ms))
    return targets, records


# -- leaving


def decide_leave(group: ConsumerGroup, request: ConsumerHeartbeat, now: Now) -> Decision:
    """A member leaves, for good (-1) or to come back under its instance id (-2). Raises `RequestError`."""
    if request.instance_id is None:
        member = group.require_member(request.member_id)
    else:
        member = require_static(group.static_member(request.instance_id), request.member_id, request.instance_id)
    answer = HeartbeatAnswer(member.member_id, request.member_epoch, 0)
    if request.member_epoch == STATIC_LEAVING_EPOCH:
        away = replace(member, epoch=STATIC_LEAVING_EPOCH, revoking=NOTHING)
        return Decision([current_record(group.group_id, away)], answer, away)
    return Decision(remove_members(group, [member.member_id], now), answer, None)


def remove_members(group: ConsumerGroup, member_ids: Sequence[str], now: Now) -> list[CoordinatorRecord]:
    """The records that take members out and raise the group's epoch (I5)."""
    records = member_tombstones(group.group_id, member_ids)
    gone = frozenset(member_ids)
    left = {member_id: member for member_id, member in group.members.items() if member_id not in gone}
    regexes = _regexes(group, left, now._replace(resolved={}), records)
    names = (name for member in left.values() for name in _topics_of(member, regexes))
    records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash(names, now.topics)))
    return records
