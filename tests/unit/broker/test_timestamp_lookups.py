"""Searches by time on workers: over what changes meanwhile, two at a time, each unreadable batch logged once."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.broker.reads.timestamp_lookups import MAX_AT_ONCE, TimestampLookups
from kavka.errors import ErrorCode, RecordsError, RequestError, StorageError
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.records.batch import read_header
from kavka.records.builder import BatchBuilder, seal
from kavka.runtime.disk import LocalFileSystem

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("t", 0)


def batch(timestamp: int) -> bytearray:
    builder = BatchBuilder()
    builder.append(timestamp, b"k", b"v" * 50)
    return bytearray(builder.build())


class Surroundings:
    """A log of ten records in several segments, and workers before each of whose steps `between` is called."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.load()
        self.log: UnifiedLog = self.logs.get_or_create(PARTITION, uuid.UUID(int=7), NOW_MS)
        for number in range(10):
            self.log.append_as_leader(batch(NOW_MS + number), 0, NOW_MS)
        self.log.set_high_watermark(10)
        self.between: Callable[[], None] = lambda: None
        self.running = self.most_running = 0
        self.lookups = TimestampLookups(self.run, lambda log: self.logs.get(PARTITION) is log)

    def load(self) -> None:
        """As a broker that starts."""
        self.logs = LogManager(
            LocalFileSystem(),
            [str(self.directory)],
            LogManagerSettings(broker_id=1),
            lambda _topic: LogConfig(segment_bytes=400, file_delete_delay_ms=0),
        )
        self.logs.load(NOW_MS)

    async def run(self, work: Callable[[], None]) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.between()
        try:
            work()
        finally:
            self.running -= 1

    def once(self, change: Callable[[], object]) -> None:
        """Has `change` made before the next step."""

        def make() -> None:
            self.between = lambda: None
            change()

        self.between = make

    def find(self, timestamp: int | None) -> int | None:
        found = asyncio.run(self.lookups.find(self.log, timestamp))
        return None if found is None else found.offset


@pytest.fixture
def here(tmp_path: Path) -> Surroundings:
    return Surroundings(tmp_path)


def test_a_truncation_amid_a_search_has_it_begin_anew(here: Surroundings) -> None:
    here.once(lambda: here.logs.truncate_to(PARTITION, 5, NOW_MS))
    assert here.find(NOW_MS + 5) is None
    here.once(lambda: here.logs.truncate_to(PARTITION, 4, NOW_MS))
    assert here.find(None) == 3


def test_segments_deleted_amid_a_search_are_not_missed(here: Surroundings) -> None:
    here.logs.close(NOW_MS)
    here.load()
    log = here.logs.get(PARTITION)
    assert log is not None
    here.log = log
    log.set_high_watermark(10)

    def delete() -> None:
        log.delete_records(8)
        here.logs.delete_old_segments(NOW_MS)
        here.logs.remove_paths(here.logs.take_removals(NOW_MS))

    here.once(delete)
    assert here.find(NOW_MS) == 8
    assert len(log.segments) < 4


def test_a_partition_deleted_amid_a_search_takes_no_directory_offline(here: Surroundings) -> None:
    for segment in here.log.segments:
        segment.release()

    def delete() -> None:
        here.logs.delete(PARTITION, NOW_MS)
        shutil.rmtree(here.log.directory)

    here.once(delete)
    with pytest.raises(RequestError) as refused:
        here.find(NOW_MS + 5)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_log_that_always_changes_is_not_searched_for_ever(here: Surroundings) -> None:
    def change() -> None:
        here.log.truncations += 1

    here.between = change
    with pytest.raises(RequestError) as refused:
        here.find(NOW_MS)
    assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_a_disk_that_fails_is_told(here: Surroundings) -> None:
    def fail() -> None:
        raise StorageError("/d", "input/output error")

    here.between = fail
    with pytest.raises(StorageError):
        here.find(NOW_MS)


def test_few_searches_go_on_at_a_time(here: Surroundings) -> None:
    async def many() -> None:
        await asyncio.gather(*(here.lookups.find(here.log, NOW_MS + number) for number in range(10)))

    asyncio.run(many())
    assert here.most_running == MAX_AT_ONCE


def test_a_batch_that_cannot_be_read_is_logged_once(here: Surroundings, capsys: pytest.CaptureFixture[str]) -> None:
    header = read_header(batch(NOW_MS + 50))
    for base_offset in (10, 11):
        damaged = seal(header._replace(base_offset=base_offset, partition_leader_epoch=0), b"\xff" * 20)
        here.log.append_as_follower(damaged, NOW_MS)
        for _ in range(3):
            with pytest.raises(RecordsError) as refused:
                here.find(NOW_MS + 50)
            assert refused.value.code is ErrorCode.INVALID_RECORD
    assert here.find(NOW_MS + 9) == 9, "what is before it is found"
    assert capsys.readouterr().out.count("records cannot be read") == 1
