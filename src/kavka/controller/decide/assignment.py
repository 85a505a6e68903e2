"""Which brokers get the replicas of new partitions.

Decides from broker ids, racks and a random source. It knows nothing of load, disks or existing leaders.

Invariants:
I1  Replicas of one partition are on different brokers, and on different racks as far as there are racks enough.
I2  Leaders (first replicas) go round the brokers; followers are shifted by one more after each round, so that the
    partitions of one failed leader spread over all other brokers.
I3  Every broker holds nearly as many replicas as every other; the algorithm is Kafka's, so a plan made by either for
    the same start index and shift is the same.

Source: Kafka's AdminUtils.assignReplicasToBrokers and KIP-36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from kavka.errors import ErrorCode, RequestError
from kavka.model import BrokerId

Assignment = dict[int, tuple[BrokerId, ...]]
"""Partition to its replicas; the first is the preferred leader."""


class BrokerRack(NamedTuple):
    """A broker that may get replicas, and where it stands."""

    broker_id: BrokerId
    rack: str | None = None


class RandomSource(Protocol):
    """What is drawn from: a random.Random."""

    def randrange(self, stop: int, /) -> int: ...

    def randbytes(self, count: int, /) -> bytes: ...


def assign_replicas(
    brokers: Sequence[BrokerRack], partition_count: int, replication_factor: int, rng: RandomSource
) -> Assignment:
    """Replicas for a new topic; start and shift are drawn from `rng`.

    Racks count only if every broker has one. Raises RequestError with INVALID_PARTITIONS or
    INVALID_REPLICATION_FACTOR.
    """
    _check_counts(brokers, partition_count, replication_factor)
    start, shift = rng.randrange(len(brokers)), rng.randrange(len(brokers))
    return _assign(brokers, partition_count, replication_factor, first=0, start=start, shift=shift)


def assign_replicas_from(
    brokers: Sequence[BrokerRack], partition_count: int, replication_factor: int, *, first_partition: int, start: int
) -> Assignment:
    """Replicas for partitions `first_partition`, ..., with start and shift both fixed to `start`. Raises as
    `assign_replicas`."""
    _check_counts(brokers, partition_count, replication_factor)
    return _assign(brokers, partition_count, replication_factor, first=first_partition, start=start, shift=start)


def _check_counts(brokers: Sequence[BrokerRack], partition_count: int, replication_factor: int) -> None:
    if replication_factor <= 0:
        raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if partition_count <= 0:
        raise RequestError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor > len(brokers):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )


def _assign(
    brokers: Sequence[BrokerRack], partition_count: int, replication_factor: int, *, first: int, start: int, shift: int
) -> Assignment:
    ordered = sorted(brokers)
    racks = {broker.broker_id: broker.rack for broker in ordered if broker.rack is not None}
    if len(racks) == len(ordered):
        return _assign_by_rack(racks, partition_count, replication_factor, first, start, shift)
    ids = [broker.broker_id for broker in ordered]
    return _assign_plainly(ids, partition_count, replication_factor, first, start, shift)


def _assign_plainly(
    ids: Sequence[BrokerId], partition_count: int, replication_factor: int, first: int, start: int, shift: int
) -> Assignment:
    assignment: Assignment = {}
    for partition in range(first, first + partition_count):
        if partition > 0 and partition % len(ids) == 0:
            shift += 1
        leader = (partition + start) % len(ids)
        followers = (ids[_follower_index(leader, shift, k, len(ids))] for k in range(replication_factor - 1))
        assignment[partition] = (ids[leader], *followers)
    return assignment


def _assign_by_rack(
    racks: Mapping[BrokerId, str],
    partition_count: int,
    replication_factor: int,
    first: int,
    start: int,
    shift: int,
) -> Assignment:
    ids = interleave_racks(racks)
    rack_count = len(set(racks.values()))
    assignment: Assignment = {}
    for partition in range(first, first + partition_count):
        if partition > 0 and partition % len(ids) == 0:
            shift += 1
        leader = (partition + start) % len(ids)
        replicas = [ids[leader]]
        used_racks = {racks[ids[leader]]}
        k = 0
        while len(replicas) < replication_factor:
            broker = ids[_follower_index(leader, shift * rack_count, k, len(ids))]
            k += 1
            # A rack is used twice only when all are used; a broker never.
            if broker in replicas or (racks[broker] in used_racks and len(used_racks) < rack_count):
                continue
            replicas.append(broker)
            used_racks.add(racks[broker])
        assignment[partition] = tuple(replicas)
    return assignment


def interleave_racks(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Brokers in an order in which neighbours stand in different racks.

    >>> interleave_racks({0: "a", 1: "b", 2: "c", 3: "b", 4: "c", 5: "a"})
    [0, 1, 2, 5, 3, 4]
    """
    by_rack: dict[str, list[BrokerId]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _follower_index(leader: int, shift: int, follower: int, broker_count: int) -> int:
    return (leader + 1 + (shift + follower) % (broker_count - 1)) % broker_count


def added_partitions(
    brokers: Sequence[BrokerRack], first_replicas: Sequence[BrokerId], existing_count: int, added_count: int
) -> Assignment:
    """Replicas for partitions added to a topic: as many as partition 0 has, which are `first_replicas`.

    The start is the place of partition 0's leader, so that the round over the brokers goes on.
    """
    ids = sorted(broker.broker_id for broker in brokers)
    start = next((index for index, broker_id in enumerate(ids) if broker_id >= first_replicas[0]), 0)
    return assign_replicas_from(brokers, added_count, len(first_replicas), first_partition=existing_count, start=start)


def check_manual_assignment(
    assignment: Mapping[int, Sequence[int]],
    known_brokers: AbstractSet[int],
    live_brokers: AbstractSet[int],
    *,
    first_partition: int = 0,
) -> Assignment:
    """The assignment that a client made itself, checked. Raises RequestError with INVALID_REPLICA_ASSIGNMENT.

    Of known brokers some may be down, as long as each partition has one that is alive. Others are refused as by Kafka's
    KRaft controllers; Kafka 3.9 in ZooKeeper mode writes such a topic, and the request times out where nobody leads.
    """
    if sorted(assignment) != list(range(first_partition, first_partition + len(assignment))):
        raise _bad_assignment(
            f"partitions should be a consecutive 0-based integer sequence: {sorted(assignment)}"
            if first_partition == 0
            else f"partitions must follow partition {first_partition - 1}: {sorted(assignment)}"
        )
    for partition, replicas in sorted(assignment.items()):
        if not replicas:
            raise _bad_assignment(f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(set(replicas)) != len(replicas):
            raise _bad_assignment(
                f"Duplicate brokers not allowed in replica assignment: {', '.join(map(str, replicas))} for "
                f"partition id {partition}."
            )
    if len({len(replicas) for replicas in assignment.values()}) > 1:
        raise _bad_assignment("All partitions should have the same number of replicas")
    unknown = sorted({broker for replicas in assignment.values() for broker in replicas} - known_brokers)
    if unknown:
        raise _bad_assignment(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    for partition, replicas in sorted(assignment.items()):
        if live_brokers.isdisjoint(replicas):
            raise _bad_assignment(
                f"All brokers specified in the manual partition assignment for partition {partition} are down or in "
                "controlled shutdown."
            )
    return {partition: tuple(map(BrokerId, assignment[partition])) for partition in sorted(assignment)}


def _bad_assignment(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
