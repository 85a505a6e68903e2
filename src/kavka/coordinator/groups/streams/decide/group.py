"""StreamsGroup: a streams group (KIP-1071), as its records in the log say it is.

Holds members, the topology, the target assignment, and which process has which task. Only `put_` and `remove_` methods
change it; `replay` calls them with committed records. Deadlines, who asked to shut down, endpoints' epoch and the
topology as topics allow it are not in the log: they begin anew when it is loaded.

    I1  an active task is one member's, until it has given it back (G1)
    I2  the epochs of the group, the assignment and a member only rise, except for a member that starts again (G2)
    I3  only members have deadlines

    state         holds when
    Empty         nobody is a member
    NotReady      the topology is not validated: topics are missing, or do not fit
    Assigning     the group's epoch is ahead of the target assignment
    Reconciling   some member has not reached the target assignment
    Stable        all have

Source: KIP-1071; Kafka's StreamsGroup and StreamsGroupMember.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kavka.coordinator.groups.consumer.decide.group import FIRST_COMMIT_VERSION, Deadlines
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, Tasks, tasks_in
from kavka.coordinator.groups.streams.decide.topology import Configured, Topology
from kavka.errors import ErrorCode, RequestError

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
FIRST_EPOCH: Final = 1
"""That of a group, and of its assignment, before anybody has joined; Kafka's."""
NOT_VALIDATED: Final = -1
NO_EPOCH_INFO: Final = 0

AssignmentEpochs: TypeAlias = Mapping[Task, int]
"""By active task, the epoch in which the member was given it."""


class MemberState(Enum):
    """Where a member stands on its way to its target; the numbers are those in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """It must give tasks back first."""
    UNRELEASED_TASKS = 3
    """Others have not given back yet what it is to get."""
    UNKNOWN = 127


class Endpoint(NamedTuple):
    """Where the application answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member: a thread of the application. `process_id` is that of its instance."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NOTHING
    revoking: Tasks = NOTHING
    assignment_epochs: AssignmentEpochs = field(default_factory=dict)
    """Of active tasks that are assigned or being revoked."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def with_news_of(self, other: StreamsMember) -> StreamsMember:
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


@dataclass(frozen=True, slots=True)
class StreamsGroupLimits:
    """The settings for the members of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_size: int
    standby_replicas: int
    initial_delay_ms: int
    assignment_interval_ms: int


