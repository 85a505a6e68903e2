"""The settings that belong to a consumer group and to a subscription to clients' metrics.

Decides names, types, defaults and ranges, and how the broker bounds what a group sets. Must not know groups or metrics.

Source: Kafka's GroupConfig and ClientMetricsConfigs of 4.3 (3.9 has the client metrics only); dead letters of 4.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kavka.config.broker_settings import BrokerSettings
from kavka.config.setting import (
    MEDIUM,
    Range,
    Settings,
    at_least,
    boolean,
    integer,
    one_of,
    parse_list,
    string,
    string_list,
)
from kavka.errors import ConfigError

DEAD_LETTERS_FROM: Final = 2
"""The share.version from which on records that a share group gives up have dead letters."""
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class AutoOffsetReset(Range):
    """Where a share group starts: an end of the log, or a duration back such as by_duration:PT1H."""

    __slots__ = ()

    def refusal(self, name: str, value: str) -> tuple[object, str] | None:
        if value in ("latest", "earliest") or value.lower().startswith("by_duration:p"):
            return None
        return value, f"String must be one of: {self}"

    def __str__(self) -> str:
        return "latest, earliest, by_duration:PnDTnHnMn.nS"


class DeadLetterTopic(Range):
    """The name of a topic that is not the cluster's own; empty for none."""

    __slots__ = ()

    def refusal(self, name: str, value: str) -> tuple[object, str] | None:
        if value.startswith("__"):
            return value, "DLQ topic name must not start with '__'"
        if value and (value in (".", "..") or not _TOPIC_NAME.fullmatch(value)):
            return value, "No topic can have this name"
        return None

    def __str__(self) -> str:
        return "a topic's name that does not start with __"


class GroupSettings(Settings):
    """The table of a group's settings."""

    consumer_assignment_interval_ms = integer(1_000, at_least(0), newer=True)
    consumer_heartbeat_interval_ms = integer(5_000, at_least(1), newer=True)
    consumer_session_timeout_ms = integer(45_000, at_least(1), newer=True)
    errors_deadletterqueue_copy_record_enable = boolean(False, MEDIUM, newer=True)
    errors_deadletterqueue_topic_name = string("", DeadLetterTopic(), newer=True)
    share_assignment_interval_ms = integer(1_000, at_least(0), newer=True)
    share_auto_offset_reset = string("latest", AutoOffsetReset(), newer=True)
    share_delivery_count_limit = integer(5, at_least(2), newer=True)
    share_heartbeat_interval_ms = integer(5_000, at_least(1), newer=True)
    share_isolation_level = string("read_uncommitted", one_of("read_committed", "read_uncommitted"), newer=True)
    share_partition_max_record_locks = integer(2_000, at_least(100), newer=True)
    share_record_lock_duration_ms = integer(30_000, at_least(1_000), newer=True)
    share_renew_acknowledge_enable = boolean(True, MEDIUM, newer=True)
    share_session_timeout_ms = integer(45_000, at_least(1), newer=True)
    streams_assignment_interval_ms = integer(1_000, at_least(0), newer=True)
    streams_heartbeat_interval_ms = integer(5_000, at_least(1), newer=True)
    streams_initial_rebalance_delay_ms = integer(3_000, at_least(0), newer=True)
    streams_num_standby_replicas = integer(0, at_least(0), newer=True)
    streams_session_timeout_ms = integer(45_000, at_least(1), newer=True)


BOUNDED: Final[Mapping[str, tuple[str, str]]] = {
    "consumer.session.timeout.ms": (
        "group_consumer_min_session_timeout_ms",
        "group_consumer_max_session_timeout_ms",
    ),
    "consumer.heartbeat.interval.ms": (
        "group_consumer_min_heartbeat_interval_ms",
        "group_consumer_max_heartbeat_interval_ms",
    ),
    "consumer.assignment.interval.ms": (
        "group_consumer_min_assignment_interval_ms",
        "group_consumer_max_assignment_interval_ms",
    ),
    "streams.session.timeout.ms": (
        "group_streams_min_session_timeout_ms",
        "group_streams_max_session_timeout_ms",
    ),
    "streams.heartbeat.interval.ms": (
        "group_streams_min_heartbeat_interval_ms",
        "group_streams_max_heartbeat_interval_ms",
    ),
    "streams.assignment.interval.ms": (
        "group_streams_min_assignment_interval_ms",
        "group_streams_max_assignment_interval_ms",
    ),
    "streams.num.standby.replicas": ("", "group_streams_max_standby_replicas"),
    "share.session.timeout.ms": ("group_share_min_session_timeout_ms", "group_share_max_session_timeout_ms"),
    "share.heartbeat.interval.ms": ("group_share_min_heartbeat_interval_ms", "group_share_max_heartbeat_interval_ms"),
    "share.assignment.interval.ms": (
        "group_share_min_assignment_interval_ms",
        "group_share_max_assignment_interval_ms",
    ),
    "share.record.lock.duration.ms": (
        "group_share_min_record_lock_duration_ms",
        "group_share_max_record_lock_duration_ms",
    ),
    "share.delivery.count.limit": ("group_share_min_delivery_count_limit", "group_share_max_delivery_count_limit"),
    "share.partition.max.record.locks": (
        "group_share_min_partition_max_record_locks",
        "group_share_max_partition_max_record_locks",
    ),
}
"""What a group may set within bounds, with the attributes of the broker that are the least and the most ("" is 0)."""


def bounds(broker: BrokerSettings, name: str) -> tuple[int, int]:
    """The least and the most that a group may set `name` to, which is one of BOUNDED."""
    least, most = BOUNDED[name]
    return getattr(broker, least) if least else 0, getattr(broker, most)


def held(broker: BrokerSettings, overrides: Mapping[str, str], name: str) -> int:
    """What is in force for a group that sets `overrides` itself: its own value or else the broker's, within the bounds.

    The bounds may have moved since the group set its value, and the broker's own value is held between them, too.
    """
    least, most = bounds(broker, name)
    own = overrides.get(name)
    value: int = getattr(broker, f"group_{name.replace('.', '_')}") if own is None else int(own)
    return max(least, min(value, most))


class ClientMetricsSettings(Settings):
    """The table of a metrics subscription's settings."""

    interval_ms = integer(300_000)
    match = string_list("")
    metrics = string_list("")


MIN_PUSH_INTERVAL_MS: Final = 100
MAX_PUSH_INTERVAL_MS: Final = 3_600_000
MATCHED_BY: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a subscription may ask of a client, each with a regular expression."""
MAX_PATTERN_LENGTH: Final = 1_000


def parse_match(text: str) -> dict[str, re.Pattern[str]]:
    """A subscription's `match`: names out of MATCHED_BY with what the whole value must be like. Raises ConfigError."""
    patterns: dict[str, re.Pattern[str]] = {}
    for element in parse_list(text):
        name, separator, pattern = (part.strip() for part in element.partition("="))
        if not separator or name not in MATCHED_BY or not pattern or len(pattern) > MAX_PATTERN_LENGTH:
            raise ConfigError(f"Illegal client matching pattern: {element}")
        try:
            patterns[name] = re.compile(pattern)
        except (re.error, RecursionError) as error:
            raise ConfigError(f"Illegal client matching pattern: {element}: {error}") from error
    return patterns
