"""From a topic's configuration to what its logs obey."""

from __future__ import annotations

from functools import lru_cache

from kavka.config.topic import TopicConfig, TopicSettings
from kavka.log.log_config import LogConfig
from kavka.records.batch import TimestampType
from kavka.records.compression import Compression

LZ4_FAST = 1
"""A level of the LZ4 library at which it takes its fast compressor."""
REMEMBERED = 64
"""Topics whose last result is kept."""
_AS_PRODUCED = "producer"
"""compression.type: batches stay as the producer made them."""
_TIMESTAMP_TYPES = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}


@lru_cache(maxsize=REMEMBERED)
def log_config(topic: TopicConfig) -> LogConfig:
    """What the logs of a topic obey. Remembered by the identity of `topic`: a topic has many partitions."""
    codec = topic.compression_type
    return LogConfig(
        segment_bytes=topic.segment_bytes,
        segment_ms=topic.segment_ms,
        segment_jitter_ms=topic.segment_jitter_ms,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        retention_ms=topic.retention_ms,
        retention_bytes=topic.retention_bytes,
        max_message_bytes=topic.max_message_bytes,
        flush_messages=topic.flush_messages,
        flush_ms=topic.flush_ms,
        file_delete_delay_ms=topic.file_delete_delay_ms,
        cleanup_delete=topic.cleanup_delete,
        cleanup_compact=topic.cleanup_compact,
        message_timestamp_type=_TIMESTAMP_TYPES[topic.message_timestamp_type],
        message_timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        delete_retention_ms=topic.delete_retention_ms,
        preallocate=topic.preallocate,
        compression_type=None if codec == _AS_PRODUCED else Compression.named(codec),
        compression_level=_level(topic),
    )


def _level(topic: TopicConfig) -> int | None:
    """The level that counts for the topic's codec; None if the codec has none, or producers choose it."""
    match topic.compression_type:
        case "gzip":
            return topic.compression_gzip_level
        case "zstd":
            return topic.compression_zstd_level
        case "lz4":
            # As Kafka: its default is 9 and stands for the fast compressor; any other is one of the thorough one's.
            level = topic.compression_lz4_level
            return LZ4_FAST if level == TopicSettings.compression_lz4_level.default else level
        case _:
            return None
