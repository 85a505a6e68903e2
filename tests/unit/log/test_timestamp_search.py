"""A search by time: in steps that touch nothing of the log, whatever lies in its files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kavka.errors import CorruptRecords, ErrorCode, RecordsError, StorageError
from kavka.log.log_loader import load_log
from kavka.log.timestamp_search import STEP_ITEMS, TimestampSearch
from kavka.log.unified_log import UnifiedLog
from kavka.records.batch import read_header
from kavka.records.builder import seal
from kavka.runtime.disk import LocalFile, LocalFileSystem
from tests.unit.log.log_support import (
    NOW_MS,
    PARTITION,
    append,
    batch,
    find_time,
    log_directory,
    new_log,
    offsets,
    reopen,
    request,
)
from tests.unit.log.noting_disk import NotingFileSystem

MAX_LONG = (1 << 63) - 1
HOUR_MS = 3_600_000


def steps(log: UnifiedLog, timestamp: int | None) -> int:
    return sum(1 for _ in TimestampSearch.of(log, timestamp).steps())


def unreadable(base_offset: int, payload: bytes = b"\xff" * 200, *, attributes: int = 0) -> bytes:
    """A batch with a right checksum that says it has nine records of now, as an older leader may have accepted it."""
    header = read_header(batch(9, base_offset=base_offset, leader_epoch=0))
    return seal(header._replace(attributes=attributes), payload)


def poisoned(path: Path, data: bytes) -> UnifiedLog:
    """An hour old record, then `data`, then one that is an hour younger."""
    log = new_log(path)
    append(log, batch(timestamp=NOW_MS - HOUR_MS))
    log.append_as_follower(data, NOW_MS)
    append(log, batch(timestamp=NOW_MS + HOUR_MS))
    return log


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(unreadable(1), ErrorCode.INVALID_RECORD, id="garbage"),
        pytest.param(unreadable(1, b""), ErrorCode.INVALID_RECORD, id="no bytes"),
        pytest.param(unreadable(1, attributes=1), ErrorCode.UNKNOWN_SERVER_ERROR, id="not of its codec"),
        pytest.param(unreadable(1, attributes=7), ErrorCode.UNKNOWN_SERVER_ERROR, id="no codec"),
    ],
)
def test_a_batch_that_cannot_be_read_is_an_error_only_where_the_record_may_be_in_it(
    tmp_path: Path, data: bytes, code: ErrorCode
) -> None:
    log = poisoned(tmp_path, data)
    assert find_time(log, NOW_MS - HOUR_MS) == (NOW_MS - HOUR_MS, 0, 0)
    search = TimestampSearch.of(log, NOW_MS)
    with pytest.raises(RecordsError) as refused:
        list(search.steps())
    assert (refused.value.code, search.unreadable) == (code, 1)
    assert find_time(log, NOW_MS + HOUR_MS) == (NOW_MS + HOUR_MS, 10, 0)
    assert find_time(log, None) == (NOW_MS + HOUR_MS, 10, 0)


class ReadOnlyDisk(LocalFileSystem):
    """As one that its system has mounted anew after an error: no file can be opened to be written."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> LocalFile:
        if create or not read_only:
            raise StorageError(path, "the disk may only be read")
        return super().open(path, read_only=True)


@pytest.mark.parametrize(("timestamp", "offset"), [(NOW_MS + 1, 1), (None, 3)])
def test_a_disk_that_may_only_be_read_is_searched(tmp_path: Path, timestamp: int | None, offset: int) -> None:
    log = new_log(tmp_path, segment_bytes=150)
    append(log, *(batch(timestamp=NOW_MS + number) for number in range(4)))
    log.close(NOW_MS)
    views = [segment.view() for segment in reopen(log, was_clean=True).segments]
    search = TimestampSearch(ReadOnlyDisk(), views, timestamp, 0)
    list(search.steps())
    assert search.found == (NOW_MS + offset, offset, 0)


