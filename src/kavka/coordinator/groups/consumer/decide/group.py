"""ConsumerGroup: a group of the newer protocol (KIP-848), as its records in the log say it is.

Holds members, the target assignment and who has which partition in which epoch. Only `put_` and `remove_` methods
change it; `replay` calls them with committed records. Other modules (heartbeat, classic_members) decide about requests
from this state and return records. Deadlines are not in the log: they start again when it is loaded.

    I1  a partition has one epoch: that of the member to which it is assigned, or which has not given it back yet; so no
        partition is owned by two members, across successive epochs too (G1)
    I2  the epochs of the group, the assignment and a member only rise, except for a member that starts again (G2)
    I3  assignment_epoch <= group_epoch; a member's epoch <= assignment_epoch
    I4  only members have deadlines: one without a member would fire the group's timer for ever, without effect

    state         holds when
    Empty         nobody is a member
    Assigning     the group's epoch is ahead of the target assignment
    Reconciling   some member has not reached the target assignment
    Stable        all have

Source: KIP-848; Kafka's ConsumerGroup.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol
from kavka.errors import ErrorCode, RequestError

Assignment: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
"""Topic id to partitions; no topic without one."""

AssignmentEpochs: TypeAlias = Mapping[tuple[uuid.UUID, int], int]
"""By partition, the epoch in which a member was given it."""

NOTHING: Final[Assignment] = MappingProxyType({})
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""The member goes, and comes back soon under its instance id."""


class MemberState(Enum):
    """How far a member is on its way to its target. The numbers are those in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must give partitions back first."""
    UNRELEASED_PARTITIONS = 2
    """Others have not given back yet what it is to get."""
    UNKNOWN = 127


