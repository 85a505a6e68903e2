"""One partition's log: append, roll, read, look up, truncate, retain."""

import os
from pathlib import Path

import pytest

from kavka.errors import (
    CorruptRecords,
    ErrorCode,
    InvariantViolation,
    OffsetOutOfRange,
    RecordsError,
    StorageError,
)
from kavka.filesystem import Buffer
from kavka.log.decide.indexes import TimeIndex
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_loader import load_log
from kavka.log.log_segments import READ_POSITIONS, TAIL_POSITIONS
from kavka.log.segment import LOG_SUFFIX
from kavka.log.unified_log import UnifiedLog
from kavka.records.batch import TimestampType, iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka.records.control import ControlType
from kavka.runtime.disk import LocalFile, LocalFileSystem
from tests.unit.log.log_support import (
    DAY_MS,
    NOW_MS,
    PARTITION,
    FailingFileSystem,
    append,
    batch,
    find_time,
    has_open_transaction,
    load,
    log_directory,
    marker,
    new_log,
    offsets,
    records,
    reopen,
    request,
)

HOUR_MS = 3_600_000
SMALL_SEGMENTS = {"segment_bytes": 400, "index_interval_bytes": 100}


def refused(log: UnifiedLog, data: bytearray) -> ErrorCode:
    before = log.log_end_offset, log.size_bytes
    with pytest.raises(RecordsError) as error:
        log.append_as_leader(data, 0, NOW_MS)
    assert (log.log_end_offset, log.size_bytes) == before
    return error.value.code


# -- appending that ends half way


def in_files(log: UnifiedLog) -> list[tuple[int, int]]:
    """(size as the log has it, size of the file) of each segment that has one."""
    return [(one.size, os.path.getsize(one.path(LOG_SUFFIX))) for one in log.segments if one.is_made]


def check_whole(log: UnifiedLog, end_offset: int) -> None:
    """What the log says of itself, its files and their batches agree."""
    assert log.log_end_offset == end_offset
    assert all(size == in_file for size, in_file in in_files(log))
    headers = [header for segment in log.segments for _, header in segment.headers()]
    ends = [header.last_offset + 1 for header in headers]
    assert [header.base_offset for header in headers] == [0, *ends[:-1]][: len(headers)]
    assert (ends[-1] if ends else 0) == end_offset
    for segment in log.segments:
        positions = {position for position, _ in segment.headers()}
        assert {entry.position for entry in segment.offset_index} <= positions


class Indisposed(LocalFileSystem):
    """A disk on which reading an index, or writing, ends in an exception that nobody foresaw."""

    def __init__(self) -> None:
        self.reading: Exception | None = None
        self.writing: Exception | None = None

    def read(self, path: str) -> bytes:
        if self.reading is not None and path.endswith("index"):
            raise self.reading
        return super().read(path)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        return IndisposedFile(self, super().open(path, create=create, read_only=read_only))


