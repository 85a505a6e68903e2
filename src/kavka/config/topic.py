"""TopicConfig: the settings that one topic's logs obey.

Decides which settings a topic may override, which setting of the broker counts where it does not, and which overrides
are refused. Must not know logs, znodes or requests.

I1. A TopicConfig never changes; other overrides or another BrokerConfig make a new one.
I2. An override that `validate_overrides` accepted can be made into a TopicConfig.

Source: Kafka's LogConfig, TopicConfig and ServerTopicConfigSynonyms of 3.9; dead letters of 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from kavka.config.broker import BrokerConfig
from kavka.config.broker_settings import DAY_MS, BrokerSettings
from kavka.config.effect import refuse_unsupported_in_topic
from kavka.config.setting import (
    CLUSTER_WIDE,
    LONG_MAX,
    MEDIUM,
    InvalidValue,
    Range,
    Setting,
    Settings,
    ThrottledReplicas,
    Type,
    Value,
    at_least,
)
from kavka.errors import ConfigError

T = TypeVar("T")
UNLIMITED: Final = -1
"""retention.ms and retention.bytes: no bound."""


class TopicSetting(Setting[T]):
    """A row of the topics' table, with what counts where a topic does not override it."""

    __slots__ = ("broker_attribute", "broker_setting")

    broker_setting: str | None
    """The broker's setting, the first of Kafka's synonyms; None where only the default counts."""
    broker_attribute: str
    """The attribute of BrokerConfig that has the value."""


def like(row: Setting[T], *, valid: Range | None = None, value: str = "", default: Any = None) -> TopicSetting[T]:
    """A topic's setting that means for one topic what the broker's `row` means for all.

    `value` names the BrokerConfig attribute where it is not the row's own.
    """
    made: TopicSetting[T] = TopicSetting(
        row.kind, row.default if default is None else default, valid or row.valid, MEDIUM, CLUSTER_WIDE
    )
    made.broker_setting = row.name
    made.broker_attribute = value or row.attribute
    if row.name == "log.message.downconversion.enable":
        made.importance = row.importance
    return made


def only(kind: Type, default: Value, valid: Range | None = None, *, newer: bool = False) -> TopicSetting[Any]:
    """A topic's setting for which a broker has none."""
    made: TopicSetting[Any] = TopicSetting(kind, default, valid, MEDIUM, CLUSTER_WIDE, newer=newer)
    made.broker_setting = None
    made.broker_attribute = ""
    return made


class TopicSettings(Settings):
    """The table of a topic's settings, one row each."""

    cleanup_policy = like(BrokerSettings.log_cleanup_policy)
    compression_gzip_level = like(BrokerSettings.compression_gzip_level)
    compression_lz4_level = like(BrokerSettings.compression_lz4_level)
    compression_type = like(BrokerSettings.compression_type)
    compression_zstd_level = like(BrokerSettings.compression_zstd_level)
    delete_retention_ms = like(BrokerSettings.log_cleaner_delete_retention_ms)
    errors_deadletterqueue_group_enable = only(Type.BOOLEAN, False, newer=True)
    file_delete_delay_ms = like(BrokerSettings.log_segment_delete_delay_ms)
    flush_messages = like(BrokerSettings.log_flush_interval_messages)
    flush_ms = like(
        BrokerSettings.log_flush_interval_ms, valid=at_least(0), value="log_flush_time_ms", default=LONG_MAX
    )
    follower_replication_throttled_replicas = only(Type.LIST, (), ThrottledReplicas())
    index_interval_bytes = like(BrokerSettings.log_index_interval_bytes)
    leader_replication_throttled_replicas = only(Type.LIST, (), ThrottledReplicas())
    local_retention_bytes = like(BrokerSettings.log_local_retention_bytes)
    local_retention_ms = like(BrokerSettings.log_local_retention_ms)
    max_compaction_lag_ms = like(BrokerSettings.log_cleaner_max_compaction_lag_ms)
    max_message_bytes = like(BrokerSettings.message_max_bytes)
    message_downconversion_enable = like(BrokerSettings.log_message_downconversion_enable)
    message_format_version = like(BrokerSettings.log_message_format_version)
    message_timestamp_after_max_ms = like(
        BrokerSettings.log_message_timestamp_after_max_ms, value="log_message_timestamp_after_limit_ms"
    )
    message_timestamp_before_max_ms = like(
        BrokerSettings.log_message_timestamp_before_max_ms, value="log_message_timestamp_before_limit_ms"
    )
    message_timestamp_difference_max_ms = like(BrokerSettings.log_message_timestamp_difference_max_ms)
    message_timestamp_type = like(BrokerSettings.log_message_timestamp_type)
    min_cleanable_dirty_ratio = like(BrokerSettings.log_cleaner_min_cleanable_ratio)
    min_compaction_lag_ms = like(BrokerSettings.log_cleaner_min_compaction_lag_ms)
    min_insync_replicas = like(BrokerSettings.min_insync_replicas)
    preallocate = like(BrokerSettings.log_preallocate)
    remote_log_copy_disable = only(Type.BOOLEAN, False)
    remote_log_delete_on_disable = only(Type.BOOLEAN, False)
    remote_storage_enable = only(Type.BOOLEAN, False)
    retention_bytes = like(BrokerSettings.log_retention_bytes)
    retention_ms = like(
        BrokerSettings.log_retention_ms, valid=at_least(-1), value="log_retention_time_ms", default=7 * DAY_MS
    )
    segment_bytes = like(BrokerSettings.log_segment_bytes)
    segment_index_bytes = like(BrokerSettings.log_index_size_max_bytes)
    segment_jitter_ms = like(
        BrokerSettings.log_roll_jitter_ms, valid=at_least(0), value="log_roll_jitter_time_ms", default=0
    )
    segment_ms = like(BrokerSettings.log_roll_ms, valid=at_least(1), value="log_roll_time_ms", default=7 * DAY_MS)
    unclean_leader_election_enable = like(BrokerSettings.unclean_leader_election_enable)


