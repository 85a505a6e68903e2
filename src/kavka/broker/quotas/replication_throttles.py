"""Throttles: the two sides of this broker's replication quota (KIP-73), and where their limits and lists come from.

Decides nothing about fetches: `replication.decide.throttle` counts, followers and leaders look. The rates are the
broker's own settings, set at run time; which replicas are throttled is said by their topics.

Source: Kafka's QuotaFactory and TopicConfigHandler.updateThrottledList.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kavka.config.broker import BrokerConfig
from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.throttle import NO_LIMIT, Throttle

_LEADER_REPLICAS = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class Throttles:
    """`follower` bounds what this broker fetches; `withholds` and `note_sent` are the leader's side
    (`replication.follower_fetches.LeaderThrottle`)."""

    def __init__(self, broker_id: BrokerId, config: BrokerConfig, *, now_ms: Callable[[], int]) -> None:
        """`now_ms` never goes back."""
        samples, window_ms = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        self.follower = Throttle(broker_id, samples=samples, window_ms=window_ms)
        self._leader = Throttle(broker_id, samples=samples, window_ms=window_ms)
        self._now_ms = now_ms
        self.move_rate = NO_LIMIT
        """Bytes a second that moves between log directories may copy."""
        self.set_rates(config)

    def withholds(self, topic_partition: TopicPartition, broker_id: BrokerId) -> bool:
        """Whether a follower that is not in sync gets no records now."""
        leader = self._leader
        return leader.is_limited and leader.is_throttled(topic_partition) and leader.is_exceeded(self._now_ms())

    def note_sent(self, topic_partition: TopicPartition, broker_id: BrokerId, size_bytes: int) -> None:
        if self._leader.is_limited and self._leader.is_throttled(topic_partition):
            self._leader.record(size_bytes, self._now_ms())

    def set_rates(self, config: BrokerConfig) -> None:
        """The broker's settings changed."""
        self._leader.rate = _rate(config, "leader.replication.throttled.rate")
        self.follower.rate = _rate(config, "follower.replication.throttled.rate")
        self.move_rate = _rate(config, "replica.alter.log.dirs.io.max.bytes.per.second")

    def set_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """What a topic sets itself changed."""
        self._leader.set_replicas(topic, _entries(overrides.get(_LEADER_REPLICAS)))
        self.follower.set_replicas(topic, _entries(overrides.get(_FOLLOWER_REPLICAS)))


def _rate(config: BrokerConfig, name: str) -> int:
    """Of settings that no file may hold: for this broker, else for all."""
    text = config.dynamic.get(name, config.dynamic_default.get(name))
    return NO_LIMIT if text is None else int(text)


def _entries(text: str | None) -> list[str]:
    return [entry.strip() for entry in text.split(",")] if text else []