class IndisposedFile(LocalFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: Indisposed, file: LocalFile) -> None:
        super().__init__(file.path, file._descriptor)
        file._descriptor = -1
        self._disk = disk

    def append(self, data: Buffer) -> None:
        if self._disk.writing is not None:
            super().append(memoryview(data)[: len(data) // 2])
            raise self._disk.writing
        super().append(data)


def append_either_way(log: UnifiedLog, role: str) -> None:
    if role == "leader":
        log.append_as_leader(batch(2), 0, NOW_MS)
    else:
        end = log.log_end_offset
        log.append_as_follower(batch(1, base_offset=end) + batch(1, base_offset=end + 1), NOW_MS)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_an_append_that_cannot_read_the_indexes_writes_nothing(tmp_path: Path, role: str) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, batch(2), batch(1), batch(1))
    log.close(NOW_MS)
    disk = Indisposed()
    loaded = load_log(log_directory(tmp_path, disk), request(log.config, was_clean=True, recovery_point=4))
    again = UnifiedLog(PARTITION, loaded, log.config, now_ms=NOW_MS)
    for segment in again.segments:
        segment.release()
    disk.reading = MemoryError("too large an index")
    with pytest.raises(MemoryError):
        append_either_way(again, role)
    disk.reading = None
    check_whole(again, 4)
    append_either_way(again, role)
    check_whole(again, 6)
    again.set_high_watermark(6)
    assert offsets(again) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_an_append_that_ends_in_the_middle_of_its_write_fails_the_log(tmp_path: Path, role: str) -> None:
    disk = Indisposed()
    log = new_log(tmp_path, filesystem=disk, **SMALL_SEGMENTS)
    append(log, batch(2))
    disk.writing = MemoryError("no room for another buffer")
    with pytest.raises(MemoryError):
        append_either_way(log, role)
    disk.writing = None
    assert log.log_end_offset == 2
    assert offsets(log) == [0, 1]
    for _ in range(2):
        with pytest.raises(StorageError, match="half way"):
            append_either_way(log, role)
    check_whole(reopen(log), 2 if role == "leader" else 3)  # the first of two batches was there whole


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_an_append_that_cannot_be_noted_in_the_index_fails_the_log(
    tmp_path: Path, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the write nothing but memory is touched, so that no disk can make this happen."""
    log = new_log(tmp_path, index_interval_bytes=0)
    append(log, batch(2))
    with monkeypatch.context() as patched:
        patched.setattr(TimeIndex, "maybe_append", raise_memory_error)
        with pytest.raises(MemoryError):
            append_either_way(log, role)
    assert log.log_end_offset == 2
    assert offsets(log) == [0, 1]
    with pytest.raises(StorageError, match="half way"):
        append_either_way(log, role)
    recovered = reopen(log)
    check_whole(recovered, 4)


@pytest.mark.parametrize("number", range(5))
def test_a_truncation_that_meets_damaged_records_is_whole_or_fails_the_log(tmp_path: Path, number: int) -> None:
    size = len(batch())
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch() for _ in range(12)))
    damaged = log.segments[1]
    with open(damaged.path(LOG_SUFFIX), "r+b") as file:
        file.seek(number * size + 16)  # The batch's magic.
        file.write(b"\x09")
    if number > 3:  # What is behind the cut is not read.
        log.truncate_to(damaged.base_offset + 3, NOW_MS)
        assert (log.log_end_offset, log.size_bytes) == (8, 8 * size)
        assert log.append_as_leader(batch(), 0, NOW_MS).first_offset == 8
        return
    for change in (lambda: log.truncate_to(damaged.base_offset + 3, NOW_MS), lambda: append(log, batch())):
        with pytest.raises(StorageError, match="cannot be truncated"):
            change()


def raise_memory_error(*_: object) -> None:
    raise MemoryError


@pytest.mark.parametrize("before", [0, 1])
def test_a_follower_writes_nothing_of_what_holds_a_marker_that_cannot_be_read(tmp_path: Path, before: int) -> None:
    """Its CRC is right, so nothing but its reader finds out."""
    log = new_log(tmp_path)
    good = [batch(1, base_offset=number) for number in range(before)]
    builder = BatchBuilder(Compression.NONE)
    builder.append(NOW_MS, b"no", b"marker")
    stamp = ProducerStamp(7, 0, -1, is_transactional=True, is_control=True)
    bad = builder.build(stamp, base_offset=before)
    with pytest.raises(CorruptRecords, match="without a control record"):
        log.append_as_follower(b"".join([*good, bad, batch(1, base_offset=before + 1)]), NOW_MS)
    check_whole(log, 0)
    log.append_as_follower(b"".join([*good, batch(2, base_offset=before)]), NOW_MS)
    check_whole(log, before + 2)


# -- appending


def test_batches_get_the_next_offsets_and_the_leaders_epoch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first = log.append_as_leader(batch(3), 5, NOW_MS)
    second = log.append_as_leader(batch(2), 6, NOW_MS)
    assert (first.first_offset, first.last_offset, first.log_append_time_ms, first.is_duplicate) == (0, 2, -1, False)
    assert (second.first_offset, second.last_offset) == (3, 4)
    data = log.read(0, 1 << 20, max_offset=5, min_one_batch=True).chunks[0].tobytes()
    stored = [one.header for one in iterate_batches(memoryview(data))]
    assert [(one.base_offset, one.partition_leader_epoch) for one in stored] == [(0, 5), (3, 6)]


def test_records_that_nobody_may_write_to_are_appended_all_the_same(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.append_as_leader(bytes(batch(2)), 0, NOW_MS).last_offset == 1


def test_a_new_log_is_only_a_directory_until_its_first_batch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert list(tmp_path.iterdir()) == []
    log.append_as_leader(batch(), 0, NOW_MS)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000000.log"]


@pytest.mark.setting("message.timestamp.type")
def test_a_log_that_stamps_batches_says_when(tmp_path: Path) -> None:
    log = new_log(tmp_path, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    result = log.append_as_leader(batch(3, timestamp=5), 0, NOW_MS)
    log.advance_high_watermark(3)
    assert result.log_append_time_ms == NOW_MS
    assert [record.timestamp for record in records(log)] == [NOW_MS] * 3
    assert log.segments[0].max_timestamp == NOW_MS


@pytest.mark.setting("max.message.bytes")
def test_a_batch_over_max_message_bytes_is_too_large(tmp_path: Path) -> None:
    data = batch([b"x" * 100])
    assert refused(new_log(tmp_path / "a", max_message_bytes=len(data) - 1), data) is ErrorCode.MESSAGE_TOO_LARGE
    assert new_log(tmp_path / "b", max_message_bytes=len(data)).append_as_leader(data, 0, NOW_MS).last_offset == 0


@pytest.mark.setting("segment.bytes")
def test_a_batch_over_segment_bytes_is_refused(tmp_path: Path) -> None:
    data = batch([b"x" * 100])
    assert refused(new_log(tmp_path, segment_bytes=len(data) - 1), data) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_corrupt_batch_is_refused(tmp_path: Path) -> None:
    data = batch()
    data[-1] ^= 1
    assert refused(new_log(tmp_path), data) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.setting("message.timestamp.after.max.ms")
def test_a_batch_from_the_future_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path, message_timestamp_after_max_ms=1_000)
    assert refused(log, batch(timestamp=NOW_MS + 1_001)) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.setting("cleanup.policy")
def test_a_compacted_topic_takes_no_record_without_a_key(tmp_path: Path) -> None:
    log = new_log(tmp_path, cleanup_compact=True)
    assert refused(log, batch()) is ErrorCode.INVALID_RECORD
    append(log, batch(key=b"k"))


@pytest.mark.setting("compression.type")
@pytest.mark.parametrize("sent", [Compression.NONE, Compression.LZ4])
def test_a_topic_with_a_codec_of_its_own_deflates_batches_anew(tmp_path: Path, sent: Compression) -> None:
    log = new_log(tmp_path, compression_type=Compression.GZIP)
    append(log, batch([b"x" * 500] * 3, compression=sent))
    data = log.read(0, 1 << 20, max_offset=3, min_one_batch=True).chunks[0].tobytes()
    assert [one.header.compression for one in iterate_batches(memoryview(data))] == [Compression.GZIP]
    assert [record.value for record in records(log)] == [b"x" * 500] * 3


@pytest.mark.setting("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
@pytest.mark.parametrize(
    ("codec", "levels"), [(Compression.GZIP, (1, 9)), (Compression.LZ4, (1, 12)), (Compression.ZSTD, (-1_000, 19))]
)
def test_the_topics_level_of_its_codec_is_the_effort_made(
    tmp_path: Path, codec: Compression, levels: tuple[int, int]
) -> None:
    text = b" ".join(f"{number * number:x} jackdaws".encode() for number in range(3_000))
    sizes = []
    for level in levels:
        log = new_log(tmp_path / str(level), compression_type=codec, compression_level=level)
        append(log, batch([text]))
        sizes.append(log.size_bytes)
        assert [record.value for record in records(log)] == [text]
    assert sizes[1] < 0.95 * sizes[0]


def test_a_stamped_batch_stays_stamped_when_it_is_deflated_anew(tmp_path: Path) -> None:
    log = new_log(tmp_path, compression_type=Compression.GZIP, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    append(log, batch(2, timestamp=7))
    assert [record.timestamp for record in records(log)] == [NOW_MS] * 2


def test_a_batch_that_the_topics_codec_makes_too_large_is_refused(tmp_path: Path) -> None:
    data = batch([b"x" * 5_000], compression=Compression.ZSTD)
    log = new_log(tmp_path, compression_type=Compression.NONE, max_message_bytes=1_000)
    assert refused(log, data) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_duplicate_is_answered_with_its_old_offsets_and_written_once(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(5))
    log.append_as_leader(batch(2, producer_id=1), 0, NOW_MS)
    append(log, batch(4))
    again = log.append_as_leader(batch(2, producer_id=1), 0, NOW_MS)
    assert (again.first_offset, again.last_offset, again.is_duplicate) == (5, 6, True)
    assert log.log_end_offset == 11


def test_a_refused_batch_leaves_its_producers_sequence_as_it_was(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=2_000)
    append(log, batch(producer_id=1))
    assert refused(log, batch([b"x" * 3_000], producer_id=1, sequence=1)) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert refused(log, batch(producer_id=1, sequence=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(producer_id=1, sequence=1))


@pytest.mark.parametrize("stamp", [ProducerStamp(-1, -1, -1, is_transactional=True), ProducerStamp(-1, -2, -1)])
def test_nothing_is_asked_of_a_batch_without_a_producer(tmp_path: Path, stamp: ProducerStamp) -> None:
    """Whatever else it says of one: Kafka's UnifiedLog.analyzeAndValidateProducerState asks `hasProducerId` first."""
    log = new_log(tmp_path)
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"v")
    log.append_as_leader(bytearray(builder.build(stamp)), 0, NOW_MS)
    assert (log.log_end_offset, log.producers.entries(), log.producers.first_unstable_offset) == (1, [], -1)


def test_a_coordinator_appends_markers_that_end_transactions(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=1, transactional=True))
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    assert has_open_transaction(log.producers, 1)
    data = marker(ControlType.COMMIT, producer_id=1)
    log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3
    assert log.aborted_transactions(0, 3) == []


