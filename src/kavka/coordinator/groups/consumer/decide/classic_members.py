"""Members of a consumer group that speak the classic protocol: the results of their joins, syncs and heartbeats.

While a group's clients move from one protocol to the other, both kinds are in one group. For a classic member the
generation is its member epoch. REBALANCE_IN_PROGRESS makes it join again where another member would get a new
assignment, JoinGroup takes the member's next step, and SyncGroup returns its assignment. No member leads: the broker
assigns.

Decides their answers and records. Must not know the log, futures, clocks.

    I1  a member has its rebalance time-out to join again, or to fetch its assignment

Source: KIP-848 (online migration); Kafka's GroupMetadataManager.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kavka.coordinator.groups.classic.decide.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    decode_subscription,
    encode_assignment,
    subscription_version,
)
from kavka.coordinator.groups.classic.decide.membership import (
    JoinAnswer,
    JoinProtocol,
    JoinRequest,
    Leaver,
    SyncAnswer,
    SyncRequest,
)
from kavka.coordinator.groups.consumer.decide.group import (
    JOINING_EPOCH,
    Assignment,
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from kavka.coordinator.groups.consumer.decide.heartbeat import (
    Now,
    advance,
    check_not_full,
    replace_member,
    require_static,
)
from kavka.coordinator.groups.consumer.decide.target_assignment import Topics
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, ProtocolViolation, RequestError


class ClassicJoin(NamedTuple):
    """`member` is the member as it is to be, None where it must first join with the id that it got; `replaced` the
    static member whose place it takes, which is itself where it comes back with the id that it had."""

    records: Sequence[CoordinatorRecord]
    answer: JoinAnswer
    member: ConsumerMember | None
    replaced: ConsumerMember | None = None


def decide_classic_join(group: ConsumerGroup, request: JoinRequest, new_member_id: str, now: Now) -> ClassicJoin:
    """A member that speaks the classic protocol joins, or joins again. Raises `RequestError`.

    Apache Kafka answers UNKNOWN_SERVER_ERROR to a subscription that it cannot read; both end the consumer, and
    INCONSISTENT_GROUP_PROTOCOL says what is wrong.
    """
    if not now.limits.migration_allowed:
        raise RequestError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration is "
            "disabled.",
        )
    member_id = request.member_id or new_member_id
    check_not_full(group, member_id, request.group_instance_id, now.limits)
    if not _supports(group, request):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.member_id and request.require_known_member_id:
        return ClassicJoin((), JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id), None)
    try:
        subscription = decode_subscription(request.protocols[0].metadata)
    except ProtocolViolation as garbage:
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(garbage)) from garbage
    records: list[CoordinatorRecord] = []
    before, replaced = _member(group, request, member_id, records)
    updated = replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack or before.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=frozenset(subscription.topics),
        topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicMetadata(request.session_timeout_ms, tuple(request.protocols)),
    )
    owned = owned_partitions(subscription, now.topics)
    after = advance(group, before, updated, owned=owned, now=now, records=records)
    answer = JoinAnswer(ErrorCode.NONE, after.member_id, after.epoch, CONSUMER_PROTOCOL_TYPE, request.protocols[0].name)
    return ClassicJoin(records, answer, after, replaced)


def _supports(group: ConsumerGroup, request: JoinRequest) -> bool:
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        return False
    others = [member for member in group.classic_members() if member.member_id != request.member_id]
    counts = Counter(
        name for member in others if member.classic for name in {one.name for one in member.classic.protocols}
    )
    return any(counts[protocol.name] == len(others) for protocol in request.protocols)


def _member(
    group: ConsumerGroup, request: JoinRequest, member_id: str, records: list[CoordinatorRecord]
) -> tuple[ConsumerMember, ConsumerMember | None]:
    if request.group_instance_id is None:
        return group.members.get(member_id, ConsumerMember(member_id)), None
    static = group.static_member(request.group_instance_id)
    if request.member_id:
        known = require_static(static, request.member_id, request.group_instance_id)
        return known, known
    if static is None:
        return ConsumerMember(member_id), None
    successor = replace(static, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    replace_member(group, static, successor, records)
    return successor, static


def owned_partitions(subscription: Subscription, topics: Topics) -> Assignment:
    """What a subscription says its member has, of the topics that exist."""
    return by_topic_id(subscription.owned, topics)


def by_topic_id(partitions: Mapping[str, Sequence[int]], topics: Topics) -> Assignment:
    """Partitions under their topics' ids; topics that are gone are left out."""
    found: dict[uuid.UUID, frozenset[int]] = {}
    for name, numbers in partitions.items():
        topic = topics.topic(name)
        if topic is not None and numbers:
            found[topic.topic_id] = frozenset(numbers)
    return found