_ROWS: Final[dict[str, TopicSetting[Any]]] = {
    name: row for name, row in TopicSettings.rows.items() if isinstance(row, TopicSetting)
}


class TopicConfig:
    """The effective settings of one topic; sizes in bytes, times in ms. Attributes are those of `TopicSettings`."""

    __slots__ = (*(row.attribute for row in _ROWS.values()), "cleanup_compact", "cleanup_delete", "overrides")

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_downconversion_enable: bool
    message_format_version: str
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_difference_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    cleanup_compact: bool
    """cleanup.policy has compact."""
    cleanup_delete: bool
    """cleanup.policy has delete."""
    overrides: Mapping[str, str]
    """The texts that the topic overrides, by setting."""

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        """Raises InvalidValue for a malformed override; a name that no table has is kept and ignored."""
        for name, value in effective_values(overrides, broker).items():
            setattr(self, _ROWS[name].attribute, value)
        self.overrides = dict(overrides)
        self.cleanup_compact = "compact" in self.cleanup_policy
        self.cleanup_delete = "delete" in self.cleanup_policy
        difference_ms = self.message_timestamp_difference_max_ms
        if self.message_timestamp_before_max_ms == LONG_MAX:
            self.message_timestamp_before_max_ms = difference_ms
        if self.message_timestamp_after_max_ms == LONG_MAX:
            self.message_timestamp_after_max_ms = difference_ms


def effective_values(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, Any]:
    """Every setting of a topic with its value: the override, else the broker's, else the default."""
    values: dict[str, Any] = {}
    for name, row in _ROWS.items():
        text = overrides.get(name)
        if text is not None:
            values[name] = row.parse(text)
        else:
            values[name] = getattr(broker, row.broker_attribute) if row.broker_attribute else row.default
    return values


def validate_overrides(texts: Mapping[str, str], broker: BrokerConfig) -> None:
    """Refuses overrides that a topic must not have, with Kafka's message (error INVALID_CONFIG).

    Raises InvalidValue for one bad value, ConfigError for an unknown name or a bad combination.
    """
    for name in texts:
        if name not in _ROWS:
            raise ConfigError(f"Unknown topic config name: {name}")
    values = effective_values(texts, broker)
    low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    if values["remote.storage.enable"] and not broker.remote_log_storage_system_enable:
        raise TieredStorageDisabled(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    for name in ("remote.log.delete.on.disable", "remote.log.copy.disable"):
        if values[name]:
            raise ConfigError(
                "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` "
                "under Zookeeper's mode."
            )
    for name in texts:
        refuse_unsupported_in_topic(_ROWS[name], values[name])


def unusable_overrides(overrides: Mapping[str, str]) -> dict[str, str]:
    """Overrides that were found and cannot be in force, each with the reason: malformed ones, and those that ask for
    what is not supported. Apache Kafka may have written them."""
    refused: dict[str, str] = {}
    for name, text in overrides.items():
        if (row := _ROWS.get(name)) is not None:
            try:
                refuse_unsupported_in_topic(row, row.parse(text))
            except InvalidValue as refusal:
                refused[name] = str(refusal)
    return refused


class TieredStorageDisabled(ConfigError):
    """A topic asks for remote storage of a broker that has none."""