def test_a_client_may_not_append_markers(tmp_path: Path) -> None:
    assert refused(new_log(tmp_path), marker(ControlType.ABORT, producer_id=1)) is ErrorCode.INVALID_RECORD


def test_aborted_transactions_are_found_by_the_offsets_that_a_reader_gets(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=300)
    for producer_id in (1, 2):
        for number in range(3):
            append(log, batch(2, producer_id=producer_id, sequence=2 * number, transactional=True))
        data = marker(ControlType.ABORT, producer_id=producer_id)
        log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(14)
    assert len(log.segments) > 2
    assert log.last_stable_offset == 14
    first, second = (1, 0, 6, 7), (2, 7, 13, 14)
    assert log.aborted_transactions(0, 14) == [first, second]
    assert log.aborted_transactions(0, 7) == [first]
    assert log.aborted_transactions(7, 14) == [second]
    assert log.aborted_transactions(14, 14) == []


@pytest.mark.parametrize("damaged", [0, 2], ids=["the first batch", "another one"])
def test_damage_that_an_append_meets_does_not_stop_it_nor_leave_it_half_done(tmp_path: Path, damaged: int) -> None:
    """1. A segment is not used for a while and lets go of its indexes. 2. The disk damages a batch and loses an index.
    3. An append needs the index, which can only be built from the batches, after it has written its own."""
    size = len(batch(2))
    log = new_log(tmp_path, index_interval_bytes=size)
    append(log, *(batch(2) for _ in range(6)))
    log.flush(NOW_MS)
    (active,) = log.segments
    active.release()
    with open(active.path(".log"), "r+b") as file:
        file.seek(damaged * size + 16)
        file.write(b"\x09")
    for suffix in (".index", ".timeindex"):
        Path(active.path(suffix)).unlink()
    append(log, *(batch(2) for _ in range(4)))
    assert log.log_end_offset == 20
    assert active.size == Path(active.path(".log")).stat().st_size == 10 * size
    assert log.read(18, 1 << 20, max_offset=20, min_one_batch=True).size_bytes == size
    with pytest.raises(CorruptRecords):
        log.read(2 * damaged + 3, 1 << 20, max_offset=20, min_one_batch=True)
    log.roll(NOW_MS)
    append(log, batch(2))
    assert log.read(20, 1 << 20, max_offset=22, min_one_batch=True).size_bytes == size


