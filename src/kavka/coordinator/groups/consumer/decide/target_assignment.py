"""The target assignment of a consumer group: what each member is to have, once all have got there.

Decides it from the members as they are to be, with the assignor that most of them want, and says which records it
takes. Must not know how members get there (current_assignment), the log, time.

    I1  every partition of a topic that exists and that somebody reads is in exactly one member's part
    I2  members are given to the assignor by instance id or member id, topics by topic id: the same group gets the same
        assignment from every coordinator

Source: KIP-848; Kafka's TargetAssignmentBuilder.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kavka.coordinator.groups.consumer.decide.assignors import (
    RANGE,
    UNIFORM,
    Assignor,
    GroupSpec,
    MemberSpec,
    assign_range,
)
from kavka.coordinator.groups.consumer.decide.group import NOTHING, Assignment, ConsumerMember
from kavka.coordinator.groups.consumer.decide.uniform_assignor import assign_uniform

ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
"""The assignors that a client can name."""
_HASHED = struct.Struct(">16sq")
_SIGNED = struct.Struct(">q")


class TopicInfo(NamedTuple):
    """A topic as assignments need it."""

    topic_id: uuid.UUID
    partition_count: int


class Topics(Protocol):
    """The port to what the broker knows of the cluster's topics."""

    @property
    def version(self) -> int:
        """Rises when a topic is created, deleted or gets partitions."""
        ...

    def topic(self, name: str) -> TopicInfo | None:
        """The topic, None if there is none of this name."""
        ...

    def name(self, topic_id: uuid.UUID) -> str | None:
        """The topic's name, None if it is gone."""
        ...

    def names(self) -> Sequence[str]:
        """All topics."""
        ...


class Reader(NamedTuple):
    """A member, the topics that it reads, and what the former target gave it."""

    member: ConsumerMember
    topics: Iterable[str]
    former: Assignment


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A number that changes when one of these topics comes, goes, is made anew or gets partitions; 0 for none.

    In the log it stands where Kafka keeps a hash of its own making: a group that comes from there is assigned once
    more. Racks are left out, for no assignor here asks for them.
    """
    digest = hashlib.blake2b(digest_size=8)
    empty = True
    for name in sorted(set(names)):
        topic = topics.topic(name)
        if topic is not None:
            empty = False
            encoded = name.encode()
            digest.update(_HASHED.pack(topic.topic_id.bytes, topic.partition_count))
            digest.update(struct.pack(">i", len(encoded)) + encoded)
    return 0 if empty else int(_SIGNED.unpack(digest.digest())[0])


def compute_target(assignor: Assignor, readers: Sequence[Reader], topics: Topics) -> dict[str, Assignment]:
    """Member id to its part; members that get nothing are in it."""
    counts: dict[uuid.UUID, int] = {}
    for reader in readers:
        for name in reader.topics:
            topic = topics.topic(name)
            if topic is not None:
                counts[topic.topic_id] = topic.partition_count
    given: dict[uuid.UUID, set[int]] = {topic_id: set() for topic_id in counts}
    members = [
        _spec(reader, topics, counts, given)
        for reader in sorted(readers, key=lambda reader: reader.member.instance_id or reader.member.member_id)
    ]
    assigned = assignor(GroupSpec(members, counts)) if members else {}
    return {member.member_id: assigned.get(member.member_id, NOTHING) for member in members}


def _spec(
    reader: Reader, topics: Topics, counts: Mapping[uuid.UUID, int], given: Mapping[uuid.UUID, set[int]]
) -> MemberSpec:
    known = (topics.topic(name) for name in sorted(reader.topics))
    subscribed = sorted(topic.topic_id for topic in known if topic is not None)
    # An earlier target is not trusted, whether it comes from the log or from the leader of a classic group: assignors
    # use partitions as indexes, and keep what a member is said to have. If the target was cut off while it was written,
    # two members may have the same partition.
    former: dict[uuid.UUID, frozenset[int]] = {}
    for topic_id in sorted(reader.former):
        if topic_id in counts:
            count, taken = counts[topic_id], given[topic_id]
            kept = frozenset(number for number in reader.former[topic_id] if 0 <= number < count) - taken
            taken |= kept
            former[topic_id] = kept
    return MemberSpec(reader.member.member_id, reader.member.instance_id, subscribed, former)
