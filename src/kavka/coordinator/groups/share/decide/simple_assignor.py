"""The simple assignor: which members of a share group read which partitions.

Decides it from what each member reads and had before. All members that read the same: the partitions of all topics are
shared out together; otherwise, topic by topic.

    I1  every partition that somebody reads has a member, and every member a partition where there is one that it reads
    I2  no partition has more than `ceil(members / partitions)` members
    I3  a member keeps what it had, as far as I1 and I2 allow

Source: Kafka's SimpleHomogeneousAssignmentBuilder and SimpleHeterogeneousAssignmentBuilder. The numbers per member and
per partition are Kafka's; which partition goes to whom there depends on the order of Java's hash tables, here on names.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from kavka.coordinator.groups.consumer.decide.group import Assignment

_Part = tuple[uuid.UUID, int]


def assign_simple(
    subscriptions: Mapping[str, frozenset[uuid.UUID]],
    partitions: Mapping[uuid.UUID, frozenset[int]],
    former: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Member id to its part. `subscriptions` are by topic id; `partitions` are those that can be assigned."""
    given: dict[str, set[_Part]] = {member_id: set() for member_id in subscriptions}
    topics = sorted({topic_id for read in subscriptions.values() for topic_id in read})
    pools: list[tuple[Sequence[uuid.UUID], list[str]]]
    if len(set(subscriptions.values())) == 1:
        pools = [(topics, sorted(subscriptions))]
    else:
        pools = [
            ([topic_id], sorted(member_id for member_id, read in subscriptions.items() if topic_id in read))
            for topic_id in topics
        ]
    for pool, members in pools:
        parts = [(topic_id, index) for topic_id in pool for index in sorted(partitions.get(topic_id, ()))]
        if parts:
            _share_out(parts, members, former, given)
    return {member_id: _assignment(parts) for member_id, parts in given.items()}


def _share_out(
    parts: Sequence[_Part], members: Sequence[str], former: Mapping[str, Assignment], given: Mapping[str, set[_Part]]
) -> None:
    sharing = -(-len(members) // len(parts))
    total = sharing * len(parts)
    # Kafka's ceil(x * (i + 1)) - ceil(x * i), in whole numbers.
    wanted = {
        member_id: -(-total * (index + 1) // len(members)) - -(-total * index // len(members))
        for index, member_id in enumerate(members)
    }
    readers: dict[_Part, set[str]] = {part: set() for part in parts}
    had: dict[str, int] = dict.fromkeys(members, 0)
    for member_id in members:
        for topic_id, index in _parts(former.get(member_id, {})):
            part = (topic_id, index)
            if part in readers and had[member_id] < wanted[member_id] and len(readers[part]) < sharing:
                readers[part].add(member_id)
                given[member_id].add(part)
                had[member_id] += 1
    for part in parts:
        while len(readers[part]) < sharing:
            # Who lacks most comes first: else the last partitions could be left to members that have them already.
            able = [each for each in members if had[each] < wanted[each] and each not in readers[part]]
            if not able:
                break
            member_id = min(able, key=lambda each: (had[each] - wanted[each], each))
            readers[part].add(member_id)
            given[member_id].add(part)
            had[member_id] += 1


def _parts(assignment: Assignment) -> list[_Part]:
    return sorted((topic_id, index) for topic_id, indexes in assignment.items() for index in indexes)


def _assignment(parts: set[_Part]) -> Assignment:
    found: dict[uuid.UUID, frozenset[int]] = {}
    for topic_id, index in parts:
        found[topic_id] = found.get(topic_id, frozenset()) | {index}
    return found
