"""Who is to read what: which assignor, what it is given, what it returns, and the range assignor.

Decides from members (their topics, and what the last assignment gave them) and partition counts. Must not know groups,
epochs, the log. The order of members and topics is given by the caller, and is the only source of ties' outcomes.

    I1  every partition of a subscribed topic is given to exactly one member that subscribes to it
    I2  the same input gives the same assignment

Source: KIP-848; Kafka's RangeAssignor. Kafka's own order of members is that of a Java hash map; given the same order,
the assignments are the same (tests/conformance/groups).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from kavka.coordinator.groups.consumer.decide.group import Assignment

MutableAssignment: TypeAlias = dict[uuid.UUID, set[int]]


class MemberSpec(NamedTuple):
    """A member as an assignor sees it. `topics`: what it subscribes to, of those that exist, in order."""

    member_id: str
    instance_id: str | None
    topics: Sequence[uuid.UUID]
    assigned: Assignment


class GroupSpec(NamedTuple):
    """What an assignor is given. `partition_counts` has every topic that a member subscribes to."""

    members: Sequence[MemberSpec]
    partition_counts: Mapping[uuid.UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        first = frozenset(self.members[0].topics) if self.members else frozenset()
        return all(frozenset(member.topics) == first for member in self.members)


Assignor: TypeAlias = Callable[[GroupSpec], dict[str, Assignment]]


def preferred_assignor(wishes: Iterable[str | None], supported: Sequence[str]) -> str:
    """The assignor that most members want, of those that there are; of equally many, and without a wish, the first.

    Another broker, or this one with other settings, may have let a member in with one that is not there.
    """
    counts = Counter(wish for wish in wishes if wish in supported)
    return max(supported, key=lambda name: counts[name])


def frozen(assignment: Mapping[uuid.UUID, set[int]]) -> Assignment:
    """An assignment as an immutable value, without topics that have no partitions left."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in assignment.items() if partitions}


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Each topic by itself: its members, static ones by instance id before the others by member id, get runs of
    partitions, the first ones one more. So members with the same topics get the same numbers of each (co-partitioning).
    """
    members = sorted(
        group.members,
        key=lambda member: (0, member.instance_id) if member.instance_id is not None else (1, member.member_id),
    )
    readers: dict[uuid.UUID, int] = {}
    for member in members:
        for topic_id in member.topics:
            readers[topic_id] = readers.get(topic_id, 0) + 1
    taken = dict.fromkeys(readers, 0)
    extra = {topic_id: group.partition_counts[topic_id] % count for topic_id, count in readers.items()}
    result: dict[str, Assignment] = {}
    for member in members:
        assignment: dict[uuid.UUID, frozenset[int]] = {}
        for topic_id in member.topics:
            size = group.partition_counts[topic_id] // readers[topic_id] + (1 if extra[topic_id] > 0 else 0)
            extra[topic_id] -= 1
            start = taken[topic_id]
            taken[topic_id] = start + size
            if size:
                assignment[topic_id] = frozenset(range(start, start + size))
        result[member.member_id] = assignment
    return result


RANGE: Final = "range"
UNIFORM: Final = "uniform"
