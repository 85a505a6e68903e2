"""The settings of a share group, held between the broker's smallest and largest.

Source: Kafka's GroupConfig, ShareGroupConfig and GroupCoordinatorConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.config.broker import BrokerConfig
from kavka.config.group import DEAD_LETTERS_FROM
from kavka.coordinator.groups.share.decide.group import ShareGroupLimits
from kavka.share.decide.dead_letters import DeadLetters
from kavka.share.decide.share_partition import ShareLimits
from kavka.share.decide.spans import RecordState


class ShareSettings(NamedTuple):
    """What holds for the records of one group. `reset` says where it begins to read."""

    limits: ShareLimits
    reads_committed: bool
    reset: str
    may_renew: bool


def _is_on(text: str) -> bool:
    """What is kept is the text of who set it: TRUE is taken, too."""
    return text.strip().lower() == "true"


def dead_letters(config: BrokerConfig, overrides: Mapping[str, str]) -> DeadLetters:
    """Of a group that sets `overrides` itself, whatever the cluster's share.version is: it may have been higher."""
    return DeadLetters(
        overrides.get("errors.deadletterqueue.topic.name", ""),
        _is_on(overrides.get("errors.deadletterqueue.copy.record.enable", "false")),
        config.errors_deadletterqueue_topic_name_prefix,
        config.errors_deadletterqueue_auto_create_topics_enable,
    )


def share_settings(config: BrokerConfig, overrides: Mapping[str, str], share_version: int) -> ShareSettings:
    """Of a group that sets `overrides` itself."""
    has_dead_letters = share_version >= DEAD_LETTERS_FROM and bool(overrides.get("errors.deadletterqueue.topic.name"))

    def own(name: str, default: int, lowest: int, highest: int) -> int:
        return max(lowest, min(int(overrides.get(name, default)), highest))

    return ShareSettings(
        ShareLimits(
            own(
                "share.delivery.count.limit",
                config.group_share_delivery_count_limit,
                config.group_share_min_delivery_count_limit,
                config.group_share_max_delivery_count_limit,
            ),
            own(
                "share.record.lock.duration.ms",
                config.group_share_record_lock_duration_ms,
                config.group_share_min_record_lock_duration_ms,
                config.group_share_max_record_lock_duration_ms,
            ),
            own(
                "share.partition.max.record.locks",
                config.group_share_partition_max_record_locks,
                config.group_share_min_partition_max_record_locks,
                config.group_share_max_partition_max_record_locks,
            ),
            RecordState.ARCHIVING if has_dead_letters else RecordState.ARCHIVED,
        ),
        overrides.get("share.isolation.level", "read_uncommitted") == "read_committed",
        overrides.get("share.auto.offset.reset", "latest"),
        _is_on(overrides.get("share.renew.acknowledge.enable", "true")),
    )


def share_group_limits(config: BrokerConfig, overrides: Mapping[str, str]) -> ShareGroupLimits:
    """What holds for the members of a group that sets `overrides` itself."""

    def own(name: str, default: int, lowest: int, highest: int) -> int:
        return max(lowest, min(int(overrides.get(name, default)), highest))

    return ShareGroupLimits(
        session_timeout_ms=own(
            "share.session.timeout.ms",
            config.group_share_session_timeout_ms,
            config.group_share_min_session_timeout_ms,
            config.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=own(
            "share.heartbeat.interval.ms",
            config.group_share_heartbeat_interval_ms,
            config.group_share_min_heartbeat_interval_ms,
            config.group_share_max_heartbeat_interval_ms,
        ),
        max_size=config.group_share_max_size,
        assignment_interval_ms=own(
            "share.assignment.interval.ms",
            config.group_share_assignment_interval_ms,
            config.group_share_min_assignment_interval_ms,
            config.group_share_max_assignment_interval_ms,
        ),
        initialize_retry_ms=config.group_share_initialize_retry_interval_ms,
    )
