"""What a broker does for its logs on a timer costs as much as has changed, and misses nothing that has."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.log.decide.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    format_offsets,
)
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.offset_checkpoints import BLOCK
from kavka.log.unified_log import UnifiedLog
from kavka.model import Offset, TopicPartition
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import NOW_MS, append, batch, write_checkpoints

TOPIC_ID = uuid.UUID(int=7)
PLAIN = LogConfig(segment_bytes=300, file_delete_delay_ms=1_000)
FLUSHED_BY_COUNT = LogConfig(segment_bytes=300, flush_messages=2, file_delete_delay_ms=1_000)
FLUSHED_BY_TIME = LogConfig(segment_bytes=1 << 20, flush_ms=5_000, file_delete_delay_ms=1_000)


def started(path: Path) -> LogManager:
    settings, draw = LogManagerSettings(1, "c"), random.Random(0).randrange
    logs = LogManager(LocalFileSystem(), [str(path)], settings, lambda topic: PLAIN, draw=draw)
    logs.load(NOW_MS)
    return logs


def created(logs: LogManager, number: int) -> UnifiedLog:
    return logs.get_or_create(TopicPartition("orders", number), TOPIC_ID, NOW_MS)


def look(logs: LogManager, now_ms: int = NOW_MS) -> tuple[list[UnifiedLog], list[UnifiedLog]]:
    return logs.logs_to_identify(), logs.logs_to_flush(now_ms)


def sync(log: UnifiedLog, now_ms: int = NOW_MS) -> None:
    """What the broker does with a log that is due."""
    if (task := log.prepare_topic_id_sync()) is not None:
        task.sync()
        log.complete_flush(task, now_ms)
    log.flush(now_ms)


def test_idle_logs_are_looked_at_once(tmp_path: Path) -> None:
    logs = started(tmp_path)
    made = [created(logs, number) for number in range(20)]
    assert logs.noted_count == 20
    assert look(logs) == ([], [])
    assert logs.noted_count == 0
    append(made[3], batch())
    assert look(logs) == ([made[3]], [])
    sync(made[3])
    assert look(logs) == ([], [])
    assert logs.noted_count == 0
    append(made[3], batch())
    assert logs.noted_count == 0, "a record more is nothing that the timer waits for"


def test_a_log_that_time_makes_due_is_looked_at_until_its_settings_change(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = created(logs, 0)
    log.reconfigure(FLUSHED_BY_TIME)
    append(log, batch())
    sync(log)
    append(log, batch())
    assert look(logs) == ([], [])
    assert look(logs, NOW_MS + 4_999) == ([], [])
    assert look(logs, NOW_MS + 5_000) == ([], [log])
    sync(log, NOW_MS + 5_000)
    assert look(logs, NOW_MS + 5_001) == ([], [])
    assert logs.noted_count == 1
    log.reconfigure(PLAIN)
    assert look(logs, NOW_MS + 5_002) == ([], [])
    assert logs.noted_count == 0


def test_a_deleted_log_is_not_looked_at(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = created(logs, 0)
    append(log, *(batch(2) for _ in range(9)))
    logs.delete(log.topic_partition, NOW_MS)
    assert look(logs) == ([], [])
    assert logs.noted_count == 0


@pytest.mark.parametrize("seed", range(10))
def test_nothing_that_a_look_at_all_logs_finds_is_missed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    logs, now_ms, numbers = started(tmp_path), NOW_MS, range(5)
    for _ in range(120):
        now_ms += chance.choice((0, 400, 3_000))
        log = created(logs, chance.choice(numbers))
        happens(chance, logs, log, now_ms)
        removed = {path for each in logs for path in renamed(each)}
        assert set(look(logs, now_ms)[0]) == {each for each in logs if each.topic_id_due}
        assert set(look(logs, now_ms)[1]) == {each for each in logs if each.flush_due(now_ms)}
        if chance.random() < 0.1:
            logs.remove_paths(logs.take_removals(now_ms + 1_000))
            assert not any(Path(path).exists() for path in removed)


def happens(chance: random.Random, logs: LogManager, log: UnifiedLog, now_ms: int) -> None:
    match chance.randrange(8):
        case 0 | 1 | 2:
            append(log, batch(chance.randrange(1, 4)))
            log.advance_high_watermark(log.log_end_offset)
        case 3:
            sync(log, now_ms)
        case 4:
            logs.truncate_to(log.topic_partition, chance.randrange(log.log_end_offset + 1), now_ms)
        case 5:
            log.reconfigure(chance.choice((PLAIN, FLUSHED_BY_COUNT, FLUSHED_BY_TIME)))
        case 6:
            log.delete_records(chance.randrange(log.log_start_offset, log.high_watermark + 1))
            logs.delete_old_segments(now_ms)
        case 7:
            logs.delete(log.topic_partition, now_ms)


def renamed(log: UnifiedLog) -> list[str]:
    return [str(path) for path in Path(log.directory).glob("*.deleted")]


OFFSETS: dict[str, Callable[[UnifiedLog], Offset | None]] = {
    HIGH_WATERMARK_CHECKPOINT: lambda log: log.durable_high_watermark,
    RECOVERY_POINT_CHECKPOINT: lambda log: log.recovery_point,
    LOG_START_OFFSET_CHECKPOINT: lambda log: (
        log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None
    ),
}


@pytest.mark.parametrize("seed", range(5))
def test_a_checkpoint_says_what_the_logs_say_whatever_has_changed_since_the_last(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    logs = started(tmp_path)
    for number in range(BLOCK + 20):
        created(logs, number)
    for _ in range(40):
        for _ in range(chance.randrange(4)):
            happens(chance, logs, created(logs, chance.randrange(BLOCK + 22)), NOW_MS)
        name = chance.choice(list(OFFSETS))
        write_checkpoints(logs, name)
        assert logs.checkpoints_due(name) == [], "nothing has changed since"
        expected = {log.topic_partition: OFFSETS[name](log) for log in logs}
        known = {partition: offset for partition, offset in expected.items() if offset is not None}
        assert (tmp_path / name).read_bytes() == format_offsets(known)


def test_a_new_log_writes_no_checkpoint_that_says_the_same(tmp_path: Path) -> None:
    logs = started(tmp_path)
    for name in OFFSETS:
        write_checkpoints(logs, name)
    created(logs, 0)
    assert logs.checkpoints_due(LOG_START_OFFSET_CHECKPOINT) == []
    created(logs, 1)
    assert logs.checkpoints_due(LOG_START_OFFSET_CHECKPOINT) == []
    assert len(logs.checkpoints_due(HIGH_WATERMARK_CHECKPOINT)) == 1
