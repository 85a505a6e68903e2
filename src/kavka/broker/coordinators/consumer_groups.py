"""What consumer groups (KIP-848) are given by the broker: the topics that it knows, and their settings.

Decides how the broker's and a group's own settings become the limits of a group. Must not know members or assignments.

    I1  a group's own session time-out and heartbeat interval are held between the broker's smallest and largest

Source: Kafka's GroupCoordinatorConfig and GroupConfig.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.config.broker import BrokerConfig
from kavka.config.group import held
from kavka.coordinator.groups.consumer.decide.assignors import RANGE, UNIFORM
from kavka.coordinator.groups.consumer.decide.group import ConsumerGroupLimits
from kavka.coordinator.groups.consumer.decide.target_assignment import TopicInfo

_ASSIGNORS: Final[Mapping[str, str]] = {
    UNIFORM: UNIFORM,
    RANGE: RANGE,
    # Under these names Apache Kafka 3.9 has them in its configuration.
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UNIFORM,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RANGE,
}


class KnownTopics:
    """The metadata cache as assignments look at it."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    @property
    def version(self) -> int:
        return self._metadata.topics_version

    def topic(self, name: str) -> TopicInfo | None:
        topic = self._metadata.topic(name)
        return None if topic is None else TopicInfo(topic.topic_id, len(topic.partitions))

    def name(self, topic_id: uuid.UUID) -> str | None:
        return self._metadata.topic_name(topic_id)

    def names(self) -> Sequence[str]:
        return [topic.name for topic in self._metadata.topics()]


def consumer_group_limits(config: BrokerConfig, overrides: Mapping[str, str]) -> ConsumerGroupLimits:
    """The limits of a group that sets `overrides` itself."""
    named = (_ASSIGNORS.get(name) for name in config.group_consumer_assignors)
    policy = config.group_consumer_migration_policy.lower()
    return ConsumerGroupLimits(
        session_timeout_ms=held(config, overrides, "consumer.session.timeout.ms"),
        heartbeat_interval_ms=held(config, overrides, "consumer.heartbeat.interval.ms"),
        max_size=config.group_consumer_max_size,
        # Assignors of one's own are Java classes: without one of ours in the list, ours are used.
        assignors=tuple(dict.fromkeys(name for name in named if name is not None)) or (UNIFORM, RANGE),
        assignment_interval_ms=held(config, overrides, "consumer.assignment.interval.ms"),
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        upgrade_allowed=policy in ("upgrade", "bidirectional"),
        downgrade_allowed=policy in ("downgrade", "bidirectional"),
    )
