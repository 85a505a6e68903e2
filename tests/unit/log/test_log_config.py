"""The settings of a log: Kafka's defaults, and what is made of several settings."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from kavka.log.log_config import NEVER_MESSAGES, NEVER_MS, UNLIMITED, LogConfig
from kavka.records.batch import TimestampType
from kavka.records.compression import Compression

LONG_MAX = 9_223_372_036_854_775_807
WEEK_MS = 604_800_000

DEFAULTS = {
    "segment_bytes": 1_073_741_824,
    "segment_ms": WEEK_MS,
    "segment_jitter_ms": 0,
    "segment_index_bytes": 10_485_760,
    "index_interval_bytes": 4_096,
    "retention_ms": WEEK_MS,
    "retention_bytes": -1,
    "max_message_bytes": 1_048_588,
    "flush_messages": LONG_MAX,
    "flush_ms": LONG_MAX,
    "file_delete_delay_ms": 60_000,
    "cleanup_delete": True,
    "cleanup_compact": False,
    "message_timestamp_type": TimestampType.CREATE_TIME,
    "message_timestamp_before_max_ms": LONG_MAX,
    "message_timestamp_after_max_ms": LONG_MAX,
    "min_cleanable_dirty_ratio": 0.5,
    "min_compaction_lag_ms": 0,
    "max_compaction_lag_ms": LONG_MAX,
    "delete_retention_ms": 86_400_000,
    "preallocate": False,
    "compression_type": None,
    "compression_level": None,
}
"""Of Kafka 3.9's LogConfig and TopicConfig; no codec stands for `producer`."""


def test_the_defaults_are_kafkas() -> None:
    found = asdict(LogConfig())
    found.pop("produce_rules")
    assert found == DEFAULTS
    assert (UNLIMITED, NEVER_MS, NEVER_MESSAGES) == (-1, LONG_MAX, LONG_MAX)


def test_what_a_producers_batch_is_checked_against_is_made_of_the_settings() -> None:
    rules = LogConfig(
        max_message_bytes=5,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        message_timestamp_before_max_ms=6,
        message_timestamp_after_max_ms=7,
        cleanup_compact=True,
        compression_type=Compression.LZ4,
    ).produce_rules
    assert (rules.max_message_bytes, rules.timestamp_type) == (5, TimestampType.LOG_APPEND_TIME)
    assert (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms) == (6, 7)
    assert (rules.compacted, rules.codec) == (True, Compression.LZ4)
    assert LogConfig(max_message_bytes=5) == LogConfig(max_message_bytes=5)
    assert LogConfig(max_message_bytes=5) != LogConfig()


@pytest.mark.parametrize(
    ("is_compacted", "segment_ms", "lag_ms", "expected"),
    [
        (False, 100, 50, 100),
        (True, 100, 50, 50),
        (True, 100, 150, 100),
        (True, 100, 1, 1),
        (True, 100, 0, 100),
        (True, 100, LONG_MAX, 100),
    ],
)
def test_a_segment_that_compaction_waits_for_is_rolled_sooner(
    is_compacted: bool, segment_ms: int, lag_ms: int, expected: int
) -> None:
    """Kafka's LogConfig.maxSegmentMs."""
    config = LogConfig(segment_ms=segment_ms, cleanup_compact=is_compacted, max_compaction_lag_ms=lag_ms)
    assert config.max_segment_ms == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"flush_messages": LONG_MAX - 1}, True),
        ({"flush_ms": LONG_MAX - 1}, True),
        ({"flush_messages": 1, "flush_ms": 1}, True),
    ],
)
def test_records_or_time_alone_may_ask_for_a_flush(settings: dict[str, int], expected: bool) -> None:
    assert LogConfig(**settings).asks_for_flushes is expected


@pytest.mark.parametrize(
    ("jitter_ms", "segment_ms", "limits"), [(0, 100, []), (1, 100, [1]), (30, 100, [30]), (300, 100, [100])]
)
def test_jitter_is_drawn_below_its_limit_and_never_takes_more_than_the_whole_time(
    jitter_ms: int, segment_ms: int, limits: list[int]
) -> None:
    asked: list[int] = []

    def draw(limit_ms: int) -> int:
        asked.append(limit_ms)
        return limit_ms - 1

    drawn = LogConfig(segment_jitter_ms=jitter_ms, segment_ms=segment_ms).roll_jitter_ms(draw)
    assert asked == limits
    assert drawn == (limits[0] - 1 if limits else 0)