def test_after_a_full_disk_nothing_more_is_accepted(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    log = new_log(tmp_path, filesystem=disk)
    append(log, batch(), batch())
    disk.budget = 30
    with pytest.raises(StorageError, match="ENOSPC"):
        log.append_as_leader(batch(), 0, NOW_MS)
    disk.budget = 1 << 20
    with pytest.raises(StorageError, match="ENOSPC"):
        log.append_as_leader(batch(), 0, NOW_MS)
    assert log.log_end_offset == 2
    found, loaded = load(log)
    assert offsets(found) == [0, 1]
    assert [(reason.what, reason.cut_bytes, reason.offset) for reason in loaded.reasons] == [("segment cut", 30, 2)]


# -- as a follower


def test_a_follower_keeps_the_leaders_offsets_and_epochs(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = batch(2, base_offset=0, leader_epoch=1) + batch(3, base_offset=2, leader_epoch=4)
    result = log.append_as_follower(data, NOW_MS)
    assert result is not None
    assert (result.first_offset, result.last_offset, log.log_end_offset) == (0, 4, 5)
    assert log.epoch_entries == [(1, 0), (4, 2)]
    log.advance_high_watermark(5)
    assert offsets(log) == [0, 1, 2, 3, 4]


def test_a_follower_accepts_the_gaps_that_compaction_left(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_follower(batch(2, base_offset=10), NOW_MS)
    assert log.log_end_offset == 12


@pytest.mark.parametrize("bases", [(0, 1), (0, 0), (1, 0)])
def test_a_follower_refuses_offsets_that_go_back(tmp_path: Path, bases: tuple[int, int]) -> None:
    log = new_log(tmp_path)
    with pytest.raises(CorruptRecords):
        log.append_as_follower(batch(2, base_offset=bases[0]) + batch(2, base_offset=bases[1]), NOW_MS)
    assert log.log_end_offset == 0


def test_a_follower_refuses_what_it_has_already(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_follower(batch(2), NOW_MS)
    with pytest.raises(CorruptRecords, match="expected none below 2"):
        log.append_as_follower(batch(2), NOW_MS)


def test_a_follower_leaves_an_incomplete_batch_at_the_end_out(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.append_as_follower(batch(2)[:-1], NOW_MS) is None
    log.append_as_follower(batch(2) + batch(2, base_offset=2)[:-1], NOW_MS)
    assert log.log_end_offset == 2


def test_a_follower_refuses_all_of_what_holds_a_damaged_batch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = batch(2) + batch(2, base_offset=2)
    data[-1] ^= 1
    with pytest.raises(CorruptRecords, match="batch 1 at offset 2"):
        log.append_as_follower(data, NOW_MS)
    assert log.size_bytes == 0


def test_a_follower_rolls_in_the_middle_of_what_it_got(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    data = b"".join(batch(2, base_offset=base) for base in range(0, 40, 2))
    log.append_as_follower(data, NOW_MS)
    log.advance_high_watermark(40)
    assert len(log.segments) > 2
    assert all(segment.size <= 400 for segment in log.segments)
    assert offsets(log) == list(range(40))


def test_leader_and_follower_have_the_same_bytes_and_the_same_producers(tmp_path: Path) -> None:
    leader = new_log(tmp_path / "leader", **SMALL_SEGMENTS)
    follower = new_log(tmp_path / "follower", **SMALL_SEGMENTS)
    for number in range(20):
        leader.append_as_leader(batch(2, producer_id=3, sequence=2 * number), number // 7, NOW_MS)
    leader.advance_high_watermark(40)
    offset = 0
    while offset < 40:
        result = leader.read(offset, 300, max_offset=40, min_one_batch=True)
        follower.append_as_follower(b"".join(chunk.tobytes() for chunk in result.chunks), NOW_MS)
        offset = result.next_offset
    assert follower.epoch_entries == leader.epoch_entries
    assert [segment.base_offset for segment in follower.segments] == [s.base_offset for s in leader.segments]
    for name in ("leader", "follower"):
        assert (tmp_path / name / "00000000000000000000.log").read_bytes() == (
            tmp_path / "leader" / "00000000000000000000.log"
        ).read_bytes()
    follower.advance_high_watermark(40)
    assert follower.append_as_leader(batch(2, producer_id=3, sequence=38), 9, NOW_MS).first_offset == 38


# -- rolling


@pytest.mark.setting("segment.bytes")
def test_a_segment_is_rolled_before_it_would_grow_over_segment_bytes(tmp_path: Path) -> None:
    size = len(batch())
    log = new_log(tmp_path, segment_bytes=2 * size)
    append(log, *(batch() for _ in range(5)))
    assert [segment.size for segment in log.segments] == [2 * size, 2 * size, size]
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


@pytest.mark.setting("segment.ms")
def test_a_segment_is_rolled_when_its_timestamps_span_segment_ms(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_ms=1_000)
    append(log, batch(timestamp=NOW_MS - 1_000), batch(timestamp=NOW_MS), batch(timestamp=NOW_MS + 1))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_without_timestamps_is_rolled_by_its_age(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_ms=1_000)
    log.append_as_leader(batch(timestamp=-1), 0, NOW_MS)
    log.append_as_leader(batch(timestamp=-1), 0, NOW_MS + 1_000)
    log.append_as_leader(batch(timestamp=-1), 0, NOW_MS + 1_001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@pytest.mark.setting("segment.index.bytes")
def test_a_segment_is_rolled_when_its_index_is_full(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_index_bytes=48, index_interval_bytes=0)
    append(log, *(batch() for _ in range(9)))
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8]


def test_a_segment_is_rolled_when_an_offset_would_not_fit_into_its_index(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_follower(batch(1, base_offset=0), NOW_MS)
    log.append_as_follower(batch(1, base_offset=(1 << 31) - 1), NOW_MS)
    log.append_as_follower(batch(1, base_offset=1 << 31), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1 << 31]


@pytest.mark.setting("segment.jitter.ms")
def test_jitter_shortens_segment_ms(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_ms=1_000, segment_jitter_ms=500)
    asked = []
    log._jitter = lambda limit: asked.append(limit) or 400  # type: ignore[func-returns-value]
    append(log, batch())
    log.roll(NOW_MS)
    append(log, batch(timestamp=NOW_MS), batch(timestamp=NOW_MS + 600), batch(timestamp=NOW_MS + 601))
    assert asked[0] == 500
    assert [segment.base_offset for segment in log.segments] == [0, 1, 3]


def test_rolling_an_empty_segment_changes_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.roll(NOW_MS) is log.segments[0]
    assert len(log.segments) == 1


@pytest.mark.setting("index.interval.bytes")
def test_each_rolled_segment_has_its_indexes_and_the_next_one_a_snapshot(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(producer_id=1, sequence=number) for number in range(10)))
    log.flush(NOW_MS)
    names = {path.name for path in tmp_path.iterdir()}
    for segment in log.segments[:-1]:
        assert {f"{segment.base_offset:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")} <= names
    for segment in log.segments[1:]:
        assert f"{segment.base_offset:020d}.snapshot" in names


# -- reading


@pytest.mark.parametrize("max_bytes", [1, 100, 250, 1_000, 1 << 20])
def test_every_record_is_read_once_whatever_the_size_of_a_read(tmp_path: Path, max_bytes: int) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(1 + number % 4) for number in range(40)))
    assert offsets(log, max_bytes=max_bytes) == list(range(log.log_end_offset))


def test_a_read_inside_of_a_batch_gets_the_whole_batch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(3), batch(5), batch(2))
    result = log.read(5, 1 << 20, max_offset=10, min_one_batch=True)
    first = next(iterate_batches(memoryview(result.chunks[0].tobytes())))
    assert first.header.base_offset == 3
    assert result.next_offset == 10


def test_a_read_stays_below_the_offset_it_is_given(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2) for _ in range(20)))
    for bound in range(2, 41, 2):
        seen = []
        offset = 0
        while (result := log.read(offset, 1 << 20, max_offset=bound, min_one_batch=True)).size_bytes:
            for one in iterate_batches(memoryview(result.chunks[0].tobytes())):
                seen += [record.offset for record in one.records()]
            offset = result.next_offset
        assert seen == list(range(bound))
        assert offset == bound


def test_a_bound_inside_of_a_batch_leaves_the_batch_out(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2), batch(4))
    result = log.read(0, 1 << 20, max_offset=3, min_one_batch=True)
    assert result.size_bytes == len(batch(2))


