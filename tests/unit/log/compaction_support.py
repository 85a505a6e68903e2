"""What the tests of compaction share: a log that is compacted at the test's word, and how logs are read."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kavka.broker.upkeep.log_cleaner import LogCleaner
from kavka.config.broker import BrokerConfig
from kavka.filesystem import FileSystem
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.records.batch import BatchHeader, batch_at, iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka.records.control import ControlType
from kavka.records.record import Record
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import NOW_MS, PARTITION, grant, marker

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"
TOPIC_ID = uuid.UUID(int=0xABC << 64)
RETENTION_MS = 1_000_000
COMPACTED = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    cleanup_compact=True,
    cleanup_delete=False,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)
Pair = tuple[bytes, bytes | None]


class Store:
    """One log directory with one log."""

    def __init__(self, path: Path, *, filesystem: FileSystem | None = None, config: LogConfig = COMPACTED) -> None:
        self.path = path
        self.filesystem = filesystem or LocalFileSystem()
        self.config = config
        self.now_ms = NOW_MS
        self.broker = BrokerConfig.from_properties({"log.dirs": str(path), "zookeeper.connect": "localhost"})
        self.open()

    def open(self) -> None:
        """As a broker that starts."""
        self.logs = LogManager(
            self.filesystem, [str(self.path)], LogManagerSettings(1, CLUSTER_ID), lambda topic: self.config
        )
        self.logs.load(self.now_ms)
        self.log: UnifiedLog = self.logs.get_or_create(PARTITION, TOPIC_ID, self.now_ms)
        self.log.set_high_watermark(self.log.log_end_offset)
        self.cleaner = self.new_cleaner()

    def new_cleaner(self, between: Callable[[], None] = lambda: None) -> LogCleaner:
        """`between` is called before each step that a worker would do."""

        async def run_blocking(work: Callable[[], None]) -> None:
            between()
            work()

        return LogCleaner(
            self.logs, self.filesystem, lambda: self.broker, wall_ms=lambda: self.now_ms, run_blocking=run_blocking
        )

    def clean(self) -> None:
        asyncio.run(asyncio.wait_for(self.cleaner.clean_due(), 60))
        self.logs.remove_paths(self.logs.take_removals(self.now_ms))

    def roll(self) -> None:
        """Closes the segment. No more is flushed than compaction waits for."""
        self.log.roll(self.now_ms)
        if self.log.swap.bound < self.log.log_end_offset:
            self.log.flush(self.now_ms)

    def put(
        self,
        *pairs: Pair,
        stamp: ProducerStamp | None = None,
        codec: Compression = Compression.NONE,
        leader_epoch: int = 0,
    ) -> None:
        data = pairs_batch(pairs, self.now_ms, stamp, codec)
        sent = batch_at(memoryview(data))
        assert sent is not None
        if sent.header.is_transactional:
            grant(self.log, sent.header)
        self.log.append_as_leader(data, leader_epoch, self.now_ms)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def fill(self, rounds: int = 12, *, first: int = 0) -> None:
        """Keys that are written again and again, tombstones, aborted and committed transactions; then a new segment."""
        for number in range(first, first + rounds):
            self.put((b"a", b"%d" % number), (b"b%d" % number, b"x" * 40), (b"c", None if number % 3 else b"c"))
            stamp = ProducerStamp(7, 0, number, is_transactional=True)
            self.put((b"t", b"%d" % number), stamp=stamp)
            self.end(ControlType.ABORT if number % 2 else ControlType.COMMIT, 7)
        self.roll()

    def end(self, control_type: ControlType, producer_id: int, epoch: int = 0) -> None:
        """The transaction's marker."""
        from kavka.log.decide.producer_state import AppendOrigin

        data = marker(control_type, producer_id=producer_id, epoch=epoch, timestamp=self.now_ms)
        self.log.append_as_leader(data, 0, self.now_ms, origin=AppendOrigin.COORDINATOR)
        self.log.advance_high_watermark(self.log.log_end_offset)


class Seen(NamedTuple):
    """A record with what its batch says of it."""

    record: Record
    producer_id: int
    leader_epoch: int
    is_transactional: bool


def pairs_batch(
    pairs: tuple[Pair, ...], now_ms: int, stamp: ProducerStamp | None = None, codec: Compression = Compression.NONE
) -> bytearray:
    builder = BatchBuilder(codec)
    for number, (key, value) in enumerate(pairs):
        builder.append(now_ms + number, key, value, [("h", b"%d" % number)])
    return bytearray(builder.build(stamp or ProducerStamp()))


def headers(log: UnifiedLog) -> list[BatchHeader]:
    """Of all batches, in order."""
    return [header for segment in log.segments for _, header in segment.headers()]


def committed(log: UnifiedLog) -> list[Seen]:
    """What a consumer with read_committed sees."""
    end = log.last_stable_offset
    found: list[Seen] = []
    aborted = {(one.producer_id, one.first_offset, one.last_offset) for one in log.aborted_transactions(0, end)}
    offset = log.log_start_offset
    while True:
        result = log.read(offset, 1 << 20, max_offset=end, min_one_batch=True)
        data = b"".join(chunk.tobytes() for chunk in result.chunks)
        if not data:
            return found
        for batch in iterate_batches(memoryview(data)):
            header = batch.header
            assert batch.crc_is_right()
            if header.is_control:
                continue
            gone = header.is_transactional and any(
                producer == header.producer_id and first <= header.base_offset <= last
                for producer, first, last in aborted
            )
            if not gone:
                found.extend(
                    Seen(record, header.producer_id, header.partition_leader_epoch, header.is_transactional)
                    for record in batch.records()
                    if record.offset >= offset
                )
        offset = result.next_offset


def table(seen: list[Seen]) -> dict[bytes, bytes]:
    """The last value of each key: what a reader of a compacted topic wants to know."""
    values: dict[bytes, bytes] = {}
    for one in seen:
        assert one.record.key is not None
        if one.record.value is None:
            values.pop(one.record.key, None)
        else:
            values[one.record.key] = one.record.value
    return values
