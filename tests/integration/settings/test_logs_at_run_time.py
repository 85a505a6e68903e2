"""Settings of logs that are changed on a running broker: what the next record, the next look and the disk show.

Each is set as the default of all brokers, for topics that are there already and set nothing themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kavka.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kavka.records.compression import Compression
from tests.integration.settings.running_broker import HOUR_MS, RunningBroker, eventually, now_ms, records

MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, POLICY_VIOLATION, INVALID_RECORD = 10, 32, 44, 87
TEXT = b" ".join(f"{number * number:x} jackdaws".encode() for number in range(3_000))


@pytest.fixture(scope="module")
def static_settings() -> Mapping[str, str]:
    return {
        "log.retention.check.interval.ms": "100",
        "log.flush.scheduler.interval.ms": "100",
        "log.flush.offset.checkpoint.interval.ms": "100",
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.min.cleanable.ratio": "1",
        # Apache Kafka looks for the first time after half a minute; kavka after each interval.
        "log.initial.task.delay.ms": "100",
    }


def room(path: Path) -> int:
    """Bytes that a file has, or has on the disk."""
    return max(path.stat().st_size, path.stat().st_blocks * 512)


# -- which records are taken


@pytest.mark.setting("log.cleanup.policy")
def test_cleanup_policy(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert broker.error(topic, records(b"v", key=None)) == 0
    broker.set(log_cleanup_policy="compact")
    assert broker.error(topic, records(b"v", key=None)) == INVALID_RECORD


@pytest.mark.parametrize(
    ("policy", "error"), [("", 0), ("delete", 0), ("compact,delete", 0), ("compact", POLICY_VIOLATION)]
)
def test_records_of_what_is_not_only_compacted_can_be_deleted(broker: RunningBroker, policy: str, error: int) -> None:
    """With an empty policy nothing else ever removes them."""
    topic = broker.topic(cleanup_policy=policy)
    assert broker.error(topic, records(b"v", b"w")) == 0
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    wish = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5_000)
    assert broker.client.ask(wish, 2).topics[0].partitions[0].error_code == error


@pytest.mark.setting("message.max.bytes")
def test_message_size(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert broker.error(topic, records(b"x" * 1_000)) == 0
    broker.set(message_max_bytes=500)
    assert broker.error(topic, records(b"x" * 1_000)) == MESSAGE_TOO_LARGE
    assert broker.error(topic, records(b"x" * 100)) == 0


@pytest.mark.setting("log.message.timestamp.type")
def test_timestamp_type(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert broker.produce(topic, records(b"v", timestamp=7)).log_append_time_ms == -1
    broker.set(log_message_timestamp_type="LogAppendTime")
    began = now_ms()
    assert broker.produce(topic, records(b"v", timestamp=7)).log_append_time_ms >= began - 1


@pytest.mark.setting("log.message.timestamp.before.max.ms")
def test_timestamps_of_the_past(broker: RunningBroker) -> None:
    topic, past = broker.topic(), records(b"v", timestamp=now_ms() - HOUR_MS)
    assert broker.error(topic, past) == 0
    broker.set(log_message_timestamp_before_max_ms=HOUR_MS // 2)
    assert broker.error(topic, past) == INVALID_TIMESTAMP
    assert broker.error(topic, records(b"v")) == 0


@pytest.mark.setting("log.message.timestamp.after.max.ms")
def test_timestamps_of_the_future(broker: RunningBroker) -> None:
    topic, future = broker.topic(), records(b"v", timestamp=now_ms() + HOUR_MS)
    assert broker.error(topic, future) == 0
    broker.set(log_message_timestamp_after_max_ms=HOUR_MS // 2)
    assert broker.error(topic, future) == INVALID_TIMESTAMP
    assert broker.error(topic, records(b"v")) == 0


@pytest.mark.setting("log.message.timestamp.difference.max.ms", "message.timestamp.difference.max.ms")
def test_timestamps_in_either_direction(broker: RunningBroker) -> None:
    topic = broker.topic()
    broker.set(log_message_timestamp_difference_max_ms=HOUR_MS // 2)
    for distance in (-HOUR_MS, HOUR_MS):
        assert broker.error(topic, records(b"v", timestamp=now_ms() + distance)) == INVALID_TIMESTAMP
    assert broker.error(topic, records(b"v")) == 0


@pytest.mark.setting("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
def test_a_topics_own_bounds_of_timestamps(broker: RunningBroker) -> None:
    past = records(b"v", timestamp=now_ms() - HOUR_MS)
    for name in ("message_timestamp_before_max_ms", "message_timestamp_difference_max_ms"):
        topic = broker.topic(**{name: str(HOUR_MS // 2)})
        assert broker.error(topic, past) == INVALID_TIMESTAMP
        assert broker.error(topic, records(b"v")) == 0


# -- how they are kept


@pytest.mark.setting("compression.type")
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_codec(broker: RunningBroker, codec: str) -> None:
    topic = broker.topic()
    broker.set(compression_type=codec)
    assert broker.error(topic, records(TEXT)) == 0
    assert [header.compression for header in broker.headers(topic)] == [Compression.named(codec)]


@pytest.mark.setting("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 12), ("zstd", -1_000, 19)])
def test_level_of_the_codec(broker: RunningBroker, codec: str, low: int, high: int) -> None:
    topic = broker.topic()
    broker.set(compression_type=codec)
    for level in (low, high):
        broker.set(**{f"compression_{codec}_level": level})
        assert broker.error(topic, records(TEXT)) == 0
    little, much = (header.size_bytes for header in broker.headers(topic))
    assert much < 0.99 * little


@pytest.mark.setting("log.preallocate")
def test_preallocation(broker: RunningBroker) -> None:
    broker.set(log_preallocate="true", log_segment_bytes=1 << 20)
    topic = broker.topic()
    assert broker.error(topic, records(b"v")) == 0
    assert room(broker.files(topic, ".log")[-1]) >= 1 << 20
    broker.set(log_roll_ms=1)
    assert broker.error(topic, records(b"v", timestamp=now_ms() + HOUR_MS)) == 0
    first, _ = broker.files(topic, ".log")
    assert room(first) < 1 << 16
    assert broker.offsets(topic) == [0, 1]


@pytest.mark.setting("log.segment.bytes")
def test_segment_size(broker: RunningBroker) -> None:
    topic = broker.topic()
    for _ in range(3):
        assert broker.error(topic, records(b"x" * 200)) == 0
    assert len(broker.files(topic, ".log")) == 1
    broker.set(log_segment_bytes=500)
    for _ in range(3):
        assert broker.error(topic, records(b"x" * 200)) == 0
    assert len(broker.files(topic, ".log")) > 1


@pytest.mark.setting("log.roll.ms")
def test_segment_age(broker: RunningBroker) -> None:
    topic, began = broker.topic(), now_ms()
    for later in (0, HOUR_MS):
        assert broker.error(topic, records(b"v", timestamp=began + later)) == 0
    assert len(broker.files(topic, ".log")) == 1
    broker.set(log_roll_ms=HOUR_MS)
    assert broker.error(topic, records(b"v", timestamp=began + 2 * HOUR_MS)) == 0
    assert len(broker.files(topic, ".log")) == 2


@pytest.mark.setting("log.roll.jitter.ms")
def test_segments_do_not_close_all_at_once(broker: RunningBroker) -> None:
    partitions = 24
    broker.set(log_roll_ms=HOUR_MS, log_roll_jitter_ms=HOUR_MS)
    topic = broker.client.create_topic(partitions=partitions)
    eventually("leaders", lambda: all(p.leader_id == 1 for p in broker.client.topics(topic)[topic].partitions))
    closed, began = 0, now_ms()
    for partition in range(partitions):
        for later in (0, HOUR_MS // 2):
            batch = records(b"v", timestamp=began + later)
            eventually("it is led", lambda: broker.produce(topic, batch, partition=partition).error_code == 0)  # noqa: B023
        closed += len(broker.files(topic, ".log", partition=partition)) > 1
    assert 0 < closed < partitions


@pytest.mark.setting("log.index.interval.bytes")
def test_index_interval(broker: RunningBroker) -> None:
    broker.set(log_index_interval_bytes=0, log_segment_bytes=2_000)
    topic = broker.topic()
    for _ in range(12):
        assert broker.error(topic, records(b"x" * 200)) == 0
    assert len(broker.files(topic, ".log")) == 2
    entries = broker.files(topic, ".index")[0].stat().st_size // 8
    assert entries >= 5  # of seven batches; with 4,096 bytes between two entries there is none


@pytest.mark.setting("log.index.size.max.bytes")
def test_index_size(broker: RunningBroker) -> None:
    broker.set(log_index_interval_bytes=0, log_index_size_max_bytes=60)
    topic = broker.topic()
    for _ in range(12):
        assert broker.error(topic, records(b"v")) == 0
    assert len(broker.files(topic, ".log")) > 1


# -- when they are durable


@pytest.mark.setting("log.flush.interval.messages", "log.flush.offset.checkpoint.interval.ms")
def test_flush_after_messages(broker: RunningBroker) -> None:
    topic = broker.topic()
    broker.set(log_flush_interval_messages=1)
    assert broker.error(topic, records(b"v", b"w")) == 0
    eventually("the flush", lambda: broker.checkpoint("recovery-point-offset-checkpoint", topic) == 2)


@pytest.mark.setting("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
def test_flush_after_a_time(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert broker.error(topic, records(b"v", b"w")) == 0
    broker.set(log_flush_interval_ms=200)
    eventually("the flush", lambda: broker.checkpoint("recovery-point-offset-checkpoint", topic) == 2)


# -- when they go


@pytest.mark.setting("log.retention.ms", "log.retention.check.interval.ms")
def test_retention_by_age(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert broker.error(topic, records(b"v", timestamp=now_ms() - HOUR_MS)) == 0
    broker.set(log_retention_ms=HOUR_MS // 2)
    eventually("the deletion", lambda: broker.begins_at(topic) == 1)


@pytest.mark.setting("log.retention.bytes")
def test_retention_by_size(broker: RunningBroker) -> None:
    broker.set(log_segment_bytes=500)
    topic = broker.topic()
    for _ in range(6):
        assert broker.error(topic, records(b"x" * 200)) == 0
    broker.set(log_retention_bytes=600)
    eventually("the deletion", lambda: broker.begins_at(topic) > 0)
    assert broker.begins_at(topic) < 6


@pytest.mark.setting("log.segment.delete.delay.ms")
def test_files_of_deleted_segments(broker: RunningBroker) -> None:
    topic = broker.topic()
    broker.set(log_segment_delete_delay_ms=0)
    assert broker.error(topic, records(b"v", timestamp=now_ms() - HOUR_MS)) == 0
    broker.set(log_retention_ms=HOUR_MS // 2)
    eventually("the deletion", lambda: broker.begins_at(topic) == 1)
    eventually("the removal", lambda: not broker.files(topic, ".deleted"))
    assert not broker.files(topic, f"{0:020d}.log")


# -- compaction


def compacted(broker: RunningBroker, *values: bytes | None, **configs: str) -> str:
    """A compacted topic with one key, each value in a segment of its own but the last."""
    topic = broker.topic(cleanup_policy="compact", segment_ms="1", **configs)
    began = now_ms() - HOUR_MS
    for number, value in enumerate((*values, b"the last")):
        assert broker.error(topic, records(value, timestamp=began + number * 10)) == 0
    assert broker.offsets(topic) == list(range(len(values) + 1))
    return topic


@pytest.mark.setting("log.cleaner.min.cleanable.ratio")
def test_compaction_by_the_dirty_share(broker: RunningBroker) -> None:
    topic = compacted(broker, b"1", b"2", b"3")
    broker.set(log_cleaner_min_cleanable_ratio="0.1")
    eventually("the compaction", lambda: broker.offsets(topic) == [2, 3])


@pytest.mark.setting("log.cleaner.max.compaction.lag.ms")
def test_compaction_by_age(broker: RunningBroker) -> None:
    topic = compacted(broker, b"1", b"2", b"3")
    broker.set(log_cleaner_max_compaction_lag_ms=1_000)
    eventually("the compaction", lambda: broker.offsets(topic) == [2, 3])


@pytest.mark.setting("log.cleaner.min.compaction.lag.ms")
def test_what_is_too_young_is_not_compacted(broker: RunningBroker) -> None:
    broker.set(log_cleaner_min_compaction_lag_ms=24 * HOUR_MS, log_cleaner_max_compaction_lag_ms=25 * HOUR_MS)
    young = compacted(broker, b"1", b"2", b"3")
    any_age = compacted(broker, b"1", b"2", b"3", min_compaction_lag_ms="0")
    broker.set(log_cleaner_min_cleanable_ratio="0.1")
    eventually("the other's compaction", lambda: broker.offsets(any_age) == [2, 3])
    assert broker.offsets(young) == [0, 1, 2, 3]
    broker.set(log_cleaner_min_compaction_lag_ms=0)
    eventually("the compaction", lambda: broker.offsets(young) == [2, 3])


@pytest.mark.setting("log.cleaner.delete.retention.ms")
def test_tombstones(broker: RunningBroker) -> None:
    broker.set(log_cleaner_delete_retention_ms=1, log_cleaner_min_cleanable_ratio="0.01")
    topic = compacted(broker, b"1", None)
    eventually("the compaction", lambda: broker.offsets(topic) == [1, 2])
    # The tombstone's time begins with the pass that met it; another pass is due when something is dirty again.
    for number in range(2):
        assert broker.error(topic, records(b"more", key=b"other", timestamp=now_ms() + number * HOUR_MS)) == 0
    eventually("its end", lambda: 1 not in broker.offsets(topic))
