"""ShareGroup: a share group's members, their assignment, and the partitions whose states are there.

Holds what the records say. Must not know the log, time (but deadlines that it is given), or records' states.

Source: KIP-932; Kafka's ShareGroup and ShareGroupMember.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kavka.coordinator.groups.consumer.decide.group import NOTHING, Assignment
from kavka.errors import ErrorCode, RequestError


@dataclass(frozen=True, slots=True)
class ShareMember:
    """One member: what it says of itself, and what it has."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Assignment = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShareGroupLimits:
    """The settings for the members of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_size: int
    assignment_interval_ms: int
    initialize_retry_ms: int


class NamedPartitions(NamedTuple):
    """Partitions of a topic, with its name at the time."""

    name: str
    partitions: frozenset[int]


class StatePartitions(NamedTuple):
    """Which partitions have a state, are to have one, and which topics' states are being deleted (id to name)."""

    initializing: Mapping[uuid.UUID, NamedPartitions] = {}
    initialized: Mapping[uuid.UUID, NamedPartitions] = {}
    deleting: Mapping[uuid.UUID, str] = {}


class ShareGroup:
    """One group. Members are in the order in which they came."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Assignment] = {}
        self.states = StatePartitions()
        self.sessions: dict[str, int] = {}
        """Until when each member must be heard of, in ms of the monotonic clock."""
        self.untold: set[str] = set()
        """Members that may not know their assignment: the answer with it failed, or came from another broker."""
        self.checked_version = -1
        """The version of the metadata that the group's epoch was last compared with."""
        self.rest_version = -1
        """The version of the metadata in which nothing is left to do for the group, as its records are; -1: unknown."""
        self.asks_again_ms: int | None = None
        """From when on states that were asked for, and are not there, are asked for again (monotonic); None if none
        were asked for, or another coordinator has asked."""

    # -- questions

    @property
    def state(self) -> str:
        """Under the name that ListGroups gives."""
        return "Stable" if self.members else "Empty"

    def require_member(self, member_id: str) -> ShareMember:
        """Raises `RequestError` (UNKNOWN_MEMBER_ID)."""
        member = self.members.get(member_id)
        if member is None:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def target_of(self, member_id: str) -> Assignment:
        return self.target.get(member_id, NOTHING)

    def topics(self) -> frozenset[str]:
        """What its members read."""
        return frozenset(name for member in self.members.values() for name in member.topics)

    # -- sessions

    def renew(self, member_id: str, until_ms: int) -> None:
        """The member was heard of; does nothing if it is gone since."""
        if member_id in self.members:
            self.sessions[member_id] = until_ms

    def watch_all(self, until_ms: int) -> None:
        """The log is read to its end, or has changed: who is not watched yet has a whole session from now on."""
        for member_id in self.members:
            if member_id not in self.sessions:
                self.untold.add(member_id)
                self.sessions[member_id] = until_ms

    def next_deadline_ms(self) -> int | None:
        return min(self.sessions.values(), default=None)

    def overdue(self, now_ms: int) -> list[str]:
        """Members whose session is over."""
        return [member_id for member_id, until_ms in self.sessions.items() if until_ms <= now_ms]

    def put_off(self, until_ms: int) -> None:
        """Who is overdue could not be removed: not before `until_ms` again."""
        self.sessions = {member_id: max(known, until_ms) for member_id, known in self.sessions.items()}

    # -- what records say

    def remove_member(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        self.sessions.pop(member_id, None)
        self.untold.discard(member_id)


def together(
    first: Mapping[uuid.UUID, NamedPartitions], second: Mapping[uuid.UUID, NamedPartitions]
) -> dict[uuid.UUID, NamedPartitions]:
    """The partitions of both."""
    joined = dict(first)
    for topic_id, named in second.items():
        known = joined.get(topic_id)
        joined[topic_id] = named if known is None else NamedPartitions(named.name, known.partitions | named.partitions)
    return joined


def without(
    first: Mapping[uuid.UUID, NamedPartitions], gone: Mapping[uuid.UUID, Iterable[int]]
) -> dict[uuid.UUID, NamedPartitions]:
    """The partitions of `first` that are not in `gone`; topics without any left are left out."""
    left = {}
    for topic_id, named in first.items():
        partitions = named.partitions - frozenset(gone.get(topic_id, ()))
        if partitions:
            left[topic_id] = NamedPartitions(named.name, partitions)
    return left