class ClassicMetadata(NamedTuple):
    """What a member that speaks the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: Sequence[JoinProtocol]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member. `classic` is there if it speaks the classic protocol."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)
    assignment_epochs: AssignmentEpochs = field(default_factory=dict)
    """Of what is assigned and what is being revoked."""

    @property
    def held(self) -> Assignment:
        """What it has: what it is to give back is its own until it has."""
        if not self.revoking:
            return self.assigned
        none: frozenset[int] = frozenset()
        return {
            topic_id: self.assigned.get(topic_id, none) | self.revoking.get(topic_id, none)
            for topic_id in dict.fromkeys((*self.assigned, *self.revoking))
        }

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def with_subscription_of(self, other: ConsumerMember) -> ConsumerMember:
        """This member's progress, with what `other` says of itself."""
        return replace(
            other,
            epoch=self.epoch,
            previous_epoch=self.previous_epoch,
            state=self.state,
            assigned=self.assigned,
            revoking=self.revoking,
            assignment_epochs=self.assignment_epochs,
        )


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched; `version` is that of the metadata it was matched against."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupLimits:
    """The broker's settings for groups of this kind."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_size: int
    assignors: tuple[str, ...]
    assignment_interval_ms: int
    regex_refresh_interval_ms: int
    upgrade_allowed: bool
    downgrade_allowed: bool

    @property
    def migration_allowed(self) -> bool:
        """Whether members of both protocols may be in one group."""
        return self.upgrade_allowed or self.downgrade_allowed


@dataclass(slots=True)
class Deadlines:
    """What a member must do by when, in milliseconds of the monotonic clock."""

    session_ms: int
    revoke_ms: int | None = None
    """By when it must have given back what is revoked (a member of this protocol)."""
    revoke_epoch: int = -1
    revoking: Assignment = field(default_factory=dict)
    """What `revoke_ms` is for; of streams groups, the epoch alone says it."""
    join_ms: int | None = None
    """By when it must have joined again (a member that speaks the classic protocol)."""
    sync_ms: int | None = None

    def all(self) -> Iterator[int]:
        yield self.session_ms
        for deadline in (self.revoke_ms, self.join_ms, self.sync_ms):
            if deadline is not None:
                yield deadline

    def expect_join(self, until_ms: int) -> None:
        """The member must join again. A second demand gives it no more time."""
        if self.join_ms is None:
            self.join_ms = until_ms

    def put_off(self, until_ms: int) -> None:
        self.session_ms = max(self.session_ms, until_ms)
        self.revoke_ms = None if self.revoke_ms is None else max(self.revoke_ms, until_ms)
        self.join_ms = None if self.join_ms is None else max(self.join_ms, until_ms)
        self.sync_ms = None if self.sync_ms is None else max(self.sync_ms, until_ms)

    def late(self, now_ms: int) -> str:
        """What it is late for, empty if for nothing."""
        for deadline, what in (
            (self.session_ms, "no heartbeat in time"),
            (self.revoke_ms, "it has not given back in time what is revoked"),
            (self.join_ms, "it has not joined again in time"),
            (self.sync_ms, "no sync in time"),
        ):
            if deadline is not None and deadline <= now_ms:
                return what
        return ""


class ConsumerGroup:
    """One group. Members are in the order in which they came."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.deadlines: dict[str, Deadlines] = {}
        self.untold: set[str] = set()
        """Members that may not know their assignment: the answer with it failed, or came from another broker."""
        self.has_partition_metadata = False
        """True if its log has a record of Kafka 4.0 that is no longer needed."""
        self.checked_version = -1
        """The version of the metadata that the group's epoch was last compared with."""
        self.matched_versions: dict[str, int] = {}
        """By expression the version of this broker's metadata in which it was matched to what `regexes` says."""
        self._static: dict[str, str] = {}
        self._owners: dict[tuple[uuid.UUID, int], str] = {}

    # -- questions

    @property
    def state(self) -> str:
        """Under the name that ListGroups gives."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def require_member(self, member_id: str) -> ConsumerMember:
        """Raises `RequestError` (UNKNOWN_MEMBER_ID)."""
        member = self.members.get(member_id)
        if member is None:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """The member's part of the target assignment; a static member has that of the one whose place it takes."""
        if member_id in self.target:
            return self.target[member_id]
        predecessor = self.static_member(instance_id)
        return NOTHING if predecessor is None else self.target.get(predecessor.member_id, NOTHING)

    def owner_epoch(self, topic_id: uuid.UUID, partition: int) -> int:
        """The epoch of the member that has the partition or has not given it back yet. -1 if no member has it."""
        owner = self._owners.get((topic_id, partition))
        return -1 if owner is None else self.members[owner].epoch

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What a member reads: the topics that it named, and those that its regular expression matched."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_among(self, topics: Iterable[str]) -> set[str]:
        """Those of the topics that a member reads."""
        wanted = set(topics)
        return {topic for member in self.members.values() for topic in self.topics_of(member) & wanted}

    def classic_members(self) -> Iterator[ConsumerMember]:
        """Those who speak the classic protocol."""
        return (member for member in self.members.values() if member.classic is not None)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether some partition that the member is to get is still another's."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.owner_epoch(topic_id, partition) != -1
            for topic_id, partitions in self.target.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    # -- checks of offset requests

    def check_commit(
        self,
        member_id: str,
        member_epoch: int,
        partitions: Callable[[], Iterable[tuple[uuid.UUID | None, int]]],
        *,
        api_version: int,
        is_transactional: bool,
    ) -> None:
        """Whether an offset commit may come from this member. Raises `RequestError`.

        Who has not heard of its epoch yet may commit what it was given in the one that it knows, or before, and still
        has (KIP-1251): nobody else has had that meanwhile. `partitions`: what is committed, by topic ids, None for a
        topic that is not there.
        """
        if member_epoch < 0 and not self.members:
            return
        member = self.require_member(member_id)
        if not is_transactional and member.classic is None and api_version < FIRST_COMMIT_VERSION:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        if member_epoch < member.epoch and all(
            topic_id is not None and member.assignment_epochs.get((topic_id, partition), _NEVER) <= member_epoch
            for topic_id, partition in partitions()
        ):
            return
        self._check_epoch(member, member_epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether an offset fetch may come from this member; who names none is let through. Raises `RequestError`."""
        if member_id is None and member_epoch < 0:
            return
        self._check_epoch(self.require_member(member_id or ""), member_epoch)

    def _check_epoch(self, member: ConsumerMember, received: int) -> None:
        if received != member.epoch:
            raise RequestError(
                ErrorCode.ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH
            )

    # -- deadlines

    def renew(self, member_id: str, session_timeout_ms: int, now_ms: int) -> None:
        """The member was heard of; does nothing if it is gone since (I4)."""
        if member_id in self.members:
            self._renewed(member_id, session_timeout_ms, now_ms)

    def _renewed(self, member_id: str, session_timeout_ms: int, now_ms: int) -> Deadlines:
        session_ms = now_ms + session_timeout_ms
        # Of a group that is being made from a large classic one members are there before all its records are.
        known = self.deadlines.setdefault(member_id, Deadlines(session_ms))
        known.session_ms = session_ms
        return known

    def expect_sync(self, member_id: str, session_timeout_ms: int, rebalance_timeout_ms: int, now_ms: int) -> None:
        """The member has joined, and is to fetch what it is given; does nothing if it is gone since (I4)."""
        if member_id in self.members:
            deadlines = self._renewed(member_id, session_timeout_ms, now_ms)
            deadlines.join_ms, deadlines.sync_ms = None, now_ms + rebalance_timeout_ms

    def watch_revocation(self, member_id: str, now_ms: int) -> None:
        """Gives a member that must give partitions back its rebalance time-out for them, from when it is told of them.
        A static member that is away has its session to come back in, whatever it had to give back."""
        member, deadlines = self.members.get(member_id), self.deadlines.get(member_id)
        if member is None or deadlines is None:
            return
        is_known = (deadlines.revoke_epoch, deadlines.revoking) == (member.epoch, member.revoking)
        is_away = member.epoch == STATIC_LEAVING_EPOCH
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.classic is not None or is_away:
            deadlines.revoke_ms = None
        elif member_id in self.untold:
            deadlines.revoke_ms = deadlines.revoke_ms if is_known else None
        elif deadlines.revoke_ms is None or not is_known:
            deadlines.revoke_ms = now_ms + member.rebalance_timeout_ms
            deadlines.revoke_epoch, deadlines.revoking = member.epoch, member.revoking

    def watch_all(self, session_timeout_ms: int, now_ms: int) -> None:
        """The log is read to its end, or has changed: who is not watched yet has a whole session from now on."""
        for member in self.members.values():
            if member.member_id not in self.deadlines:
                self.untold.add(member.member_id)
                timeout_ms = session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
                self.renew(member.member_id, timeout_ms, now_ms)
            self.watch_revocation(member.member_id, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `overdue` must be asked next; None while nothing can run out."""
        return min((deadline for one in self.deadlines.values() for deadline in one.all()), default=None)

    def overdue(self, now_ms: int) -> dict[str, str]:
        """Members whose time is up, and for what."""
        found: dict[str, str] = {}
        for member_id, deadlines in self.deadlines.items():
            late = deadlines.late(now_ms)
            if late:
                found[member_id] = late
        return found

    def put_off(self, until_ms: int) -> None:
        """Who is overdue could not be removed: not before `until_ms` again."""
        for deadlines in self.deadlines.values():
            deadlines.put_off(until_ms)

    # -- what records say

    def put_member(self, member: ConsumerMember) -> None:
        """A member is new, or says something new of itself, or has moved on."""
        known = self.members.get(member.member_id)
        if known is not None:
            self._release(known)
            if known.instance_id is not None and self._static.get(known.instance_id) == known.member_id:
                del self._static[known.instance_id]
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self._own(member)

    def remove_member(self, member_id: str) -> None:
        """A member is gone; one that is not there is no mistake."""
        member = self.members.pop(member_id, None)
        self.deadlines.pop(member_id, None)
        self.untold.discard(member_id)
        if member is None:
            return
        self._release(member)
        if member.instance_id is not None and self._static.get(member.instance_id) == member_id:
            del self._static[member.instance_id]

    def _own(self, member: ConsumerMember) -> None:
        for key in _partitions_of(member):
            self._owners[key] = member.member_id

    def _release(self, member: ConsumerMember) -> None:
        for key in _partitions_of(member):
            # A compacted log may tell of the new owner before it tells that the old one gave the partition back.
            if self._owners.get(key) == member.member_id:
                del self._owners[key]


def _partitions_of(member: ConsumerMember) -> Iterator[tuple[uuid.UUID, int]]:
    for part in (member.assigned, member.revoking):
        for topic_id, partitions in part.items():
            for partition in partitions:
                yield topic_id, partition


_NEVER: Final = 2**31
"""Above all epochs: that in which a member is given what it has not."""
FIRST_COMMIT_VERSION: Final = 9
"""The first OffsetCommit that carries a member's epoch."""
