"""The uniform assignor: members get as many partitions as each other, and keep what they have where that allows it.

    I1  where all members subscribe to the same topics, the numbers of partitions of two members differ by one at most
    I2  a member keeps what it has unless it has too much or does not subscribe to it any more (stickiness)
    I3  where subscriptions differ, the work ends after MAX_ROUNDS looks at every topic

Two ways, by whether all subscribe to the same topics. Same topics: who has more than the quota gives up the rest, who
has less is filled up. Different topics: free partitions go, topic by topic (those with the most partitions per reader
first), to the least loaded reader; then topics are balanced one after the other between the most and the least loaded
of their readers, until a whole round changes nothing.

Source: KIP-848; Kafka's UniformHomogeneousAssignmentBuilder and UniformHeterogeneousAssignmentBuilder, whose results
this reproduces for the same order of members.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from kavka.coordinator.groups.consumer.decide.assignors import GroupSpec, MutableAssignment, frozen
from kavka.coordinator.groups.consumer.decide.group import Assignment

MAX_ROUNDS: Final = 16
"""Kafka's: each round about halves the imbalance that is left."""
_NOBODY = -1


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """See the module's docstring."""
    if not group.members:
        return {}
    if group.is_homogeneous:
        return _assign_same_topics(group)
    return _DifferentTopics(group).build()


def _assign_same_topics(group: GroupSpec) -> dict[str, Assignment]:
    topics = group.members[0].topics
    if not topics:
        return {}
    taken = {
        (topic_id, partition)
        for member in group.members
        for topic_id, partitions in member.assigned.items()
        for partition in partitions
    }
    free = [
        (topic_id, partition)
        for topic_id in topics
        for partition in range(group.partition_counts[topic_id])
        if (topic_id, partition) not in taken
    ]
    quota, with_extra = divmod(sum(group.partition_counts[topic_id] for topic_id in topics), len(group.members))
    result: dict[str, MutableAssignment] = {}
    room: list[tuple[str, int]] = []
    subscribed = frozenset(topics)
    for index, member in enumerate(group.members):
        gets_extra = with_extra > 0
        left = quota + (1 if gets_extra else 0)
        keeps: MutableAssignment = {}
        for topic_id, partitions in member.assigned.items():
            if topic_id not in subscribed:
                continue
            in_order = sorted(partitions)
            keeps[topic_id] = set(in_order[:left])
            free.extend((topic_id, partition) for partition in in_order[left:])
            left -= len(keeps[topic_id])
        result[member.member_id] = keeps
        if left and gets_extra and len(group.members) - index > with_extra:
            # It does not fill its extra place with what it has; some member behind it may.
            left -= 1
            gets_extra = False
        if gets_extra:
            with_extra -= 1
        if left:
            room.append((member.member_id, left))
    unassigned = iter(free)
    for member_id, left in room:
        for topic_id, partition in islice(unassigned, left):
            result[member_id].setdefault(topic_id, set()).add(partition)
    return {member_id: frozen(assignment) for member_id, assignment in result.items()}