def test_a_first_batch_over_max_bytes_comes_whole_or_not_at_all(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch([b"x" * 5_000]), batch())
    whole = log.read(0, 100, max_offset=2, min_one_batch=True)
    nothing = log.read(0, 100, max_offset=2, min_one_batch=False)
    assert (whole.size_bytes, whole.next_offset) == (len(batch([b"x" * 5_000])), 1)
    assert (nothing.chunks, nothing.size_bytes, nothing.next_offset) == ([], 0, 0)


def test_a_read_is_no_longer_than_max_bytes(tmp_path: Path) -> None:
    log = new_log(tmp_path, index_interval_bytes=100)
    append(log, *(batch(number % 5 + 1) for number in range(100)))
    for max_bytes in range(100, 3_000, 97):
        for start in range(0, log.log_end_offset, 13):
            assert (
                log.read(start, max_bytes, max_offset=log.log_end_offset, min_one_batch=False).size_bytes <= max_bytes
            )


def test_a_read_at_the_end_is_empty_and_beyond_it_out_of_range(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(3))
    assert log.read(3, 100, max_offset=3, min_one_batch=True) == ([], 0, 3, 0)
    assert log.read(2, 100, max_offset=1, min_one_batch=True) == ([], 0, 2, 0)
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, max_offset=3, min_one_batch=True)


def test_a_slice_outlives_the_deletion_of_its_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS, retention_bytes=0, file_delete_delay_ms=0)
    append(log, *(batch(2) for _ in range(20)))
    chunk = log.read(0, 1 << 20, max_offset=40, min_one_batch=True).chunks[0]
    log.delete_old_segments(NOW_MS)
    for path in log.take_removals(NOW_MS):
        Path(path).unlink()
    assert not (tmp_path / "00000000000000000000.log").exists()
    assert next(iterate_batches(memoryview(chunk.tobytes()))).header.base_offset == 0


def test_the_remembered_positions_are_bounded(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, *(batch() for _ in range(3 * READ_POSITIONS)))
    for offset in range(2 * READ_POSITIONS):
        log.read(offset, 100, max_offset=log.log_end_offset, min_one_batch=True)
    assert len(log._segments.read_ends) == READ_POSITIONS
    assert len(log._segments.tail) == TAIL_POSITIONS


def test_the_open_segments_are_bounded_and_open_again_when_they_are_read(tmp_path: Path) -> None:
    log = new_log(tmp_path, max_open=2, **SMALL_SEGMENTS)
    append(log, *(batch(2) for _ in range(30)))
    for _ in range(2):
        assert offsets(log) == list(range(60))
    assert len(log.segments[0].directory.open_segments) == 2


# -- looking up


def test_the_first_record_not_older_than_a_timestamp_is_found(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2, timestamp=NOW_MS + 10 * number) for number in range(20)))
    for number in range(20):
        found = find_time(log, NOW_MS + 10 * number)
        assert found == (NOW_MS + 10 * number, 2 * number, 0)
        inside = find_time(log, NOW_MS + 10 * number + 1)
        assert inside is not None
        assert inside.offset == 2 * number + 1
    assert find_time(log, 0) == (NOW_MS, 0, 0)
    assert find_time(log, NOW_MS + 1_000) is None


def test_timestamps_may_go_back(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    times = [5, 90, 10, 20, 80, 30, 100, 40]
    append(log, *(batch([b"x" * 100], timestamp=NOW_MS + time) for time in times))
    for wanted in range(101):
        expected = next(number for number, time in enumerate(times) if time >= wanted)
        found = find_time(log, NOW_MS + wanted)
        assert found is not None
        assert found.offset == expected


def test_a_look_up_by_time_leaves_out_what_is_before_the_log_start(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(5))
    log.delete_records(3)
    assert find_time(log, 0) == (NOW_MS + 3, 3, 0)


def test_the_first_record_with_the_largest_timestamp_is_found(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch([b"x" * 100], timestamp=NOW_MS + time) for time in (5, 90, 10, 90, 80)))
    assert find_time(log, None) == (NOW_MS + 90, 1, 0)
    assert find_time(reopen(log), None) == (NOW_MS + 90, 1, 0)


def test_of_records_without_timestamps_the_first_has_the_largest_and_no_records_have_none(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert find_time(log, None) is None
    append(log, batch(timestamp=-1), batch(timestamp=-1))
    assert find_time(log, None) == (-1, 0, 0), "as Apache Kafka has it"


def test_an_epoch_may_start_before_its_first_record(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(3), leader_epoch=2)
    log.assign_epoch_start_offset(4, 3)
    assert log.latest_epoch == 4
    assert log.end_offset_for_epoch(2) == (2, 3)
    assert log.end_offset_for_epoch(3) == (2, 3)
    assert log.end_offset_for_epoch(4) == (4, 3)
    assert (log.leader_epoch_at(2), log.leader_epoch_at(3)) == (2, 4)


# -- high watermark


def test_the_high_watermark_stays_between_log_start_and_log_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(3):
        log.append_as_leader(batch(2), 0, NOW_MS)
    assert not log.advance_high_watermark(0)
    assert log.advance_high_watermark(4)
    assert not log.advance_high_watermark(3)
    assert log.advance_high_watermark(99)
    assert log.high_watermark == 6
    assert log.set_high_watermark(2) == 2
    log.delete_records(1)
    assert log.set_high_watermark(0) == 1


# -- forgetting the start


def test_records_are_deleted_up_to_an_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2) for _ in range(20)))
    assert log.delete_records(15)
    assert not log.delete_records(15)
    assert log.log_start_offset == 15
    with pytest.raises(OffsetOutOfRange):
        log.read(14, 100, max_offset=40, min_one_batch=True)
    assert offsets(log) == list(range(15, 40))
    deleted = log.delete_old_segments(NOW_MS)
    assert [group.reason for group in deleted] == ["log start offset"]
    assert log.segments[0].base_offset <= 15 < log.segments[1].base_offset


