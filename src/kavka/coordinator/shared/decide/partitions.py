"""Which partition of a coordinator's topic keeps a group or a transactional id, and which of several orders counts.

Decides where a key belongs, and whether an order to take a partition over or to give it up still counts. Pure.

    I1  the known leader epoch of a partition never goes back: an order with an older epoch changes nothing, in whatever
        sequence orders arrive (KAFKA-10614)
    I2  a key stays in its partition while its topic exists. With another number of partitions nearly every key would
        belong to another partition, which knows nothing of it: a group's committed offsets would be gone, and a fenced
        producer could write again. kavka's controller does not let these topics grow. Apache Kafka 3.9 and 4.3 do, and
        lose committed offsets at once or when their brokers restart. If such a controller lets the topic grow, this
        broker places keys as before until it restarts

Source: Kafka's Utils.abs(key.hashCode) % partitions, and CoordinatorRuntime's epochs.
"""

from __future__ import annotations

from typing import Final

from kavka.model import LeaderEpoch

_LOWEST_INTEGER: Final = -(1 << 31)


def java_string_hash(text: str) -> int:
    """Java's String.hashCode, by which Kafka places a key: over UTF-16 code units, as a signed 32-bit integer."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8) + units[index + 1]) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(key: str, count: int) -> int:
    """The one of `count` partitions that keeps the key."""
    hashed = java_string_hash(key)
    # Java has no positive counterpart of the lowest integer.
    return (0 if hashed == _LOWEST_INTEGER else abs(hashed)) % count


class Placement:
    """Places keys by the number of partitions that the topic had when it was first heard of (I2)."""

    def __init__(self) -> None:
        self.count = 0
        """0 while there is no topic."""
        self._passed_over = 0

    def learn(self, count: int) -> bool:
        """Takes note of the topic's number of partitions; 0 means that it is gone. Returns False once for each number
        that is ignored."""
        if not count or not self.count:
            self.count, self._passed_over = count, 0
        elif count not in (self.count, self._passed_over):
            self._passed_over = count
            return False
        return True

    def of(self, key: str) -> int:
        """The partition that keeps the key, where there is a topic."""
        return partition_for(key, self.count)


class Leaderships:
    """The latest leader epoch that was heard of each partition."""

    def __init__(self) -> None:
        self._epochs: dict[int, LeaderEpoch] = {}

    def begins(self, partition: int, leader_epoch: LeaderEpoch, *, served: LeaderEpoch | None) -> bool:
        """This broker leads the partition in this epoch: whether it has to be loaded. `served` is the epoch in which it
        is served here already."""
        if leader_epoch < self._epochs.get(partition, -1) or (served is not None and served >= leader_epoch):
            return False
        self._epochs[partition] = leader_epoch
        return True

    def ends(self, partition: int, leader_epoch: LeaderEpoch | None) -> bool:
        """Another broker leads the partition in this epoch (None: it is gone for another reason): whether what is
        served here ends."""
        if leader_epoch is not None:
            if leader_epoch < self._epochs.get(partition, -1):
                return False
            self._epochs[partition] = leader_epoch
        return True

    def forget(self, partition: int) -> None:
        """The partition was deleted: one that is made in its place begins with epochs of its own."""
        self._epochs.pop(partition, None)