class _DifferentTopics:
    """The second way. Members are numbers, in the order given; so are owners."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._readers: dict[uuid.UUID, list[int]] = {}
        for number, member in enumerate(group.members):
            for topic_id in member.topics:
                self._readers.setdefault(topic_id, []).append(number)
        self._sizes = [0] * len(group.members)
        self._owners = {topic_id: [_NOBODY] * group.partition_counts[topic_id] for topic_id in self._readers}

    def build(self) -> dict[str, Assignment]:
        if not self._readers:
            return {}
        self._keep()
        for topic_id in self._in_order(topic_id for topic_id in self._readers if _NOBODY in self._owners[topic_id]):
            balancer = _Balancer(self._readers[topic_id], self._sizes)
            for partition, owner in enumerate(self._owners[topic_id]):
                if owner == _NOBODY:
                    self._give(topic_id, partition, balancer.next_least_loaded())
        self._balance()
        result: dict[str, MutableAssignment] = {member.member_id: {} for member in self._group.members}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner != _NOBODY:
                    result[self._group.members[owner].member_id].setdefault(topic_id, set()).add(partition)
        return {member_id: frozen(assignment) for member_id, assignment in result.items()}

    def _keep(self) -> None:
        for number, member in enumerate(self._group.members):
            subscribed = frozenset(member.topics)
            for topic_id, partitions in member.assigned.items():
                if topic_id in subscribed:
                    for partition in partitions:
                        self._give(topic_id, partition, number)

    def _give(self, topic_id: uuid.UUID, partition: int, number: int) -> None:
        former = self._owners[topic_id][partition]
        if former != _NOBODY:
            self._sizes[former] -= 1
        self._owners[topic_id][partition] = number
        self._sizes[number] += 1

    def _in_order(self, topics: Iterable[uuid.UUID]) -> list[uuid.UUID]:
        """Most partitions per reader first, then fewest readers, then by id as Kafka compares it (as signed halves)."""

        def key(topic_id: uuid.UUID) -> tuple[float, int, int, int]:
            readers = len(self._readers[topic_id])
            return (
                -(self._group.partition_counts[topic_id] / readers),
                readers,
                _signed(topic_id.int >> 64),
                _signed(topic_id.int & 0xFFFF_FFFF_FFFF_FFFF),
            )

        return sorted(topics, key=key)

    def _balance(self) -> None:
        topics = self._in_order(topic_id for topic_id, readers in self._readers.items() if len(readers) >= 2)
        last_changed = -1
        for _ in range(MAX_ROUNDS):
            for index, topic_id in enumerate(topics):
                if index == last_changed:
                    return  # Nothing has changed since this topic was balanced.
                if self._balance_topic(topic_id) or last_changed == -1:
                    last_changed = index

    def _balance_topic(self, topic_id: uuid.UUID) -> bool:
        """Moves partitions of the topic from its most to its least loaded readers; whether it moved any."""
        balancer = _Balancer(self._readers[topic_id], self._sizes)
        if balancer.imbalance <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while not balancer.is_balanced:
            donor = balancer.next_most_loaded()
            while donor is not None and not owned.get(donor):
                balancer.exclude_most_loaded()
                donor = balancer.next_most_loaded()
            if donor is None:
                break
            partition = owned[donor].pop()
            recipient = balancer.next_least_loaded()
            if balancer.is_balanced:
                break
            self._give(topic_id, partition, recipient)
            moved = True
        return moved


class _Balancer:
    """Hands out a topic's readers by load, least loaded and most loaded ones, as if each had taken or given one.

    Readers are sorted by load when it is made; `sizes` goes on changing with what is moved. Two ranges grow from both
    ends: `_low_end` readers at the bottom are brought to one level after the other, likewise those at the top between
    `_high_start` and `_high_end`; behind `_high_end` stand those that have nothing to give.
    """

    def __init__(self, readers: Sequence[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._order = sorted(readers, key=lambda number: (sizes[number], number))
        lowest, highest = sizes[self._order[0]], sizes[self._order[-1]]
        self.imbalance = highest - lowest
        self._low_end = 0
        self._low_level = lowest - 1
        self._next_low = 0
        self._high_start = self._high_end = len(self._order)
        self._high_level = highest + 1
        self._next_high = len(self._order) - 1

    @property
    def is_balanced(self) -> bool:
        return self._high_level - self._low_level <= 1

    def next_least_loaded(self) -> int:
        if self._next_low >= self._low_end:
            # All of the range are one higher now: who starts at that level joins them.
            self._low_level += 1
            while self._low_end < len(self._order) and self._size(self._low_end) == self._low_level:
                self._low_end += 1
            self._next_low = 0
        number = self._order[self._next_low]
        self._next_low += 1
        return number

    def next_most_loaded(self) -> int | None:
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._size(self._high_start - 1)
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._size(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        number = self._order[self._next_high]
        self._next_high -= 1
        return number

    def exclude_most_loaded(self) -> None:
        """The reader that was named last has nothing to give."""
        place, last = self._next_high + 1, self._high_end - 1
        self._order[place], self._order[last] = self._order[last], self._order[place]
        self._high_end -= 1

    def _size(self, place: int) -> int:
        return self._sizes[self._order[place]]


def _signed(half: int) -> int:
    return half - (1 << 64) if half >= 1 << 63 else half