def test_records_above_the_high_watermark_are_not_deleted(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(5), 0, NOW_MS)
    log.advance_high_watermark(3)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(4)
    assert log.delete_records(3)


def test_the_log_start_survives_deleted_epochs(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for epoch in range(3):
        append(log, batch(2), leader_epoch=epoch)
    log.delete_records(3)
    assert log.epoch_entries == [(1, 3), (2, 4)]


@pytest.mark.setting("retention.bytes")
def test_old_segments_go_when_the_log_is_over_retention_bytes(tmp_path: Path) -> None:
    size = len(batch())
    log = new_log(tmp_path, segment_bytes=2 * size, retention_bytes=5 * size, file_delete_delay_ms=1_000)
    append(log, *(batch() for _ in range(9)))
    deleted = log.delete_old_segments(NOW_MS)
    assert [(group.reason, group.base_offsets, group.size_bytes) for group in deleted] == [
        ("retention.bytes", (0, 2), 4 * size)
    ]
    assert (log.log_start_offset, log.size_bytes) == (4, 5 * size)
    assert log.take_removals(NOW_MS + 999) == []
    due = log.take_removals(NOW_MS + 1_000)
    assert due
    assert all(path.endswith(".deleted") and Path(path).exists() for path in due)
    assert log.take_removals(NOW_MS + 1_000) == []


@pytest.mark.setting("retention.ms")
def test_old_segments_go_when_their_last_timestamp_is_over_retention_ms(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=len(batch()), retention_ms=DAY_MS, segment_ms=100 * DAY_MS)
    for days in (3, 2, 1, 0):
        append(log, batch(timestamp=NOW_MS - days * DAY_MS))
    assert [group.base_offsets for group in log.delete_old_segments(NOW_MS)] == [(0, 1)]
    assert offsets(log) == [2, 3]


def test_the_active_segment_goes_by_age_too_and_an_empty_one_follows(tmp_path: Path) -> None:
    log = new_log(tmp_path, retention_ms=DAY_MS)
    append(log, batch(3, timestamp=NOW_MS - 2 * DAY_MS))
    log.delete_old_segments(NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert log.delete_old_segments(NOW_MS + 9 * DAY_MS) == []
    append(log, batch())
    assert offsets(log) == [3]


def written_at(log: UnifiedLog, *, age_ms: int) -> None:
    """Has the disk say that every .log was last written `age_ms` before NOW_MS."""
    for segment in log.segments:
        log_path = segment.path(LOG_SUFFIX)
        os.utime(log_path, ns=((NOW_MS - age_ms) * 1_000_000,) * 2)


def test_segments_without_timestamps_age_from_their_last_write_whenever_the_broker_was_started(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=len(batch()), retention_ms=HOUR_MS)
    append(log, *(batch(timestamp=-1) for _ in range(3)))
    log.close(NOW_MS)
    written_at(log, age_ms=2 * HOUR_MS)
    again = reopen(log, was_clean=True, recovery_point=3)
    assert [group.base_offsets for group in again.delete_old_segments(NOW_MS)] == [(0, 1, 2)]
    assert (again.log_start_offset, again.log_end_offset) == (3, 3)


def test_of_segments_without_timestamps_recovery_makes_none_younger(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=len(batch()), retention_ms=HOUR_MS)
    append(log, *(batch(timestamp=-1) for _ in range(3)))
    log.close(NOW_MS)
    written_at(log, age_ms=2 * HOUR_MS)
    assert [group.base_offsets for group in reopen(log).delete_old_segments(NOW_MS)] == [(0, 1, 2)]


def test_a_segment_without_timestamps_that_is_still_written_to_stays(tmp_path: Path) -> None:
    log = new_log(tmp_path, retention_ms=HOUR_MS)
    append(log, batch(timestamp=-1), batch(timestamp=-1))
    written_at(log, age_ms=HOUR_MS)
    assert log.delete_old_segments(NOW_MS) == []
    later = NOW_MS + 5 * HOUR_MS
    written_at(log, age_ms=-5 * HOUR_MS)
    assert log.delete_old_segments(later) == []
    assert [group.base_offsets for group in log.delete_old_segments(later + HOUR_MS + 1)] == [(0,)]


def test_a_segment_with_one_timestamp_ages_by_it_not_by_its_file(tmp_path: Path) -> None:
    log = new_log(tmp_path, retention_ms=HOUR_MS)
    append(log, batch(timestamp=NOW_MS), batch(timestamp=-1))
    written_at(log, age_ms=2 * HOUR_MS)
    assert log.delete_old_segments(NOW_MS) == []
    written_at(log, age_ms=-2 * HOUR_MS)
    assert [group.base_offsets for group in log.delete_old_segments(NOW_MS + HOUR_MS + 1)] == [(0,)]


def test_retention_of_a_segment_whose_file_is_gone_fails_the_disk(tmp_path: Path) -> None:
    log = new_log(tmp_path, retention_ms=HOUR_MS)
    append(log, batch(timestamp=-1))
    os.remove(log.segments[0].path(LOG_SUFFIX))
    with pytest.raises(StorageError, match="is gone"):
        log.delete_old_segments(NOW_MS)


def test_a_segment_without_timestamps_is_rolled_by_its_age_since_the_start_whatever_its_file_says(
    tmp_path: Path,
) -> None:
    """So does Apache Kafka: LogSegment.timeWaitedForRoll goes by when it opened the segment."""
    log = new_log(tmp_path, segment_ms=HOUR_MS)
    append(log, batch(timestamp=-1))
    log.close(NOW_MS)
    written_at(log, age_ms=2 * HOUR_MS)
    again = reopen(log, was_clean=True, recovery_point=1)
    again.append_as_leader(batch(timestamp=-1), 0, NOW_MS + HOUR_MS)
    again.append_as_leader(batch(timestamp=-1), 0, NOW_MS + HOUR_MS + 1)
    assert [segment.base_offset for segment in again.segments] == [0, 2]


def test_nothing_above_the_high_watermark_goes(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=len(batch()), retention_ms=0, retention_bytes=0)
    for _ in range(4):
        log.append_as_leader(batch(timestamp=NOW_MS - DAY_MS), 0, NOW_MS)
    log.advance_high_watermark(2)
    log.delete_old_segments(NOW_MS)
    assert log.log_start_offset == 2
    assert log.log_end_offset == 4


def test_a_timestamp_in_the_future_keeps_only_its_own_segment_and_those_behind(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=len(batch()), retention_ms=DAY_MS, segment_ms=1 << 60)
    append(log, batch(timestamp=NOW_MS - 2 * DAY_MS), batch(timestamp=NOW_MS + 3_000_000), batch(timestamp=5))
    log.delete_old_segments(NOW_MS)
    assert log.log_start_offset == 1


@pytest.mark.setting("cleanup.policy")
def test_a_compacted_log_is_not_cut_by_retention(tmp_path: Path) -> None:
    log = new_log(
        tmp_path, segment_bytes=200, retention_ms=0, retention_bytes=0, cleanup_delete=False, cleanup_compact=True
    )
    append(log, *(batch(key=b"k", timestamp=NOW_MS - DAY_MS) for _ in range(9)))
    assert log.delete_old_segments(NOW_MS) == []


# -- forgetting the end


@pytest.mark.parametrize("offset", [0, 2, 14, 20, 38])
def test_truncation_removes_what_is_at_the_offset_and_behind(tmp_path: Path, offset: int) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2) for _ in range(20)))
    log.flush(NOW_MS)
    assert log.truncate_to(offset, NOW_MS)
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (offset, offset, offset)
    assert offsets(log) == list(range(offset))
    append(log, batch(3))
    assert offsets(log) == list(range(offset + 3))
    assert offsets(reopen(log)) == list(range(offset + 3))


