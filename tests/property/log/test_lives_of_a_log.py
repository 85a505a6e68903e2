"""Property: logs that are killed again and again, at any change of their disk, lose nothing that was acknowledged.

What a broker believes after a kill is what the life before left, in files that this one wrote only in part: indexes
that were made anew in memory, checkpoints from a minute ago. So each run has several lives, each of which begins with
all that is on the disk. After each start every record is there, every segment knows its largest timestamp, and every
look-up by time finds what a reader of all records finds. A killed process loses nothing that it wrote; power cuts are
in tests/unit/log/test_power_cuts_of_logs.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kavka.log.decide.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.records.control import ControlType
from tests.unit.log.killable_disk import KillableFileSystem, Killed
from tests.unit.log.log_support import NOW_MS, append, batch, find_time, marker, records, write_checkpoints

CONFIG = LogConfig(segment_bytes=1_500, index_interval_bytes=300, retention_ms=100_000, file_delete_delay_ms=0)
PARTITIONS = (TopicPartition("a", 0), TopicPartition("b", 0))
OPEN_SEGMENTS = 3
LIVES = 6
STEPS = (20, 80, 150)
SEEDS = range(12)
MORE_SEEDS = range(100, 500)


class Lives:
    """One run. `acknowledged` has the values that must be there, by partition and offset."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.now_ms = NOW_MS
        self.acknowledged: dict[TopicPartition, dict[int, bytes | None]] = {partition: {} for partition in PARTITIONS}
        self.names = iter(range(1, 1 << 30))
        self.producer_ids = iter(range(1, 1 << 30))
        self.steps: list[Callable[[UnifiedLog], None]] = [
            *[self.append] * 9,
            *[self.checkpoint] * 2,
            *[self.flush] * 2,
            self.begin_transaction,
            self.abort,
            self.follow,
            self.truncate,
            self.restart,
            self.delete_records,
            self.retain,
            self.remove,
            self.roll,
            self.let_go,
        ]

    def live(self, end: str) -> None:
        """Starts, looks at everything, works for a while, and ends: by a stop, or by a kill before or in it."""
        disk = KillableFileSystem()
        directories = [str(self.path / name) for name in ("first", "second")]
        settings = LogManagerSettings(1, "cluster", max_open_segments=OPEN_SEGMENTS)
        self.logs = LogManager(
            disk, directories, settings, lambda topic: CONFIG, draw=lambda limit: next(self.names) % limit
        )
        self.logs.load(self.now_ms)
        for partition in PARTITIONS:
            log = self.logs.get_or_create(partition, None, self.now_ms)
            log.set_high_watermark(log.log_end_offset)
            self.look_at(log)
        try:
            if end == "kill":
                disk.fatal = disk.changes + self.random.randint(1, 150)
            for _ in range(self.random.choice(STEPS)):
                self.now_ms += 2_000
                log = self.logs.get_or_create(self.random.choice(PARTITIONS), None, self.now_ms)
                self.random.choice(self.steps)(log)
            if end == "killed stop":
                disk.fatal = disk.changes + self.random.randint(1, 40)
            if end != "kill":
                self.logs.close(self.now_ms)
        except Killed:
            disk.fatal = -1
        self.logs.release()

    def look_at(self, log: UnifiedLog) -> None:
        found, expected = records(log), self.acknowledged[log.topic_partition]
        values = {record.offset: record.value for record in found}
        assert {offset: values.get(offset) for offset in expected} == expected
        for segment in log.segments:
            largest = max((header.max_timestamp for _, header in segment.headers()), default=-1)
            assert segment.max_timestamp == largest, f"{log.topic_partition}: segment at {segment.base_offset}"
        for record in found:
            first = next(each for each in found if each.timestamp >= record.timestamp)
            hit = find_time(log, record.timestamp)
            assert hit is not None, f"{log.topic_partition}: {record.timestamp}"
            assert hit.offset == first.offset, f"{log.topic_partition}: {record.timestamp}"
        # What was about to be acknowledged may be there, or may not.
        expected.clear()
        expected.update(values)

    # -- what may be done to a log; what is forgotten is noted before, what is acknowledged after

    def forget(self, log: UnifiedLog, is_gone: Callable[[int], bool]) -> None:
        expected = self.acknowledged[log.topic_partition]
        for offset in [offset for offset in expected if is_gone(offset)]:
            del expected[offset]

    def put(self, log: UnifiedLog, *, transactional: bool) -> None:
        value = b"%d" % self.now_ms * self.random.choice((1, 5, 20))
        known = [each for each in log.producers.entries() if each.producer_id % 2 == transactional]
        if known:
            producer_id, sequence = known[-1].producer_id, known[-1].last_sequence + 1
        else:
            producer_id, sequence = 2 * next(self.producer_ids) + transactional, 0
        sent = batch(
            [value], timestamp=self.now_ms, producer_id=producer_id, sequence=sequence, transactional=transactional
        )
        offset = log.log_end_offset
        append(log, sent, leader_epoch=1)
        assert log.log_end_offset == offset + 1
        self.acknowledged[log.topic_partition][offset] = value

    def append(self, log: UnifiedLog) -> None:
        self.put(log, transactional=False)

    def begin_transaction(self, log: UnifiedLog) -> None:
        self.put(log, transactional=True)

    def abort(self, log: UnifiedLog) -> None:
        for entry in self.transactional(log):
            end = marker(ControlType.ABORT, producer_id=entry, timestamp=self.now_ms)
            log.append_as_leader(end, 1, self.now_ms, origin=AppendOrigin.COORDINATOR)
            log.advance_high_watermark(log.log_end_offset)

    def transactional(self, log: UnifiedLog) -> Iterator[int]:
        return (entry.producer_id for entry in log.producers.entries()[-1:] if entry.producer_id % 2)

    def follow(self, log: UnifiedLog) -> None:
        offset, value = log.log_end_offset, b"f%d" % self.now_ms
        log.append_as_follower(batch([value], timestamp=self.now_ms, base_offset=offset, leader_epoch=1), self.now_ms)
        log.advance_high_watermark(log.log_end_offset)
        self.acknowledged[log.topic_partition][offset] = value

    def truncate(self, log: UnifiedLog) -> None:
        count = log.log_end_offset - log.log_start_offset
        if count > 3:
            end = log.log_end_offset - self.random.randint(1, min(count, 25))
            self.forget(log, lambda offset: offset >= end)
            self.logs.truncate_to(log.topic_partition, end, self.now_ms)

    def restart(self, log: UnifiedLog) -> None:
        if not self.random.randrange(10):
            self.forget(log, lambda offset: True)
            self.logs.truncate_fully_and_start_at(log.topic_partition, log.log_end_offset + 5, self.now_ms)

    def delete_records(self, log: UnifiedLog) -> None:
        start = self.random.randint(log.log_start_offset, log.high_watermark)
        if self.random.randrange(2):
            self.forget(log, lambda offset: offset < start)
            log.delete_records(start)

    def retain(self, log: UnifiedLog) -> None:
        for each in self.logs:
            ends = [*(segment.base_offset for segment in each.segments[1:]), each.log_end_offset]
            old = [
                range(segment.base_offset, end)
                for segment, end in zip(each.segments, ends, strict=True)
                if segment.max_timestamp < self.now_ms - CONFIG.retention_ms
            ]
            self.forget(each, lambda offset, old=old: any(offset in gone for gone in old))  # type: ignore[misc]
        self.logs.delete_old_segments(self.now_ms)

    def checkpoint(self, log: UnifiedLog) -> None:
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
            write_checkpoints(self.logs, name)

    def flush(self, log: UnifiedLog) -> None:
        log.flush(self.now_ms)

    def remove(self, log: UnifiedLog) -> None:
        self.logs.remove_paths(self.logs.take_removals(self.now_ms))

    def roll(self, log: UnifiedLog) -> None:
        log.roll(self.now_ms)

    def let_go(self, log: UnifiedLog) -> None:
        for segment in log.segments:
            segment.release()


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in MORE_SEEDS)])
def test_nothing_is_lost_however_often_a_broker_is_killed(tmp_path: Path, seed: int) -> None:
    lives = Lives(tmp_path, seed)
    for _ in range(LIVES):
        lives.live(lives.random.choice(("kill", "kill", "killed stop", "stop")))
    lives.live("stop")
