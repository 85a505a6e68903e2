"""A consumer group without a coordinator: what is decided is replayed at once, as if it were committed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol, JoinRequest
from kavka.coordinator.groups.consumer.decide.classic_members import ClassicJoin, decide_classic_join
from kavka.coordinator.groups.consumer.decide.group import Assignment, ConsumerGroup, ConsumerMember, ResolvedRegex
from kavka.coordinator.groups.consumer.decide.heartbeat import (
    ConsumerHeartbeat,
    Decision,
    Now,
    decide_heartbeat,
    decide_leave,
)
from kavka.coordinator.groups.consumer.decide.records import (
    ConsumerGroupRecord,
    apply_to,
    decode_consumer_group_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord, split_version
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import CONSUMER_LIMITS, HandMadeTopics

GROUP = "g"
WALL_MS = 1_700_000_000_000


def decoded(records: Sequence[CoordinatorRecord]) -> list[ConsumerGroupRecord]:
    """What the records say, each of them one of a consumer group."""
    found = []
    for record in records:
        version, key = split_version(record.key)
        said = decode_consumer_group_record(version, key, None if record.value is None else split_version(record.value))
        assert said is not None
        found.append(said)
    return found


def replayed(group: ConsumerGroup, records: Sequence[CoordinatorRecord]) -> ConsumerGroup:
    """The group, changed as the records say."""
    for record in decoded(records):
        apply_to(group, record)
    return group


def heartbeat(sender: str, epoch: int = 0, **fields: object) -> ConsumerHeartbeat:
    """A first heartbeat says all; a later one says nothing new, but for `fields`."""
    joins = epoch == 0
    request = ConsumerHeartbeat(
        GROUP,
        sender,
        epoch,
        None,
        None,
        20_000 if joins else -1,
        ["t"] if joins else None,
        None,
        None,
        {} if joins else None,
        "client",
        "/127.0.0.1",
    )
    return request._replace(**fields)  # type: ignore[arg-type]  # names of fields


class DecidedGroup:
    """A group of id g, with a topic t of four partitions. `now_ms` is the wall clock."""

    def __init__(self, **limits: object) -> None:
        self.group = ConsumerGroup(GROUP)
        self.topics = HandMadeTopics(t=4)
        self.limits = replace(CONSUMER_LIMITS, **limits)  # type: ignore[arg-type]  # names of limits
        self.now_ms = WALL_MS
        self.resolved: dict[str, ResolvedRegex] = {}
        """What expressions were matched to just now."""
        self.said: list[ConsumerGroupRecord] = []
        """The records of the last decision."""

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.topics, self.limits, self.resolved)

    def beat(self, member_id: str, epoch: int = 0, **fields: object) -> Decision:
        decision = decide_heartbeat(self.group, heartbeat(member_id, epoch, **fields), member_id, self.now)
        self.group.checked_version = -1 if decision.records else self.topics.version  # As the flow does.
        self._replay(decision.records)
        return decision

    def leave(self, member_id: str, epoch: int = -1, instance_id: str | None = None) -> Decision:
        decision = decide_leave(self.group, heartbeat(member_id, epoch, instance_id=instance_id), self.now)
        self._replay(decision.records)
        return decision

    def join(self, request: JoinRequest, new_member_id: str = "new") -> ClassicJoin:
        joined = decide_classic_join(self.group, request, new_member_id, self.now)
        self._replay(joined.records)
        return joined

    def refused(self, member_id: str, epoch: int = 0, **fields: object) -> tuple[ErrorCode, str]:
        with pytest.raises(RequestError) as refusal:
            self.beat(member_id, epoch, **fields)
        return refusal.value.code, refusal.value.message

    def put(self, *members: ConsumerMember, epoch: int, target: Mapping[str, Assignment] | None = None) -> None:
        """Members as they are, in a group whose epochs are `epoch`; `target`: where it is not what they have."""
        self.group.epoch = self.group.assignment_epoch = epoch
        for member in members:
            self.group.put_member(member)
            self.group.target[member.member_id] = member.assigned
        self.group.target.update(target or {})

    def _replay(self, records: Sequence[CoordinatorRecord]) -> None:
        self.said = decoded(records)
        replayed(self.group, records)


def part(topic: int, *partitions: int) -> dict[uuid.UUID, frozenset[int]]:
    """Partitions of the topic that was made as the `topic`-th."""
    return {uuid.UUID(int=topic): frozenset(partitions)}


def join_request(
    member_id: str, *protocols: tuple[str, bytes], instance: str | None = None, **fields: object
) -> JoinRequest:
    """A consumer's JoinGroup."""
    request = JoinRequest(
        member_id,
        instance,
        "old",
        "/127.0.0.1",
        10_000,
        20_000,
        "consumer",
        [JoinProtocol(*protocol) for protocol in protocols],
        require_known_member_id=False,
    )
    return request._replace(**fields)  # type: ignore[arg-type]  # names of fields