def test_truncation_inside_of_a_batch_removes_the_batch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(4), batch(4))
    log.truncate_to(6, NOW_MS)
    assert log.log_end_offset == 4


def test_truncation_at_the_end_only_drops_epochs_without_records(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(4), leader_epoch=1)
    log.assign_epoch_start_offset(2, 4)
    assert not log.truncate_to(4, NOW_MS)
    assert log.epoch_entries == [(1, 0)]


def test_truncation_below_the_first_segment_starts_over_there(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS, retention_bytes=0)
    append(log, *(batch(2) for _ in range(20)))
    log.delete_old_segments(NOW_MS)
    assert log.truncate_to(5, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (5, 5, 0)


def test_truncation_to_a_negative_offset_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation):
        new_log(tmp_path).truncate_to(-1, NOW_MS)


def test_truncation_takes_the_producers_back_with_it(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(producer_id=1, sequence=number) for number in range(12)))
    log.truncate_to(7, NOW_MS)
    assert refused(log, batch(producer_id=1, sequence=12)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append_as_leader(batch(producer_id=1, sequence=7), 1, NOW_MS).first_offset == 7


def test_truncation_keeps_a_producer_whose_last_batch_the_log_start_lies_in(tmp_path: Path) -> None:
    """Forgotten, its batch would be written a second time when it is sent again."""
    log = new_log(tmp_path)
    sent = batch(2, producer_id=1)
    append(log, sent)
    log.advance_high_watermark(2)
    assert log.delete_records(1)
    append(log, batch())
    log.truncate_to(2, NOW_MS)
    assert log.append_as_leader(sent, 0, NOW_MS).is_duplicate


def test_truncation_opens_a_transaction_again_whose_marker_is_gone(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=1, transactional=True))
    log.append_as_leader(marker(ControlType.ABORT, producer_id=1), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(3)
    assert log.aborted_transactions(0, 3)
    log.truncate_to(2, NOW_MS)
    assert has_open_transaction(log.producers, 1)
    assert log.last_stable_offset == 0
    assert log.aborted_transactions(0, 3) == []


def test_truncation_puts_the_largest_timestamp_back(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(timestamp=NOW_MS), batch(timestamp=NOW_MS + 500))
    log.truncate_to(1, NOW_MS)
    assert find_time(log, None) == (NOW_MS, 0, 0)


def test_a_segment_that_a_truncation_emptied_is_as_young_as_a_new_one(tmp_path: Path) -> None:
    """Records without timestamps: the time since the segment was made decides when it is rolled."""
    log = new_log(tmp_path, segment_ms=1_000)
    log.append_as_leader(batch(timestamp=-1), 0, NOW_MS)
    log.truncate_to(0, NOW_MS + 5_000)
    for after_ms in (5_000, 6_000, 6_001):
        log.append_as_leader(batch(timestamp=-1), 0, NOW_MS + after_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_follower_without_anything_in_common_starts_over(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2, producer_id=1, sequence=2 * number) for number in range(20)))
    log.truncate_fully_and_start_at(100, NOW_MS)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert (log.epoch_entries, list(log.producers.producers)) == ([], [])
    log.append_as_follower(batch(2, base_offset=100, leader_epoch=9), NOW_MS)
    log.advance_high_watermark(102)
    assert offsets(log) == [100, 101]
    assert offsets(reopen(log)) == [100, 101]


# -- durability


def test_a_flush_moves_the_recovery_point_to_what_was_prepared(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(3))
    task = log.prepare_flush()
    assert task is not None
    append(log, batch(2))
    task.sync()
    log.complete_flush(task, NOW_MS + 5)
    assert (log.recovery_point, log.log_end_offset, log._durability.last_flush_ms) == (3, 5, NOW_MS + 5)


def test_only_one_flush_is_under_way_at_a_time(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch())
    task = log.prepare_flush()
    assert task is not None
    assert log.prepare_flush() is None
    assert not log.flush_due(1 << 62)
    log.complete_flush(task, NOW_MS)
    assert log.prepare_flush() is None


