"""Throttle: how many bytes a second replication may move for partitions that an operator named (KIP-73).

Decides whether a partition is throttled and whether the quota is used up. Must not know who fetches, or what happens
then: a follower leaves throttled partitions out of its requests, and a leader answers them without records. Both let
replicas that are in sync pass: to hold them back would hold producers back.

    I1  the rate is that of the last `samples` windows of `window_ms`; as long as fewer have passed, the missing ones
        count as silent. So an idle throttle lets a burst of (samples - 1) * window_ms * rate bytes through, as Kafka's
    I2  a throttle without a limit, or a partition that nobody named, costs one look

Source: KIP-73; Kafka's ReplicationQuotaManager, and SampledStat and Rate of its metrics.
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
        self._windows: deque[tuple[int, int]] = deque()
        """(number of the window, bytes in it), the oldest first."""
        self._bytes = 0
        """Sum of the windows."""
        self.rate = rate

    @property
    def is_limited(self) -> bool:
        """Whether there is anything to throttle at all."""
        return self.rate != NO_LIMIT and bool(self._throttled)

    def set_replicas(self, topic: str, replicas: Iterable[str]) -> None:
        """Takes over a topic's leader.replication.throttled.replicas or follower.replication.throttled.replicas:
        `*`, or entries PARTITION:BROKER, of which those of this broker count."""
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
        number = now_ms // self._window_ms
        windows = self._windows
        if windows and windows[-1][0] >= number:
            last, before = windows[-1]
            windows[-1] = (last, before + size_bytes)
        else:
            windows.append((number, size_bytes))
        self._bytes += size_bytes
        self._forget(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """True if more than the rate was moved in the last windows."""
        if self.rate == NO_LIMIT:
            return False
        self._forget(now_ms)
        return self._bytes > self._allowed_bytes(now_ms)

    def free_in_ms(self, now_ms: int) -> int:
        """Milliseconds until the quota is free again if nothing is moved; 0 if it is free now."""
        if not self.is_exceeded(now_ms):
            return 0
        # The sum falls only when the oldest window goes.
        bytes_left = self._bytes
        for number, size_bytes in self._windows:
            bytes_left -= size_bytes
            gone_ms = (number + self._samples) * self._window_ms
            if bytes_left <= self._allowed_bytes(gone_ms):
                return max(1, gone_ms - now_ms)
        return self._samples * self._window_ms

    def _allowed_bytes(self, now_ms: int) -> float:
        """The bytes that the windows allow: all windows are whole except the last, which counts as far as it has
        passed."""
        elapsed_ms = (self._samples - 1) * self._window_ms + now_ms % self._window_ms
        return self.rate * elapsed_ms / 1000

    def _forget(self, now_ms: int) -> None:
        oldest = now_ms // self._window_ms - self._samples + 1
        windows = self._windows
        while windows and windows[0][0] < oldest:
            self._bytes -= windows.popleft()[1]