def assignment_bytes(assigned: Assignment, protocols: Sequence[JoinProtocol], topics: Topics) -> bytes:
    """What a member has, as it reads it."""
    named: dict[str, Sequence[int]] = {}
    for topic_id in sorted(assigned):
        name = topics.name(topic_id)
        if name is not None:
            named[name] = sorted(assigned[topic_id])
    return encode_assignment(named, subscription_version(protocols[0].metadata))


def decide_leave(group: ConsumerGroup, leavers: Sequence[Leaver]) -> tuple[list[ErrorCode], dict[str, str]]:
    """An error for each, and the ids of those who leave, with the reasons.

    LeaveGroup is of the classic protocol, but administrators take members of both out with it. A static member is found
    by its instance id, and by an id that goes with it if one is named; whoever is named twice leaves once.
    """
    errors: list[ErrorCode] = []
    leaving: dict[str, str] = {}
    for leaver in leavers:
        try:
            if leaver.group_instance_id is None:
                member = group.require_member(leaver.member_id)
            else:
                static = group.static_member(leaver.group_instance_id)
                known_id = leaver.member_id or ("" if static is None else static.member_id)
                member = require_static(static, known_id, leaver.group_instance_id)
            leaving.setdefault(member.member_id, leaver.reason)
            errors.append(ErrorCode.NONE)
        except RequestError as refused:
            errors.append(refused.code)
    return errors, leaving


def require_classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMetadata]:
    """The member, if it speaks the classic protocol and is in this generation. Raises `RequestError`."""
    if instance_id is None:
        member = group.require_member(member_id)
    else:
        member = require_static(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def answer_sync(group: ConsumerGroup, request: SyncRequest, topics: Topics, now_ms: int) -> SyncAnswer:
    """What the member has. Raises `RequestError`; REBALANCE_IN_PROGRESS where it must join again first."""
    member_id, protocol_type, protocol = request.member_id, request.protocol_type, request.protocol
    member, classic = require_classic_member(group, member_id, request.group_instance_id, request.generation)
    if protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or protocol not in (None, classic.protocols[0].name):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group.renew(member_id, classic.session_timeout_ms, now_ms)
    deadlines = group.deadlines[member_id]
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        deadlines.expect_join(now_ms + member.rebalance_timeout_ms)
        raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
    deadlines.sync_ms = None
    assigned = assignment_bytes(member.assigned, classic.protocols, topics)
    return SyncAnswer(ErrorCode.NONE, protocol_type, protocol, assigned)


def classic_heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int, *, is_due: bool
) -> None:
    """Keeps the member alive. Raises `RequestError`; REBALANCE_IN_PROGRESS where it must join again.

    `is_due`: another target assignment may be computed now. Who joins then has it computed, where nobody else does:
    Apache Kafka waits for a member of the newer protocol.
    """
    member, classic = require_classic_member(group, member_id, instance_id, generation)
    group.renew(member_id, classic.session_timeout_ms, now_ms)
    can_go_on = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
    is_behind = member.epoch < (group.epoch if is_due else group.assignment_epoch)
    if is_behind or member.state is MemberState.UNREVOKED_PARTITIONS or can_go_on:
        group.deadlines[member_id].expect_join(now_ms + member.rebalance_timeout_ms)
        raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
