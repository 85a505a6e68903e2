"""Membership: the states of a classic group, what members ask of it and are answered, and what it keeps of each.

Values only. What follows from a request is decided in `group`.

Source: Kafka's JoinGroup, SyncGroup and LeaveGroup; KIP-345 (static members), 559 (protocol in answers), 800 (reasons).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from kavka.coordinator.groups.decide.rebalance import Rebalance
from kavka.errors import ErrorCode, InvariantViolation

NO_MEMBER = ""
NO_GENERATION = -1
NEW_MEMBER_JOIN_MS: Final = 300_000
"""How long the first join of a member is held; then it must ask again. A client that is gone meanwhile is seen nowhere
else, and each of its successors would be one member more (KAFKA-7610)."""


class GroupState(Enum):
    """States under the names that ListGroups and DescribeGroups give."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MOVES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.EMPTY}),
}
"""Which state may follow which."""


class JoinProtocol(NamedTuple):
    """One assignor that a member supports, with its subscription in the assignor's own bytes."""

    name: str
    metadata: bytes


class JoinRequest(NamedTuple):
    """A member's request to join. Times in milliseconds."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[JoinProtocol]
    require_known_member_id: bool
    supports_skipping_assignment: bool = False
    reason: str = ""


class SyncRequest(NamedTuple):
    """A member asks for its part; the leader hands in everybody's with `assignments`. The protocol's type and name are
    None in versions that do not say them (KIP-559)."""

    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class Leaver(NamedTuple):
    """A member that leaves: given by its id, or, if it is static and an administrator removes it, by its instance id
    alone.

    `reason` is the requester's reason (KIP-800).
    """

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


class JoinedMember(NamedTuple):
    """A member as the group's leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The answer to a JoinGroup. `members` is empty except for the leader."""

    error: ErrorCode
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class SyncAnswer(NamedTuple):
    """The answer to a SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class Member:
    """One member. `join_token` and `sync_token` are set while its request is held: it waits for us then, and its
    session begins with the answer. `awaits_sync`: it has not asked for what it has in the present generation.
    `assignment` is what it was last told, `proposed` what it is told once the record with it is written. `is_new`: it
    has seen no generation yet, and its first join is not held longer than NEW_MEMBER_JOIN_MS."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[JoinProtocol]
    assignment: bytes = b""
    proposed: bytes | None = None
    join_token: int | None = None
    sync_token: int | None = None
    session_deadline_ms: int = 0
    awaits_sync: bool = False
    is_new: bool = False

    @property
    def may_run_out(self) -> bool:
        """Whether it is out at its deadline: not while it waits for us, unless that is for its first generation."""
        is_held = self.join_token is not None or self.sync_token is not None
        return not is_held or self.is_new

    @property
    def ran_out(self) -> str:
        """Why it is out at its deadline: a rebalance's cause."""
        if self.is_new:
            return f"member {self.member_id} waited {NEW_MEMBER_JOIN_MS} ms for its first generation"
        return f"member {self.member_id} was silent for its session of {self.session_timeout_ms} ms"

    def metadata(self, protocol: str | None) -> bytes:
        """Its subscription under a protocol; where it does not support that one, the one under its first choice.

        Members of a group that is rebalancing may have given up the protocol that is still in force (a rolling change
        of the assignor), and consumers subscribe to the same topics under each.
        """
        for candidate in self.protocols:
            if candidate.name == protocol:
                return candidate.metadata
        return self.protocols[0].metadata

    def vote(self, candidates: frozenset[str]) -> str:
        """Its own first choice among those that all members support."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        # No request gets here: `candidates` has a protocol of every member (`groups.classic.decide.group`, I5).
        raise InvariantViolation(f"member {self.member_id} supports none of {sorted(candidates)}")


class StoredGroup(NamedTuple):
    """The content of a group's record in the log. `written_at_wall_ms` is None if the record lacks it."""

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader_id: str | None
    members: Sequence[Member]
    written_at_wall_ms: int | None


@dataclass(slots=True)
class Effects:
    """What a decision leads to. `joins` and `syncs` answer held requests by their tokens."""

    joins: list[tuple[int, JoinAnswer]] = field(default_factory=list)
    syncs: list[tuple[int, SyncAnswer]] = field(default_factory=list)
    write_group: bool = False
    """The group's record must be written: a generation was assigned, the group became empty, or a static member came
    back."""
    replaced: str = NO_MEMBER
    """The id that a static member came back under, if that is in the record for the first time."""
    rebalances: list[Rebalance] = field(default_factory=list)
    """Generations that began."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The broker's settings for groups."""

    min_session_timeout_ms: int
    max_session_timeout_ms: int
    initial_rebalance_delay_ms: int
    max_size: int
