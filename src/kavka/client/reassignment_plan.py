"""ReassignmentPlan: where replicas should be, with as few moves as possible, and its JSON form.

Decides on values only: from where replicas are, which brokers may hold them, how large they are. It must not know how
partitions are moved.

The plan, in order; every step picks the smallest replica and the emptiest broker that serve it, so that the same
question gets the same plan:

    1. replicas on brokers that may not hold them, and those over the replication factor, leave
    2. what is missing is filled up
    3. a rack that holds two replicas of a partition gives one to a rack that holds none
    4. the fullest broker gives to the emptiest, until they differ by one replica at the most
    5. the order of replicas (who leads by preference) is turned until brokers lead alike; this moves nothing

Invariants:
I1  Every partition has exactly its replication factor of replicas, on different brokers, all of them allowed.
I2  No step after the third puts two replicas of a partition into one rack where they were in two.
I3  Racks count only if every allowed broker has one, as with new topics.

Source: KIP-36 for racks; the form of the JSON is that of kafka-reassign-partitions. Kafka's own --generate places all
replicas anew, whatever that moves.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kavka.model import TopicPartition

Assignment = Mapping[TopicPartition, tuple[int, ...]]


class PlannedBroker(NamedTuple):
    """A broker that may hold replicas."""

    node_id: int
    rack: str | None = None


class Plan(NamedTuple):
    """Where replicas should be. `moves` has the partitions that change, and `before` their present replicas."""

    before: dict[TopicPartition, tuple[int, ...]]
    moves: dict[TopicPartition, tuple[int, ...]]
    copied: dict[TopicPartition, tuple[int, ...]]
    """The brokers that must copy a partition."""
    bytes_moved: int
    """The bytes that they will copy, by present sizes."""


def plan(
    current: Assignment,
    brokers: Sequence[PlannedBroker],
    sizes: Mapping[TopicPartition, int],
    *,
    replication_factor: int | None = None,
) -> Plan:
    """The plan for `current` on `brokers`; None keeps each partition's replication factor.

    Raises ValueError if there are fewer brokers than a partition needs.
    """
    placing = _Placing(current, brokers, sizes, replication_factor)
    placing.place()
    after = placing.ordered()
    moves = {partition: replicas for partition, replicas in after.items() if replicas != tuple(current[partition])}
    before = {partition: tuple(current[partition]) for partition in moves}
    return compare(before, moves, sizes)


def compare(
    before: Mapping[TopicPartition, Sequence[int]],
    after: Mapping[TopicPartition, Sequence[int]],
    sizes: Mapping[TopicPartition, int],
) -> Plan:
    """The moves from one assignment to another."""
    copied = {
        partition: new
        for partition, replicas in after.items()
        if (new := tuple(replica for replica in replicas if replica not in before[partition]))
    }
    return Plan(
        {partition: tuple(replicas) for partition, replicas in before.items()},
        {partition: tuple(replicas) for partition, replicas in after.items()},
        copied,
        sum(sizes.get(partition, 0) * len(new) for partition, new in copied.items()),
    )


class _Placing:
    """Replicas on their way to where they are planned to be."""

    def __init__(
        self,
        current: Assignment,
        brokers: Sequence[PlannedBroker],
        sizes: Mapping[TopicPartition, int],
        replication_factor: int | None,
    ) -> None:
        self._sizes = sizes
        self._racks = {broker.node_id: broker.rack for broker in sorted(brokers)}
        self._has_racks = all(rack is not None for rack in self._racks.values())
        self._wanted = {
            partition: len(replicas) if replication_factor is None else replication_factor
            for partition, replicas in sorted(current.items())
        }
        for partition, count in self._wanted.items():
            if not 0 < count <= len(self._racks):
                raise ValueError(f"{partition} needs {count} brokers, and {len(self._racks)} are named")
        self._replicas = {
            partition: [replica for replica in current[partition] if replica in self._racks]
            for partition in self._wanted
        }
        self._held: dict[int, list[tuple[int, TopicPartition]]] = {node_id: [] for node_id in self._racks}
        """By broker: (size, partition) of its replicas, sorted."""
        self._looked_at: dict[tuple[int, int], tuple[int, TopicPartition]] = {}
        """By giver and taker: none of the giver's replicas before this one may move there. A level costs no more looks
        than there are replicas, however many of them move."""
        for partition, replicas in self._replicas.items():
            for node_id in replicas:
                insort(self._held[node_id], (self._size(partition), partition))

    def place(self) -> None:
        """Steps 1 to 4."""
        for partition in self._replicas:
            self._drop_surplus(partition)
        for partition in sorted(self._replicas, key=lambda key: (-self._size(key), key)):
            self._fill_up(partition)
        if self._has_racks:
            for partition in self._replicas:
                self._spread_over_racks(partition)
        while self._level():
            pass

    def ordered(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Step 5: the replicas, the preferred leaders first."""
        most = -(-len(self._replicas) // len(self._racks))
        leading = dict.fromkeys(self._racks, 0)
        ordered: dict[TopicPartition, tuple[int, ...]] = {}
        turning = []
        for partition, replicas in self._replicas.items():
            if leading[replicas[0]] < most:
                leading[replicas[0]] += 1
                ordered[partition] = tuple(replicas)
            else:
                turning.append(partition)
        for partition in turning:
            replicas = self._replicas[partition]
            first = min(replicas, key=lambda node_id: (leading[node_id], replicas.index(node_id)))
            leading[first] += 1
            ordered[partition] = (first, *(node_id for node_id in replicas if node_id != first))
        return {partition: ordered[partition] for partition in self._replicas}

    # ------------------------------------------------------------------------------------------------------- steps

    def _drop_surplus(self, partition: TopicPartition) -> None:
        replicas = self._replicas[partition]
        while len(replicas) > self._wanted[partition]:
            # The preferred leader stays; of the others one whose rack has another, on the fullest broker.
            leaving = max(replicas[1:], key=lambda each: (self._shares_rack(partition, each), len(self._held[each])))
            self._move(partition, leaving, None)

    def _fill_up(self, partition: TopicPartition) -> None:
        while len(self._replicas[partition]) < self._wanted[partition]:
            self._move(partition, None, self._emptiest_for(partition))

    def _spread_over_racks(self, partition: TopicPartition) -> None:
        while True:
            taken = [self._racks[replica] for replica in self._replicas[partition]]
            free = [node_id for node_id, rack in self._racks.items() if rack not in taken]
            crowded = [node_id for node_id in self._replicas[partition] if self._shares_rack(partition, node_id)]
            if not free or not crowded:
                return
            leaving = max(crowded, key=lambda node_id: (len(self._held[node_id]), node_id))
            self._move(partition, leaving, min(free, key=lambda node_id: (len(self._held[node_id]), node_id)))

    def _level(self) -> bool:
        """One replica from a fuller broker to an emptier one; whether there was one."""
        by_load = sorted(self._racks, key=lambda node_id: (len(self._held[node_id]), node_id))
        for giver in reversed(by_load):
            for taker in by_load:
                if len(self._held[giver]) - len(self._held[taker]) < 2:
                    break
                partition = self._movable(giver, taker)
                if partition is not None:
                    self._move(partition, giver, taker)
                    return True
        return False

    def _movable(self, giver: int, taker: int) -> TopicPartition | None:
        held = self._held[giver]
        looked_at = self._looked_at.get((giver, taker))
        for place in range(0 if looked_at is None else bisect_left(held, looked_at), len(held)):
            self._looked_at[giver, taker] = held[place]
            partition = held[place][1]
            replicas = self._replicas[partition]
            if taker in replicas:
                continue
            others = [self._racks[replica] for replica in replicas if replica != giver]
            if self._has_racks and self._racks[taker] in others and self._racks[giver] not in others:
                continue
            return partition
        return None

    def _emptiest_for(self, partition: TopicPartition) -> int:
        replicas = self._replicas[partition]
        taken = [self._racks[replica] for replica in replicas] if self._has_racks else []
        return min(
            (node_id for node_id in self._racks if node_id not in replicas),
            key=lambda node_id: (self._racks[node_id] in taken, len(self._held[node_id]), node_id),
        )

    def _shares_rack(self, partition: TopicPartition, node_id: int) -> bool:
        if not self._has_racks:
            return False
        return [self._racks[replica] for replica in self._replicas[partition]].count(self._racks[node_id]) > 1

    def _move(self, partition: TopicPartition, leaving: int | None, coming: int | None) -> None:
        replicas = self._replicas[partition]
        entry = (self._size(partition), partition)
        if leaving is not None:
            place = replicas.index(leaving)
            del replicas[place]
            del self._held[leaving][bisect_left(self._held[leaving], entry)]
        else:
            place = len(replicas)
        if coming is not None:
            replicas.insert(place, coming)
            insort(self._held[coming], entry)
        for pair, looked_at in self._looked_at.items():
            if looked_at > entry and pair[0] in replicas:
                self._looked_at[pair] = entry

    def _size(self, partition: TopicPartition) -> int:
        return self._sizes.get(partition, 0)


# ---------------------------------------------------------------------------------------------------------------- JSON


class MalformedPlan(ValueError):
    """A text that is not a reassignment. The message says where and why."""


def to_json(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """The form that kafka-reassign-partitions reads and writes; one line."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": ["any"] * len(replicas),
        }
        for partition, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def from_json(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Reads the output of `to_json` or Kafka's tool. Empty if nothing moves. Raises MalformedPlan."""
    if not text.strip():
        raise MalformedPlan("it is empty")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise MalformedPlan(f"it is not valid JSON: {problem}") from problem
    if not isinstance(document, dict) or document.get("version", 1) != 1:
        raise MalformedPlan('it is not a reassignment: {"version":1,"partitions":[...]} is expected')
    entries = document.get("partitions")
    if not isinstance(entries, list):
        raise MalformedPlan('it has no list of "partitions"')
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(entries):
        partition, replicas = _entry(entry, f"entry {number} of its partitions")
        if partition in found:
            raise MalformedPlan(f"it names {partition} twice")
        found[partition] = replicas
    return found


def _entry(entry: Any, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise MalformedPlan(f"{where} is not an object: {entry!r}")
    topic, number, replicas = entry.get("topic"), entry.get("partition"), entry.get("replicas")
    if not isinstance(topic, str) or type(number) is not int:
        raise MalformedPlan(f'{where} lacks "topic" or "partition": {entry!r}')
    partition = TopicPartition(topic, number)
    if not isinstance(replicas, list) or not replicas or any(type(each) is not int for each in replicas):
        raise MalformedPlan(f'{where}, {partition}: "replicas" must be a list of broker ids, at least one')
    if len(set(replicas)) != len(replicas):
        raise MalformedPlan(f"{where}, {partition}: a broker is named twice: {replicas}")
    directories = entry.get("log_dirs", [])
    if not isinstance(directories, list) or any(directory != "any" for directory in directories):
        raise MalformedPlan(f'{where}, {partition}: a log directory is named; only "any" is supported')
    return partition, tuple(replicas)
