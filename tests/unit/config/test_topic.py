"""TopicConfig: overrides over the broker's settings."""

from __future__ import annotations

import pytest

from kavka.config import BrokerConfig, TopicConfig
from kavka.config.setting import InvalidValue
from kavka.config.topic import TopicSettings, validate_overrides
from kavka.errors import ConfigError

BROKER = BrokerConfig.from_properties({})


def test_every_setting_is_an_attribute() -> None:
    topic = TopicConfig({}, BROKER)
    for row in TopicSettings.rows.values():
        assert row.attribute in TopicConfig.__annotations__
        assert getattr(topic, row.attribute) == row.default, row
    assert not hasattr(topic, "__dict__")


def test_what_is_not_overridden_is_the_brokers() -> None:
    broker = BrokerConfig.from_properties(
        {
            "log.retention.minutes": "1",
            "log.segment.bytes": "99",
            "log.cleanup.policy": "compact",
            "log.roll.hours": "1",
        }
    )
    topic = TopicConfig({"segment.bytes": "100", "flush.ms": "3"}, broker)
    assert (topic.segment_bytes, topic.retention_ms, topic.segment_ms, topic.flush_ms) == (100, 60_000, 3_600_000, 3)
    assert (topic.cleanup_policy, topic.cleanup_compact, topic.cleanup_delete) == (("compact",), True, False)
    assert topic.overrides == {"segment.bytes": "100", "flush.ms": "3"}


def test_timestamps_fall_back_to_the_setting_for_both_directions() -> None:
    topic = TopicConfig({"message.timestamp.difference.max.ms": "5", "message.timestamp.after.max.ms": "6"}, BROKER)
    assert (topic.message_timestamp_before_max_ms, topic.message_timestamp_after_max_ms) == (5, 6)


def test_a_stored_name_that_no_table_has_is_ignored_and_a_bad_value_refused() -> None:
    assert TopicConfig({"of.the.future": "1"}, BROKER).overrides == {"of.the.future": "1"}
    with pytest.raises(InvalidValue):
        TopicConfig({"segment.bytes": "x"}, BROKER)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"segment.bytes": "13"}, "Invalid value 13 for configuration segment.bytes: Value must be at least 14"),
        (
            {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
            "conflict topic config setting min.compaction.lag.ms (2) > max.compaction.lag.ms (1)",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker."),
        ({"remote.log.copy.disable": "true"}, "under Zookeeper's mode"),
    ],
)
def test_overrides_that_a_topic_must_not_have(overrides: dict[str, str | None], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_overrides(overrides, BROKER)
    assert words in str(refused.value)


def test_a_bad_combination_with_the_brokers_settings_is_refused() -> None:
    broker = BrokerConfig.from_properties({"log.cleaner.max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match=r"\(11\) > max.compaction.lag.ms \(10\)"):
        validate_overrides({"min.compaction.lag.ms": "11"}, broker)
