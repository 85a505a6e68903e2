"""Throttle: how many bytes a second replication may move for partitions that an operator named (KIP-73).

Decides whether a partition is throttled and whether the quota is used up. Must not know who fetches, or what happens
then: a follower leaves throttled partitions out of its requests, and a leader answers them without records. Both let
replicas that are in sync pass: to hold them back would hold producers back.

    I1  the rate is that since the first byte of the last `samples` windows of `window_ms`, over one window at least. So
        an idle throttle lets a burst of one window's bytes through, as Kafka's: its rate is a SimpleRate, where that of
        clients' quotas is a Rate, which counts windows that have not passed as silent
    I2  a throttle without a limit, or a partition that nobody named, costs one look

Source: KIP-73; Kafka's ReplicationQuotaManager, and SampledStat and SimpleRate of its metrics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from kavka.model import BrokerId, TopicPartition

NO_LIMIT: Final = 2**63 - 1
"""Default of leader.replication.throttled.rate and follower.replication.throttled.rate."""
DEFAULT_SAMPLES: Final = 11
"""replication.quota.window.num"""
DEFAULT_WINDOW_MS: Final = 1_000
"""replication.quota.window.size.seconds"""
ALL_REPLICAS: Final = "*"
_NEVER_MS: Final = 2**62


class _Sample:
    """Bytes since `start_ms`, for one window; the last of them came at `last_ms`."""

    __slots__ = ("last_ms", "size_bytes", "start_ms")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = self.last_ms = start_ms
        self.size_bytes = 0


class Throttle:
    """One side's quota, of followers or of leaders, on one broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        rate: int = NO_LIMIT,
        samples: int = DEFAULT_SAMPLES,
        window_ms: int = DEFAULT_WINDOW_MS,
    ) -> None:
        """`rate` in bytes a second."""
        self._broker_id = broker_id
        self._samples = samples
        self._window_ms = window_ms
        self._throttled: dict[str, frozenset[int] | None] = {}
        """By topic, the partitions that are throttled here; None: all of them."""
        self._samples_so_far: deque[_Sample] = deque(maxlen=samples + 1)
        """The oldest first. A new one begins with the first bytes after the last one's window."""
        self.rate = rate
        self.lists_set = 0
        """How often `set_replicas` was called."""

    @property
    def is_limited(self) -> bool:
        """Whether there is anything to throttle at all."""
        return self.rate != NO_LIMIT and bool(self._throttled)

    def set_replicas(self, topic: str, replicas: Iterable[str]) -> None:
        """Takes over a topic's leader.replication.throttled.replicas or follower.replication.throttled.replicas:
        `*`, or entries PARTITION:BROKER, of which those of this broker count."""
        self.lists_set += 1
        entries = list(replicas)
        if ALL_REPLICAS in entries:
            self._throttled[topic] = None
            return
        mine = str(int(self._broker_id))
        partitions = frozenset(
            int(partition)
            for partition, _, broker in (entry.partition(":") for entry in entries if entry)
            if broker == mine
        )
        if partitions:
            self._throttled[topic] = partitions
        else:
            self._throttled.pop(topic, None)

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition was named."""
        topic, partition = topic_partition
        if topic not in self._throttled:
            return False
        partitions = self._throttled[topic]
        return partitions is None or partition in partitions

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Bytes of throttled partitions that were moved."""
        if not size_bytes:
            return
        samples = self._samples_so_far
        if not samples or now_ms - samples[-1].start_ms >= self._window_ms:
            samples.append(_Sample(now_ms))
        samples[-1].size_bytes += size_bytes
        samples[-1].last_ms = now_ms

    def is_exceeded(self, now_ms: int) -> bool:
        """True if more than the rate was moved."""
        if self.rate == NO_LIMIT:
            return False
        samples = self._samples_so_far
        while samples and now_ms - samples[0].last_ms >= self._span_ms:
            samples.popleft()
        return bool(samples) and now_ms < self._free_at_ms(0)

    def free_in_ms(self, now_ms: int) -> int:
        """Milliseconds until the quota is free again if nothing is moved; 0 if it is free now."""
        if not self.is_exceeded(now_ms):
            return 0
        # The rate falls as time passes, and when the oldest sample goes.
        counts_from_ms = now_ms
        for first, sample in enumerate(self._samples_so_far):
            gone_ms = sample.last_ms + self._span_ms
            free_ms = max(self._free_at_ms(first), counts_from_ms)
            if free_ms < gone_ms:
                return free_ms - now_ms
            counts_from_ms = gone_ms
        return counts_from_ms - now_ms

    @property
    def _span_ms(self) -> int:
        return self._samples * self._window_ms

    def _free_at_ms(self, first: int) -> int:
        """When the samples from `first` on are down to the rate; with a rate of 0 never."""
        samples = self._samples_so_far
        size_bytes = sum(samples[index].size_bytes for index in range(first, len(samples)))
        if size_bytes * 1000 <= self.rate * self._window_ms:
            return 0
        if self.rate <= 0:
            return _NEVER_MS
        return samples[first].start_ms + -(-size_bytes * 1000 // self.rate)