def test_a_failed_flush_stops_the_log(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    log = new_log(tmp_path, filesystem=disk)
    append(log, batch())
    disk.fail_syncs = True
    with pytest.raises(StorageError):
        log.flush(NOW_MS)
    assert log.recovery_point == 0
    with pytest.raises(StorageError):
        log.append_as_leader(batch(), 0, NOW_MS)


def test_a_flush_after_a_truncation_does_not_claim_what_is_gone(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(3), batch(3))
    task = log.prepare_flush()
    assert task is not None
    log.truncate_to(3, NOW_MS)
    task.sync()
    log.complete_flush(task, NOW_MS)
    assert log.recovery_point == 3


def test_no_high_watermark_is_claimed_above_a_truncation_that_a_power_cut_may_undo(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(3), batch(3), leader_epoch=1)
    log.set_high_watermark(3)

    log.truncate_to(3, NOW_MS)
    append(log, batch(3), leader_epoch=2)
    log.set_high_watermark(6)

    assert (log.high_watermark, log.durable_high_watermark) == (6, 3)
    assert log.flush_due(NOW_MS)
    task = log.prepare_flush()
    assert task is not None
    task.sync()
    log.truncate_to(3, NOW_MS)  # a second one, while the first is being synced
    log.complete_flush(task, NOW_MS)
    append(log, batch(3), leader_epoch=3)
    log.set_high_watermark(6)
    assert log.durable_high_watermark == 3
    log.flush(NOW_MS)
    assert log.durable_high_watermark == 6


def test_a_log_that_begins_anew_claims_no_more_than_it_had_until_that_is_synced(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(5))
    log.set_high_watermark(2)

    log.truncate_fully_and_start_at(100, NOW_MS)

    assert (log.high_watermark, log.durable_high_watermark) == (100, 2)
    log.append_as_leader(batch(1), 0, NOW_MS)
    log.flush(NOW_MS)
    assert log.durable_high_watermark == log.high_watermark


def test_a_flush_does_not_claim_what_was_written_after_a_truncation(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(3), batch(3))
    task = log.prepare_flush()
    assert task is not None
    log.truncate_to(3, NOW_MS)
    append(log, batch(5))
    task.sync()
    log.complete_flush(task, NOW_MS)
    assert (log.recovery_point, log.log_end_offset) == (3, 8)


@pytest.mark.setting("flush.messages", "flush.ms")
def test_a_flush_is_due_by_messages_by_time_and_after_a_roll(tmp_path: Path) -> None:
    by_messages = new_log(tmp_path / "a", flush_messages=3)
    append(by_messages, batch(2))
    assert not by_messages.flush_due(NOW_MS)
    append(by_messages, batch())
    assert by_messages.flush_due(NOW_MS)
    by_time = new_log(tmp_path / "b", flush_ms=1_000)
    assert not by_time.flush_due(NOW_MS + 5_000)
    append(by_time, batch())
    assert not by_time.flush_due(NOW_MS + 999)
    assert by_time.flush_due(NOW_MS + 1_000)
    rolled = new_log(tmp_path / "c")
    append(rolled, batch())
    assert not rolled.flush_due(NOW_MS)
    rolled.roll(NOW_MS)
    assert rolled.flush_due(NOW_MS)
    task = rolled.prepare_flush()
    assert task is not None
    task.sync()
    rolled.complete_flush(task, NOW_MS)
    assert not rolled.flush_due(NOW_MS)


@pytest.mark.parametrize("back_ms", [1, 3_600_000])
def test_a_clock_that_is_set_back_puts_no_flush_off(tmp_path: Path, back_ms: int) -> None:
    log = new_log(tmp_path / "a", flush_ms=1_000)
    append(log, batch())
    assert log.flush_due(NOW_MS - back_ms)
    log.flush(NOW_MS - back_ms)
    append(log, batch())
    assert not log.flush_due(NOW_MS - back_ms + 999)
    assert log.flush_due(NOW_MS - back_ms + 1_000)
    never = new_log(tmp_path / "b")
    append(never, batch())
    assert not never.flush_due(NOW_MS - back_ms)


def test_a_flush_of_a_deleted_partition_ends_quietly(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0")
    append(log, batch())
    task = log.prepare_flush()
    assert task is not None
    log.rename_directory(str(tmp_path / "orders-0.1-delete"))
    task.sync()


def test_a_reconfigured_log_obeys_its_new_settings_at_once(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch())
    config = type(log.config)(max_message_bytes=10)
    log.reconfigure(config)
    assert log.config is config
    assert refused(log, batch()) is ErrorCode.MESSAGE_TOO_LARGE


# -- preallocate


def reserved_bytes(log: UnifiedLog, base_offset: int) -> int:
    return (Path(log.directory) / f"{base_offset:020d}.log").stat().st_blocks * 512


@pytest.mark.setting("log.preallocate", "preallocate")
def test_a_segment_gets_its_room_with_its_first_batch_and_gives_the_rest_back_when_it_is_closed(tmp_path: Path) -> None:
    log = new_log(tmp_path, preallocate=True, segment_bytes=1 << 20)
    assert not list(tmp_path.rglob("*.log"))
    append(log, batch([b"x" * 100]))
    assert reserved_bytes(log, 0) >= 1 << 20
    assert (Path(log.directory) / f"{0:020d}.log").stat().st_size == log.size_bytes
    append(log, batch([b"y" * 100]))
    log.roll(NOW_MS)
    assert reserved_bytes(log, 0) < 1 << 16
    log.append_as_follower(batch([b"z" * 100], base_offset=2), NOW_MS)
    assert reserved_bytes(log, 2) >= 1 << 20
    log.close(NOW_MS)
    assert reserved_bytes(log, 2) < 1 << 16
    assert [record.value for record in records(reopen(log))] == [b"x" * 100, b"y" * 100, b"z" * 100]


@pytest.mark.setting("preallocate")
def test_a_kill_leaves_no_more_than_the_records(tmp_path: Path) -> None:
    log = new_log(tmp_path, preallocate=True, segment_bytes=1 << 20)
    for value in (b"x", b"y"):
        append(log, batch([value]))
        log.roll(NOW_MS)
    append(log, batch([b"z"]))
    # As between a roll and the moment in which the room is given back.
    LocalFileSystem().open(f"{log.directory}/{0:020d}.log").preallocate(1 << 20)
    found = reopen(log, was_clean=False)
    assert [record.value for record in records(found)] == [b"x", b"y", b"z"]
    assert reserved_bytes(found, 0) < 1 << 16
    append(found, batch([b"more"]))
    assert found.log_end_offset == 4


@pytest.mark.setting("preallocate")
def test_a_log_whose_disk_has_not_so_much_room_takes_records_all_the_same(tmp_path: Path) -> None:
    log = new_log(tmp_path, preallocate=True, segment_bytes=1 << 60)
    append(log, batch([b"x"]))
    assert [record.value for record in records(log)] == [b"x"]