def test_bytes_that_are_no_batch_are_corrupt(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, *(batch(timestamp=NOW_MS + number) for number in range(4)))
    with open(log.segments[0].path(".log"), "r+b") as file:
        file.seek(2 * (log.size_bytes // 4) + 16)
        file.write(b"\x09")
    assert find_time(log, NOW_MS + 1) == (NOW_MS + 1, 1, 0)
    with pytest.raises(CorruptRecords):
        find_time(log, NOW_MS + 2)


def test_records_behind_a_damaged_batch_are_not_passed_over_once_somebody_has_read_it(tmp_path: Path) -> None:
    """Who meets the damage has the indexes built anew, which end there."""
    log = new_log(tmp_path, index_interval_bytes=0)
    append(log, *(batch(timestamp=NOW_MS + number) for number in range(8)))
    log.flush(NOW_MS)
    with open(log.segments[0].path(".log"), "r+b") as file:
        file.seek(5 * (log.size_bytes // 8) + 16)
        file.write(b"\x09")
    log._segments.forget_places()
    with pytest.raises(CorruptRecords):
        log.read(5, 100, max_offset=8, min_one_batch=True)
    for timestamp in (NOW_MS + 5, NOW_MS + 7, None):
        with pytest.raises(CorruptRecords):
            find_time(log, timestamp)
    assert find_time(log, NOW_MS + 4) == (NOW_MS + 4, 4, 0)
    assert find_time(log, NOW_MS + 8) is None


@pytest.mark.parametrize(
    ("base", "delta", "expected"),
    [(MAX_LONG, 1, -MAX_LONG - 1), (-MAX_LONG - 1, -1, MAX_LONG), (MAX_LONG - 5, 200, -MAX_LONG + 193), (5, -7, -2)],
)
def test_timestamps_count_in_64_bits_as_in_java(tmp_path: Path, base: int, delta: int, expected: int) -> None:
    """Python's integers know no end; an answer's field does."""
    plain = batch(2, leader_epoch=0, base_offset=0)
    data = bytes(plain)
    second = data.index(b"\x00", 61 + 8)
    assert data[second + 1] == 2, "the second record is 1 ms younger"
    zigzag = delta << 1 if delta >= 0 else ~(delta << 1)
    encoded = bytes([zigzag]) if zigzag < 0x80 else bytes([zigzag & 0x7F | 0x80, zigzag >> 7])
    length = data[second - 1] + 2 * (len(encoded) - 1)
    payload = data[61 : second - 1] + bytes([length]) + data[second : second + 1] + encoded + data[second + 2 :]
    log = new_log(tmp_path)
    log.append_as_follower(
        seal(read_header(data)._replace(base_timestamp=base, max_timestamp=max(base, expected)), payload), NOW_MS
    )
    found = find_time(log, None)
    assert found is not None
    assert (found.timestamp, found.offset) == max((base, 0), (expected, 1))
    struct.pack("!q", found.timestamp)


def test_a_long_way_through_a_segment_is_gone_in_steps(tmp_path: Path) -> None:
    """The index knows of no time between the first batch and the last one: all headers are looked at."""
    log = new_log(tmp_path)
    append(log, batch(timestamp=NOW_MS + 500))
    append(log, *(batch(timestamp=NOW_MS) for _ in range(3 * STEP_ITEMS)))
    append(log, batch(timestamp=NOW_MS + 1_000))
    assert find_time(log, NOW_MS + 501) == (NOW_MS + 1_000, 3 * STEP_ITEMS + 1, 0)
    assert 3 <= steps(log, NOW_MS + 501) <= 4
    assert steps(log, NOW_MS) == 0, "the first batch has it"


def test_of_segments_that_nobody_read_only_the_ends_of_their_indexes_are(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=700, index_interval_bytes=100)
    append(log, *(batch([b"x" * 50], timestamp=NOW_MS + number) for number in range(60)))
    log.close(NOW_MS)
    log = reopen(log, was_clean=True, recovery_point=60)
    assert all(segment.view().largest is None for segment in log.segments[:-1])
    assert find_time(log, NOW_MS + 58) == (NOW_MS + 58, 58, 0)
    views = [segment.view() for segment in log.segments]
    assert all(view.largest is not None for view in views), "they know from now on"
    assert [view.indexes is not None for view in views] == [False] * (len(views) - 1) + [True]


@pytest.mark.parametrize(
    "damage", [b"", b"\xff" * 12, b"\x00" * 24, b"\xff" * 7], ids=["empty", "less", "zeros", "cut"]
)
def test_a_time_index_that_cannot_be_believed_changes_no_answer(tmp_path: Path, damage: bytes) -> None:
    log = new_log(tmp_path, segment_bytes=700, index_interval_bytes=100)
    append(log, *(batch([b"x" * 50], timestamp=NOW_MS + number) for number in range(20)))
    log.close(NOW_MS)
    for path in Path(log.directory).glob("*.timeindex"):
        path.write_bytes(path.read_bytes() + damage if damage else b"")
    log = reopen(log, was_clean=True, recovery_point=20)
    for number in range(20):
        assert find_time(log, NOW_MS + number) == (NOW_MS + number, number, 0)
    assert find_time(log, None) == (NOW_MS + 19, 19, 0)


# -- steps


def test_headers_and_records_are_looked_at_in_steps_of_so_many(tmp_path: Path) -> None:
    assert STEP_ITEMS == 500
    log = new_log(tmp_path, index_interval_bytes=1 << 30)
    append(log, batch(1_200))  # records a millisecond apart
    for number, count in ((0, 0), (498, 0), (499, 1), (998, 1), (999, 2), (1_199, 2)):
        assert steps(log, NOW_MS + number) == count
    append(log, *(batch() for _ in range(1_100)), batch(timestamp=NOW_MS + 5_000))
    assert steps(log, NOW_MS + 1_200) == 2, "1,102 headers, and one record of the last"
    assert steps(log, None) == 2


def cold(path: Path, disk: NotingFileSystem, times: list[int]) -> UnifiedLog:
    """A log with a batch of each time, four in a segment, after a clean stop and a start."""
    log = new_log(path, segment_bytes=4 * len(batch([b"x" * 50])), index_interval_bytes=0)
    append(log, *(batch([b"x" * 50], timestamp=NOW_MS + time) for time in times))
    log.close(NOW_MS)
    loaded = load_log(log_directory(path, disk), request(log.config, was_clean=True, recovery_point=len(times)))
    again = UnifiedLog(PARTITION, loaded, log.config, now_ms=NOW_MS)
    again.set_high_watermark(len(times))
    for segment in again.segments:
        segment.reopen()
        segment._max = segment._offset_index = segment._time_index = None
    return again


def test_a_step_reads_one_index_file_at_most(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    log = cold(tmp_path, disk, [*range(12)])
    search = TimestampSearch.of(log, NOW_MS + 9)
    disk.take()
    reads = [[name.lstrip("0") for name in disk.take("read")] for _ in search.steps()]
    reads.append([name.lstrip("0") for name in disk.take("read")])
    assert search.found == (NOW_MS + 9, 9, 0)
    # The end of each segment's times, of the right one then both indexes, and the batches from the entry on.
    assert reads[:5] == [[], [".timeindex"], ["4.timeindex"], ["8.timeindex", "8.index"], ["8.timeindex"]]
    assert {name for several in reads[5:] for name in several} == {"8.log"}
    assert len(reads) == 6
    search.teach()
    views = [segment.view() for segment in log.segments]
    assert [view.largest for view in views] == [(NOW_MS + end, end) for end in (3, 7, 11)]
    assert [view.indexes is not None for view in views] == [False, False, True]
    disk.take()
    assert find_time(log, NOW_MS + 9) == (NOW_MS + 9, 9, 0)
    assert set(disk.take("read")) == {f"{8:020d}.log"}, "all that was read is known"


def test_a_time_index_of_zeros_behind_its_entries_is_read_whole(tmp_path: Path) -> None:
    """Kafka lays its files out at full size, and cuts them at a clean stop: after another one they have zeros."""
    disk = NotingFileSystem()
    log = cold(tmp_path, disk, [*range(8)])
    for zeros in (12, 120):
        path = tmp_path / f"{0:020d}.timeindex"
        path.write_bytes(path.read_bytes()[:36] + bytes(zeros))
        for timestamp, found in ((2, 2), (3, 3), (5, 5)):
            assert find_time(log, NOW_MS + timestamp) == (NOW_MS + found, found, 0)
        for segment in log.segments:
            segment._max = segment._offset_index = segment._time_index = None


@pytest.mark.parametrize("left", [None, 0, 7, 12 + 7, 3 * 12 + 8])
def test_of_a_time_index_that_is_no_index_all_headers_are_looked_at(tmp_path: Path, left: int | None) -> None:
    """The last of them would be one if its first bytes were left out: so early are the timestamps."""
    log = cold(tmp_path, NotingFileSystem(), [number - NOW_MS for number in (100, 200, 300, 300)])
    path = tmp_path / f"{0:020d}.timeindex"
    data = struct.pack("!qiqiqiqi", 100, 0, 200, 1, 300, 2, 400, 3)
    path.unlink() if left is None else path.write_bytes(data[:left])
    search = TimestampSearch.of(log, 201)
    list(search.steps())
    assert search.found == (300, 2, 0)
    search.teach()
    assert log.segments[0].view().largest == (300, 2)
    assert find_time(log, None) == (300, 2, 0)


def test_of_times_that_no_record_has_the_end_of_an_index_tells(tmp_path: Path) -> None:
    for number, entries in enumerate(([0], [0, 1], [0, 1, 2], [0, 1, 2, 3])):
        disk = NotingFileSystem()
        log = cold(tmp_path / str(number), disk, entries)
        search = TimestampSearch.of(log, NOW_MS + 9)
        disk.take()
        assert (len(list(search.steps())), search.found) == (1, None)
        assert disk.take("read") == [f"{0:020d}.timeindex"]


@pytest.mark.parametrize(("headers", "count"), [(1, 0), (499, 0), (500, 1), (999, 1), (1_000, 2)])
def test_of_headers_that_are_looked_at_each_five_hundredth_ends_a_step(
    tmp_path: Path, headers: int, count: int
) -> None:
    log = new_log(tmp_path, index_interval_bytes=1 << 30)
    append(log, *(batch() for _ in range(headers - 1)), batch(timestamp=NOW_MS + 5))
    assert steps(log, NOW_MS + 1) == count
    assert steps(log, None) == count
    log.close(NOW_MS)
    (tmp_path / f"{0:020d}.timeindex").unlink()
    again = reopen(log, was_clean=True, recovery_point=headers)
    (segment,) = again.segments
    segment._max = segment._offset_index = segment._time_index = None
    assert steps(again, NOW_MS + 9) == 2 + count, "before: the end of the time index, and the offset index"


def test_a_record_is_found_with_as_few_reads_wherever_it_is(tmp_path: Path) -> None:
    """The index tells where; batches are larger than what is read of headers at a time."""
    disk = NotingFileSystem()
    log = new_log(tmp_path, filesystem=disk, index_interval_bytes=0)
    append(log, *(batch([b"x" * 20_000], timestamp=NOW_MS + number) for number in range(8)))
    reads = []
    for number in range(2, 8):
        disk.take()
        assert find_time(log, NOW_MS + number) == (NOW_MS + number, number, 0)
        reads.append(len(disk.take("read")))
    assert set(reads) == {reads[0]}


# -- which record


def test_a_log_without_records_has_none(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert (find_time(log, None), find_time(log, 0)) == (None, None)


def test_of_equal_timestamps_the_first_is_the_largest_in_a_segment_and_among_segments(tmp_path: Path) -> None:
    log = cold(tmp_path, NotingFileSystem(), [1, 9, 9, 2, 3, 9, 4, 4, 1])
    assert find_time(log, None) == (NOW_MS + 9, 1, 0)
    log.delete_records(2)
    assert find_time(log, None) == (NOW_MS + 9, 1, 0), "as Kafka has it, wherever the log begins"


def test_what_an_index_promised_and_no_batch_has_is_not_known_of_the_segment(tmp_path: Path) -> None:
    """Its age is that of its records, once a search has read them."""
    log = cold(tmp_path, NotingFileSystem(), [1, 9, 3, 4, 2, 6])
    index = tmp_path / f"{0:020d}.timeindex"
    index.write_bytes(index.read_bytes() + struct.pack("!qi", NOW_MS + 99, 3))
    search = TimestampSearch.of(log, None)
    list(search.steps())
    search.teach()
    assert search.found == (NOW_MS + 9, 1, 0)
    assert [segment.max_timestamp for segment in log.segments] == [NOW_MS + 9, NOW_MS + 6]


def test_a_time_that_a_header_has_and_no_record_is_looked_for_once(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(timestamp=NOW_MS))
    plain = batch(base_offset=1, leader_epoch=0, timestamp=NOW_MS)
    log.append_as_follower(seal(read_header(plain)._replace(max_timestamp=NOW_MS + 7), plain[61:]), NOW_MS)
    assert find_time(log, None) is None
    assert find_time(log, NOW_MS) == (NOW_MS, 0, 0)


@pytest.mark.parametrize(
    ("start", "time", "found"),
    [(0, 0, 0), (3, 0, 3), (4, 0, 4), (4, 5, 5), (5, 3, 5), (6, 3, 6), (9, 9, 9), (10, 9, None)],
)
def test_a_time_is_looked_for_from_the_log_start_on(tmp_path: Path, start: int, time: int, found: int | None) -> None:
    """In batches of three records, a millisecond apart."""
    log = new_log(tmp_path, index_interval_bytes=0)
    append(log, *(batch(3, timestamp=NOW_MS + number) for number in (0, 3, 6, 9)))
    log.delete_records(start)
    assert find_time(log, NOW_MS + time) == (None if found is None else (NOW_MS + found, found, 0)) or found is None
    if found is None:
        assert find_time(log, NOW_MS + time) == (NOW_MS + 10, 10, 0)


@pytest.mark.parametrize("entry", [(2, 5), (2, 1), (1, 7), (1, 2), (0, 3)])
def test_an_offset_index_that_lies_costs_a_longer_search_alone(tmp_path: Path, entry: tuple[int, int]) -> None:
    """An entry inside of a batch, at an earlier one, and at a later one."""
    disk = NotingFileSystem()
    log = cold(tmp_path, disk, [*range(4)])
    size = len(batch([b"x" * 50]))
    offset, number = entry
    (tmp_path / f"{0:020d}.index").write_bytes(struct.pack("!ii", offset, min(number * size, 4 * size - 9)))
    for time in range(4):
        assert find_time(log, NOW_MS + time) == (NOW_MS + time, time, 0)


def test_a_search_holds_while_its_segments_are_there(tmp_path: Path) -> None:
    log = cold(tmp_path, NotingFileSystem(), [*range(12)])
    later = TimestampSearch.of(log, None)
    assert [view.base_offset for view in later.views] == [0, 4, 8]
    assert later.still_holds_for(log)
    log.roll(NOW_MS)
    assert later.still_holds_for(log)
    assert [view.base_offset for view in TimestampSearch.of(log, None).views] == [0, 4, 8], (
        "one without records is none"
    )
    log.delete_records(4)
    log.delete_old_segments(NOW_MS)
    assert not later.still_holds_for(log)
    assert offsets(log) == [*range(4, 12)]


def test_segments_that_are_known_to_be_older_are_not_looked_at(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=len(batch()))
    append(log, *(batch(timestamp=NOW_MS + time) for time in (5, 1, 8, 3)))
    for time, bases in ((0, [0, 1, 2, 3]), (3, [0, 2, 3]), (5, [0, 2]), (6, [2]), (9, [])):
        assert [view.base_offset for view in TimestampSearch.of(log, NOW_MS + time).views] == bases
    search = TimestampSearch.of(log, NOW_MS + 9)
    assert (list(search.steps()), search.found, search.unreadable) == ([], None, None)
    search = TimestampSearch.of(log, NOW_MS + 5)
    list(search.steps())
    assert (search.found, search.unreadable) == ((NOW_MS + 5, 0, 0), None)
