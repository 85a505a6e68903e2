"""Which partition a record goes to.

Decides as Kafka's Java producer does: murmur2 of the key, so that all clients put a key into the same partition; a
record without a key stays with the partition of the batch that is being filled (sticky, KIP-480). It must not know
connections or buffers: the producer says when a batch is full. Source: Kafka's Utils.murmur2; KIP-480.
"""

from __future__ import annotations

from random import Random

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of `data`, unsigned, with the seed that Kafka uses."""
    length = len(data)
    value = _SEED ^ length
    words = length & ~3
    for start in range(0, words, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        k = (k ^ k >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ k
    if length > words:
        value = (value ^ int.from_bytes(data[words:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition, from 0, that every client following Kafka's default gives to `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Chooses partitions for records without a key: one per topic until its batch is full, then another."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._current: dict[str, int] = {}

    def partition(self, topic: str, available: list[int]) -> int:
        """One of `available` (partitions with a leader; not empty). It stays the same until `batch_filled`."""
        current = self._current.get(topic)
        if current is None or current not in available:
            current = self._current[topic] = self._random.choice(available)
        return current

    def batch_filled(self, topic: str, available: list[int]) -> None:
        """Moves on to another partition, if there is one."""
        others = [partition for partition in available if partition != self._current.get(topic)]
        if others:
            self._current[topic] = self._random.choice(others)
