"""What the tests of the log room share: batches, a log on a real directory, and a disk that fails on demand."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

from kavka.errors import StorageError
from kavka.filesystem import Buffer
from kavka.log.decide.producer_state import ProducerState
from kavka.log.log_config import LogConfig
from kavka.log.log_loader import LoadedLog, LoadRequest, create_log, load_log
from kavka.log.log_manager import LogManager
from kavka.log.segment import LogDirectory, OpenSegments, TimestampedOffset
from kavka.log.timestamp_search import TimestampSearch
from kavka.log.unified_log import UnifiedLog
from kavka.model import NO_OFFSET, TopicPartition
from kavka.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    batch_at,
    iterate_batches,
)
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka.records.record import Record
from kavka.runtime.disk import LocalFile, LocalFileSystem

NOW_MS = 1_700_000_000_000
DAY_MS = 24 * 3_600_000
PARTITION = TopicPartition("orders", 0)


def batch(
    values: int | Sequence[bytes] = 1,
    *,
    timestamp: int = NOW_MS,
    producer_id: int = NO_PRODUCER_ID,
    epoch: int = NO_PRODUCER_EPOCH,
    sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    key: bytes | None = None,
) -> bytearray:
    """A batch as a producer sends it; an int asks for so many records of one byte, a ms apart."""
    builder = BatchBuilder(compression)
    for number, value in enumerate([b"v"] * values if isinstance(values, int) else values):
        builder.append(timestamp + number, key, value)
    if producer_id >= 0:
        epoch, sequence = max(epoch, 0), max(sequence, 0)
    stamp = ProducerStamp(producer_id, epoch, sequence, is_transactional=transactional)
    data = bytearray(builder.build(stamp, base_offset=base_offset))
    data[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    return data


def marker(
    control_type: ControlType, *, producer_id: int, epoch: int = 0, coordinator_epoch: int = 0, timestamp: int = NOW_MS
) -> bytearray:
    return bytearray(
        build_marker(
            EndTransactionMarker(control_type, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=timestamp,
        )
    )


def log_directory(path: Path, filesystem: LocalFileSystem | None = None, *, max_open: int = 1000) -> LogDirectory:
    path.mkdir(exist_ok=True, parents=True)
    return LogDirectory(filesystem or LocalFileSystem(), str(path), OpenSegments(max_open))


def request(config: LogConfig, **known: int | bool) -> LoadRequest:
    values = {"was_clean": False, "recovery_point": 0, "log_start_offset": 0, "now_ms": NOW_MS} | known
    return LoadRequest(config, producer_id_expiration_ms=DAY_MS, **values)  # type: ignore[arg-type]


def new_log(
    path: Path, *, filesystem: LocalFileSystem | None = None, max_open: int = 1000, **settings: object
) -> UnifiedLog:
    """A new log in `path`."""
    config = LogConfig(**settings)  # type: ignore[arg-type]
    loaded = create_log(log_directory(path, filesystem, max_open=max_open), request(config))
    return UnifiedLog(PARTITION, loaded, config, now_ms=NOW_MS)


def reopen(log: UnifiedLog, **known: int | bool) -> UnifiedLog:
    """The log that a broker finds in the directory of `log` when it starts."""
    return load(log, **known)[0]


def load(log: UnifiedLog, **known: int | bool) -> tuple[UnifiedLog, LoadedLog]:
    loaded = load_log(log_directory(Path(log.directory)), request(log.config, **known))
    found = UnifiedLog(PARTITION, loaded, log.config, now_ms=NOW_MS)
    found.set_high_watermark(found.log_end_offset)
    return found, loaded


def find_time(log: UnifiedLog, timestamp: int | None) -> TimestampedOffset | None:
    """What a worker finds: the first record that is not older, or with None the first with the largest timestamp."""
    search = TimestampSearch.of(log, timestamp)
    for _step in search.steps():
        pass
    assert search.still_holds_for(log)
    search.teach()
    return search.found


def grant(log: UnifiedLog, header: BatchHeader) -> None:
    """The producer's coordinator says that its transaction is open."""
    verification = log.producers.verification(header.producer_id, header.producer_epoch, header.base_sequence, NOW_MS)
    if verification is not None:
        verification.is_granted = True


