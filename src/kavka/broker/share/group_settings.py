"""The settings of a share group, held between the broker's smallest and largest.

Source: Kafka's GroupConfig, ShareGroupConfig and GroupCoordinatorConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from kavka.config.broker import BrokerConfig
from kavka.config.group import DEAD_LETTERS_FROM, held
from kavka.config.remembered import RememberedValues
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

    return ShareSettings(
        ShareLimits(
            held(config, overrides, "share.delivery.count.limit"),
            held(config, overrides, "share.record.lock.duration.ms"),
            held(config, overrides, "share.partition.max.record.locks"),
            RecordState.ARCHIVING if has_dead_letters else RecordState.ARCHIVED,
        ),
        overrides.get("share.isolation.level", "read_uncommitted") == "read_committed",
        overrides.get("share.auto.offset.reset", "latest"),
        _is_on(overrides.get("share.renew.acknowledge.enable", "true")),
    )


class RememberedSettings:
    """What `share_settings` says of each group, until something that it comes from is another."""

    def __init__(self) -> None:
        self._begin(0)

    def _begin(self, share_version: int) -> None:
        self._version = share_version
        self._settings = RememberedValues(partial(share_settings, share_version=share_version))

    def of(
        self, group_id: str, config: BrokerConfig, overrides: Mapping[str, str], share_version: int
    ) -> ShareSettings:
        if share_version != self._version:
            self._begin(share_version)
        return self._settings.of(group_id, config, overrides)


def share_group_limits(config: BrokerConfig, overrides: Mapping[str, str]) -> ShareGroupLimits:
    """What holds for the members of a group that sets `overrides` itself."""
    return ShareGroupLimits(
        session_timeout_ms=held(config, overrides, "share.session.timeout.ms"),
        heartbeat_interval_ms=held(config, overrides, "share.heartbeat.interval.ms"),
        max_size=config.group_share_max_size,
        assignment_interval_ms=held(config, overrides, "share.assignment.interval.ms"),
        initialize_retry_ms=config.group_share_initialize_retry_interval_ms,
    )