class StreamsGroup:
    """One group. Members are in the order in which they came."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_epoch = NOT_VALIDATED
        """The epoch of the topology that was found to fit the topics."""
        self.configs: Mapping[str, str] = {}
        """The settings that the last assignment was made by."""
        self.topology: Topology | None = None
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, StreamsMember] = {}
        self.target: dict[str, Tasks] = {}
        self.deadlines: dict[str, Deadlines] = {}
        self.untold: set[str] = set()
        """Members that may not know their tasks: the answer with them failed, or came from another broker."""
        self.configured: Configured | None = None
        """What the topology needs, as topics were at `checked_version`."""
        self.checked_version = -1
        self.delayed_until_ms: int | None = None
        """Until when the first assignment waits for more members (monotonic)."""
        self.shutdown_asked_by: str | None = None
        """The member that wants the whole application to stop."""
        self.endpoint_epoch = NO_EPOCH_INFO
        self._active: dict[Task, str] = {}
        self._copies: dict[Task, list[str]] = {}

    # -- questions

    @property
    def state(self) -> str:
        """Under the name that ListGroups gives."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def require_member(self, member_id: str) -> StreamsMember:
        """Raises `RequestError` (UNKNOWN_MEMBER_ID)."""
        member = self.members.get(member_id)
        if member is None:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def target_of(self, member_id: str) -> Tasks:
        return self.target.get(member_id, NOTHING)

    def active_process(self, task: Task) -> str | None:
        """The process whose member runs the task, or has not given it back yet."""
        owner = self._active.get(task)
        return None if owner is None else self.members[owner].process_id

    def copies_at(self, task: Task, process_id: str) -> bool:
        """Whether a member of this process has the task as a standby or a warm-up task."""
        return any(self.members[owner].process_id == process_id for owner in self._copies.get(task, ()))

    def subscribed_among(self, topics: Iterable[str]) -> set[str]:
        """Those of the topics that its members read; without members, nobody does."""
        if not self.members or self.topology is None:
            return set()
        return {topic for topic in topics if self.topology.subtopology_of(topic) is not None}

    # -- checks of offset requests

    def check_commit(
        self,
        member_id: str,
        member_epoch: int,
        partitions: Iterable[tuple[str, int]],
        *,
        api_version: int,
        is_transactional: bool,
    ) -> None:
        """Whether an offset commit may come from this member. Raises `RequestError`.

        Who has not heard of its epoch yet may commit for the tasks that it was given in the one that it knows, or
        before, and still has (KIP-1251): nobody else has had them meanwhile.
        """
        if member_epoch < 0 and not self.members:
            return
        member = self.require_member(member_id)
        if not is_transactional and api_version < FIRST_COMMIT_VERSION:
            raise RequestError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the streams group protocol",
            )
        if member_epoch == member.epoch:
            return
        if member_epoch > member.epoch:
            raise _stale(f"Received member epoch {member_epoch} is newer than current member epoch {member.epoch}.")
        if self.topology is None:
            raise _stale("Topology is not available for offset commit validation.")
        for topic, partition in partitions:
            subtopology = self.topology.subtopology_of(topic)
            if subtopology is None:
                raise _stale(f"Topic {topic} is not in the topology.")
            since = member.assignment_epochs.get(Task(subtopology, partition))
            if since is None:
                raise _stale(f"Task {subtopology}-{partition} is not assigned or pending revocation for member.")
            if member_epoch < since:
                raise _stale(
                    f"Received member epoch {member_epoch} is older than assignment epoch {since} for task "
                    f"{subtopology}-{partition}."
                )

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether an offset fetch may come from this member; who names none is let through. Raises `RequestError`."""
        if member_id is None and member_epoch < 0:
            return
        if member_epoch != self.require_member(member_id or "").epoch:
            raise RequestError(ErrorCode.STALE_MEMBER_EPOCH)

    # -- deadlines

    def renew(self, member_id: str, session_timeout_ms: int, now_ms: int) -> None:
        """The member was heard of; nothing where it is gone since (I3)."""
        if member_id not in self.members:
            return
        session_ms = now_ms + session_timeout_ms
        known = self.deadlines.setdefault(member_id, Deadlines(session_ms))
        known.session_ms = session_ms

    def watch_revocation(self, member_id: str, now_ms: int) -> None:
        """Gives a member that must give tasks back its rebalance time-out for it, once per epoch, from when it is told
        of it."""
        member, deadlines = self.members.get(member_id), self.deadlines.get(member_id)
        if member is None or deadlines is None:
            return
        is_known = deadlines.revoke_epoch == member.epoch
        if member.state is not MemberState.UNREVOKED_TASKS:
            deadlines.revoke_ms = None
        elif member_id in self.untold:
            deadlines.revoke_ms = deadlines.revoke_ms if is_known else None
        elif deadlines.revoke_ms is None or not is_known:
            deadlines.revoke_ms = now_ms + member.rebalance_timeout_ms
            deadlines.revoke_epoch = member.epoch

    def watch_all(self, session_timeout_ms: int, now_ms: int) -> None:
        """The log is read to its end, or has changed: who is not watched yet has a whole session from now on."""
        for member_id in self.members:
            if member_id not in self.deadlines:
                self.untold.add(member_id)
                self.renew(member_id, session_timeout_ms, now_ms)
            self.watch_revocation(member_id, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `overdue` and `is_delay_over` must be asked next; None while nothing can run out."""
        members = (deadline for one in self.deadlines.values() for deadline in one.all())
        delay = () if self.delayed_until_ms is None else (self.delayed_until_ms,)
        return min((*members, *delay), default=None)

    def overdue(self, now_ms: int) -> dict[str, str]:
        """Members whose time is up, and for what."""
        late = {member_id: deadlines.late(now_ms) for member_id, deadlines in self.deadlines.items()}
        return {member_id: why for member_id, why in late.items() if why}

    def is_delay_over(self, now_ms: int) -> bool:
        """Whether the first assignment need not wait for members any longer."""
        return self.delayed_until_ms is not None and self.delayed_until_ms <= now_ms

    def put_off(self, until_ms: int) -> None:
        """What is due could not be done: not before `until_ms` again."""
        for deadlines in self.deadlines.values():
            deadlines.put_off(until_ms)
        if self.delayed_until_ms is not None:
            self.delayed_until_ms = max(self.delayed_until_ms, until_ms)

    # -- what records say

    def put_topology(self, topology: Topology | None) -> None:
        """The application is this one from now on."""
        self.topology = topology
        self.configured = None
        self.checked_version = -1

    def put_member(self, member: StreamsMember) -> None:
        """A member is new, or says something new of itself, or has moved on."""
        known = self.members.get(member.member_id)
        if known is not None:
            self._release(known)
        self.members[member.member_id] = member
        for part in (member.assigned, member.revoking):
            for task in tasks_in(part.active):
                self._active[task] = member.member_id
            for ids in (part.standby, part.warmup):
                for task in tasks_in(ids):
                    self._copies.setdefault(task, []).append(member.member_id)

    def remove_member(self, member_id: str) -> None:
        """A member is gone; one that is not there is no mistake."""
        member = self.members.get(member_id)
        if member is not None:
            self._release(member)
            del self.members[member_id]
        self.deadlines.pop(member_id, None)
        self.untold.discard(member_id)
        if not self.members:
            self.shutdown_asked_by = None

    def _release(self, member: StreamsMember) -> None:
        for part in (member.assigned, member.revoking):
            for task in tasks_in(part.active):
                # A compacted log may tell of the new owner before it tells that the old one gave the task back.
                if self._active.get(task) == member.member_id:
                    del self._active[task]
            for ids in (part.standby, part.warmup):
                for task in tasks_in(ids):
                    keepers = self._copies.get(task, [])
                    if member.member_id in keepers:
                        keepers.remove(member.member_id)
                    if not keepers:
                        self._copies.pop(task, None)


def _stale(why: str) -> RequestError:
    return RequestError(ErrorCode.STALE_MEMBER_EPOCH, why)