def append(log: UnifiedLog, *batches: bytearray, leader_epoch: int = 0) -> None:
    """Appends as leader and commits; that transactions are open is taken for granted."""
    for data in batches:
        sent = batch_at(memoryview(data))
        if sent is not None and sent.header.is_transactional:
            grant(log, sent.header)
        log.append_as_leader(data, leader_epoch, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


def records(log: UnifiedLog, start: int | None = None, *, max_bytes: int = 1 << 20) -> list[Record]:
    """Every record from `start` on that a consumer sees below the high watermark, in reads of `max_bytes`."""
    return list(_records(log, log.log_start_offset if start is None else start, max_bytes))


def offsets(log: UnifiedLog, start: int | None = None, *, max_bytes: int = 1 << 20) -> list[int]:
    return [record.offset for record in records(log, start, max_bytes=max_bytes)]


def _records(log: UnifiedLog, offset: int, max_bytes: int) -> Iterator[Record]:
    while True:
        result = log.read(offset, max_bytes, max_offset=log.high_watermark, min_one_batch=True)
        data = b"".join(chunk.tobytes() for chunk in result.chunks)
        assert len(data) == result.size_bytes
        if not data:
            assert result.next_offset == offset
            return
        found = list(iterate_batches(memoryview(data)))
        assert sum(len(one.view) for one in found) == len(data), "a read ends inside of a batch"
        for one in found:
            assert one.crc_is_right()
            yield from (record for record in one.records() if record.offset >= offset)
        assert result.next_offset >= found[-1].header.last_offset + 1
        offset = result.next_offset


class FailingFileSystem(LocalFileSystem):
    """A disk that takes `budget` more bytes, then answers every write with "no space left on device"."""

    def __init__(self) -> None:
        self.budget = 1 << 60
        self.fail_syncs = False
        self.fail_renames = False

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        file = super().open(path, create=create, read_only=read_only)
        return FailingFile(self, file)

    def rename(self, source: str, target: str) -> None:
        if self.fail_renames:
            raise _error(source, errno.EIO)
        super().rename(source, target)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        self.take(path, len(data))
        super().write_atomically(path, data, durable=durable)

    def take(self, path: str, size: int) -> int:
        """Bytes of `size` that still fit; the caller fails if that is less."""
        fitting = min(size, self.budget)
        self.budget -= fitting
        if fitting < size and path.endswith(("checkpoint", "snapshot")):
            raise _error(path, errno.ENOSPC)
        return fitting


class FailingFile(LocalFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: FailingFileSystem, file: LocalFile) -> None:
        super().__init__(file.path, file._descriptor)
        file._descriptor = -1
        self._disk = disk

    def append(self, data: Buffer) -> None:
        fitting = self._disk.take(self.path, len(data))
        super().append(memoryview(data)[:fitting])
        if fitting < len(data):
            raise _error(self.path, errno.ENOSPC)

    def sync(self) -> None:
        if self._disk.fail_syncs:
            raise _error(self.path, errno.EIO)
        super().sync()


def _error(path: str, number: int) -> StorageError:
    return StorageError(path, errno.errorcode[number])


def has_open_transaction(producers: ProducerState, producer_id: int) -> bool:
    entry = producers.entry(producer_id)
    return entry is not None and entry.current_txn_first_offset != NO_OFFSET


def write_checkpoints(logs: LogManager, name: str) -> None:
    """Writes the checkpoints that are due. As with a broker, a failure takes the directory offline."""
    for file in logs.checkpoints_due(name):
        try:
            logs.write_checkpoint(file)
        except StorageError as failure:
            logs.on_storage_error(file.path, failure)
