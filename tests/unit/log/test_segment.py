"""One segment: when index entries are due, what its index files hold, where a batch is found though they lie, and what
is left after a truncation. The expected entries are those of Kafka's LogSegment.append, recover and truncateTo.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import structlog

from kavka.errors import CorruptRecords, StorageError
from kavka.filesystem import Buffer
from kavka.log.decide.indexes import AbortedTransaction, aborted_bytes
from kavka.log.made_directories import MadeDirectories
from kavka.log.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    LogDirectory,
    OpenSegments,
    Segment,
)
from kavka.records.batch import RecordBatch, batch_at
from tests.unit.log.log_support import NOW_MS, batch, log_directory
from tests.unit.log.noting_disk import NotingFileSystem

SIZE = len(batch())
NEVER = 1 << 30
"""No index entry is ever due."""
BASE = 100
NO_TIME = -1


def directory(path: Path, disk: NotingFileSystem | None = None, *, max_open: int = 100) -> LogDirectory:
    return log_directory(path, disk or NotingFileSystem(), max_open=max_open)


def new_segment(path: Path, disk: NotingFileSystem | None = None, base_offset: int = BASE) -> Segment:
    return Segment.create(directory(path, disk), base_offset, now_ms=NOW_MS)


def opened(segment: Segment, disk: NotingFileSystem | None = None) -> Segment:
    """The same segment as a broker finds it when it starts."""
    path = Path(segment.directory.path)
    return Segment.open(directory(path, disk), segment.base_offset, now_ms=NOW_MS)


def parsed(data: Buffer) -> RecordBatch:
    found = batch_at(memoryview(data))
    assert found is not None
    return found


def put(segment: Segment, *batches: Buffer, interval: int = NEVER) -> None:
    for data in batches:
        header = parsed(data).header
        segment.prepare_append(len(data), interval)
        segment.append(data, header.last_offset, header.max_timestamp, interval)


def ones(count: int, first: int = BASE, *, timestamp: int = NOW_MS, step_ms: int = 1) -> list[bytearray]:
    """Batches of one record; that at BASE has the timestamp, each later one `step_ms` more than the one before."""
    return [
        batch(base_offset=offset, timestamp=timestamp + (offset - BASE) * step_ms)
        for offset in range(first, first + count)
    ]


def file_of(segment: Segment, suffix: str) -> Path:
    return Path(segment.path(suffix))


def offset_file(segment: Segment) -> list[tuple[int, int]]:
    """(offset, position) of each entry of the .index."""
    return [
        (BASE + offset, position)
        for offset, position in struct.iter_unpack("!ii", bytes_of(segment, OFFSET_INDEX_SUFFIX))
    ]


def time_file(segment: Segment) -> list[tuple[int, int]]:
    """(timestamp, offset) of each entry of the .timeindex."""
    return [(time, BASE + offset) for time, offset in struct.iter_unpack("!qi", bytes_of(segment, TIME_INDEX_SUFFIX))]


def bytes_of(segment: Segment, suffix: str) -> bytes:
    return file_of(segment, suffix).read_bytes()


def damage(segment: Segment, number: int) -> None:
    """Spoils the magic of a batch of SIZE bytes."""
    with file_of(segment, LOG_SUFFIX).open("r+b") as file:
        file.seek(number * SIZE + 16)
        file.write(b"\x09")


# -- when an entry is due


@pytest.mark.parametrize(
    ("interval", "positions"),
    [
        (0, [1, 2, 3, 4, 5, 6, 7, 8]),
        (SIZE - 1, [1, 2, 3, 4, 5, 6, 7, 8]),
        (SIZE, [2, 4, 6, 8]),
        (2 * SIZE - 1, [2, 4, 6, 8]),
        (2 * SIZE, [3, 6]),
        (2 * SIZE + 1, [3, 6]),
    ],
)
@pytest.mark.parametrize("how", ["one by one", "at once", "recovered", "opened again"])
def test_an_entry_is_due_after_more_bytes_than_the_interval(
    tmp_path: Path, interval: int, positions: list[int], how: str
) -> None:
    segment = new_segment(tmp_path)
    batches = [batch(2, base_offset=BASE + 2 * n, timestamp=NOW_MS + 10 * n) for n in range(9)]
    assert {len(data) for data in batches} == {len(batch(2))}
    scale = len(batch(2)) - SIZE
    wide = interval + scale * ((interval + 1) // SIZE)  # as many batches' bytes as of SIZE
    if how == "opened again":
        put(segment, batches[0], interval=wide)
        segment.write_indexes(closing=True)
        segment = opened(segment)
        # What was before is not counted: as in Kafka the next entry is an interval further.
        put(segment, *batches[1:], interval=wide)
        step = positions[0]
        entries = [*range(1 + step, 9, step)]
    elif how == "one by one":
        put(segment, *batches, interval=wide)
        entries = positions
    elif how == "at once":
        whole = b"".join(batches)
        segment.append_many(whole[: 2 * len(batches[0])], [parsed(one) for one in batches], 0, 2, wide)
        segment.append_many(whole[2 * len(batches[0]) :], [parsed(one) for one in batches], 2, 9, wide)
        assert bytes_of(segment, LOG_SUFFIX) == whole
        entries = positions
    else:
        put(segment, *batches)
        segment.reset_indexes()
        for number, one in enumerate(batches):
            segment.note_recovered(number * len(one), parsed(one), wide)
        entries = positions
    assert list(segment.offset_index) == [(BASE + 2 * n + 1, n * len(batches[0])) for n in entries]
    assert list(segment.time_index)[-len(entries) :] == [(NOW_MS + 10 * n + 1, BASE + 2 * n + 1) for n in entries]


@pytest.mark.parametrize(
    ("sizes", "entry_at"),
    [([1024] * 6, 5), ([1024, 1024, 1024, 1025, 200], 4), ([4096, 200, 200], 2), ([4097, 200], 1)],
)
def test_indexes_are_rebuilt_at_the_interval_that_is_kafkas_default(
    tmp_path: Path, sizes: list[int], entry_at: int
) -> None:
    segment = new_segment(tmp_path)
    for number, size in enumerate(sizes):
        value = b"v" * (size - len(batch([b"v" * size, b""])) + size)  # as lengths of so many bytes are written
        data = batch([value, b""], base_offset=BASE + 2 * number)
        assert len(data) == size
        put(segment, data)
    segment = opened(segment)
    assert list(segment.offset_index) == [(BASE + 2 * entry_at + 1, sum(sizes[:entry_at]))]


def test_the_largest_timestamp_is_the_first_batchs_that_has_it(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    times = [5, 9, 9, 3]
    put(segment, *(batch(2, base_offset=BASE + 2 * n, timestamp=NOW_MS + time) for n, time in enumerate(times)))
    assert (segment.max_timestamp, segment.view().largest) == (NOW_MS + 10, (NOW_MS + 10, BASE + 3))
    segment.write_indexes(closing=True)
    assert time_file(segment) == [(NOW_MS + 10, BASE + 3)]
    segment.truncate(3 * len(batch(2)), BASE + 6, NOW_MS)
    assert segment.view().largest == (NOW_MS + 10, BASE + 3)


def test_a_first_batch_that_is_damaged_has_no_timestamp_once_its_segment_is_read_anew(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(2))
    segment.write_indexes(closing=True)
    found = opened(segment)
    assert found.first_timestamp == NOW_MS
    with open(file_of(segment, ".log"), "r+b") as file:
        file.seek(16)
        file.write(b"\x09")
    found.reset_indexes()
    assert found.first_timestamp == NO_TIME


def test_the_first_timestamp_is_the_largest_of_the_first_batch_and_is_read_once(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    assert segment.first_timestamp == NO_TIME
    put(segment, batch(3, base_offset=BASE), batch(base_offset=BASE + 3, timestamp=NOW_MS - 50))
    disk.take()
    assert segment.first_timestamp == NOW_MS + 2
    assert disk.take("read") == []
    again = opened(segment, disk)
    disk.take()
    assert [again.first_timestamp, again.first_timestamp] == [NOW_MS + 2, NOW_MS + 2]
    assert disk.take("read") == [file_of(segment, LOG_SUFFIX).name]
    again.truncate(0, BASE, NOW_MS)
    put(again, batch(base_offset=BASE, timestamp=7))
    assert again.first_timestamp == 7


@pytest.mark.parametrize(("times", "age_from_ms"), [([0], 0), ([-1, 0], 0), ([5, 1], 5), ([-1], None)])
def test_a_segment_ages_from_its_largest_timestamp_the_begin_of_time_too(
    tmp_path: Path, times: list[int], age_from_ms: int | None
) -> None:
    segment = new_segment(tmp_path)
    put(segment, *(batch(base_offset=BASE + n, timestamp=time) for n, time in enumerate(times)))
    if age_from_ms is None:
        age_from_ms = file_of(segment, LOG_SUFFIX).stat().st_mtime_ns // 1_000_000
    assert segment.age_from_ms == age_from_ms
    segment.write_indexes(closing=True)
    assert opened(segment).age_from_ms == age_from_ms


# -- a new segment


def test_a_new_segment_is_empty_whatever_lay_there(tmp_path: Path) -> None:
    for base_offset in (0, BASE):
        for suffix in (LOG_SUFFIX, TXN_INDEX_SUFFIX):
            (tmp_path / f"{base_offset:020d}{suffix}").write_bytes(b"what a power cut brought back")
        segment = new_segment(tmp_path, base_offset=base_offset)
        assert segment.is_made is (base_offset > 0)
        assert (segment.size, segment.created_ms, segment.roll_jitter_ms) == (0, NOW_MS, 0)
        assert segment.aborted_transactions == []
        assert segment.next_offset() == base_offset
        assert list(segment.headers()) == []
        segment.append(batch(base_offset=base_offset), base_offset, NOW_MS, NEVER)
        assert segment.is_made
        assert file_of(segment, LOG_SUFFIX).read_bytes() == batch(base_offset=base_offset)
        assert not file_of(segment, TXN_INDEX_SUFFIX).exists()


def test_only_the_name_of_a_later_segment_says_where_the_log_goes_on(tmp_path: Path) -> None:
    new_segment(tmp_path, base_offset=0)
    assert list(tmp_path.iterdir()) == []
    segment = new_segment(tmp_path, base_offset=BASE)
    assert [path.name for path in tmp_path.iterdir()] == [file_of(segment, LOG_SUFFIX).name]


def test_an_existing_segment_is_taken_as_it_is(tmp_path: Path) -> None:
    put(new_segment(tmp_path), *ones(3))
    segment = Segment.open(directory(tmp_path), BASE, now_ms=NOW_MS + 5, roll_jitter_ms=9)
    assert (segment.size, segment.created_ms, segment.roll_jitter_ms) == (3 * SIZE, NOW_MS + 5, 9)
    assert Segment.open(directory(tmp_path), BASE, now_ms=NOW_MS).roll_jitter_ms == 0
    assert (segment.max_timestamp, segment.next_offset(), segment.is_made) == (NOW_MS + 2, BASE + 3, True)


def test_a_segment_that_compaction_fills_has_names_of_its_own_until_it_is_moved(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    old = new_segment(tmp_path, disk)
    put(old, *ones(3))
    left = [tmp_path / f"{BASE:020d}{suffix}.cleaned" for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TXN_INDEX_SUFFIX)]
    for path in left:
        path.write_bytes(b"of a pass that was given up")
    cleaned = Segment.create_cleaned(old.directory, BASE, now_ms=NOW_MS)
    assert (cleaned.roll_jitter_ms, cleaned.is_made) == (0, True)
    assert [path.exists() for path in left] == [True, False, False]
    assert left[0].stat().st_size == 0
    put(cleaned, ones(1)[0])
    cleaned.write_indexes(closing=True)
    file_of(cleaned, OFFSET_INDEX_SUFFIX).unlink()
    target = directory(tmp_path / "later")
    (tmp_path / "later").rmdir()
    tmp_path.joinpath("later").mkdir()
    for path in tmp_path.glob("*.cleaned"):
        path.rename(tmp_path / "later" / path.name.replace(".cleaned", ""))
    moved = Segment.open(target, BASE, now_ms=NOW_MS)
    moved.move_to(target, SWAP_SUFFIX)
    assert sorted(path.name for path in (tmp_path / "later").iterdir()) == [
        f"{BASE:020d}{suffix}{SWAP_SUFFIX}" for suffix in (LOG_SUFFIX, TIME_INDEX_SUFFIX)
    ], "also those behind one that is missing"
    assert old.size == 3 * SIZE


def test_the_files_of_a_segment_that_goes_get_other_names_also_where_one_is_missing(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(3))
    segment.write_indexes(closing=True)
    file_of(segment, OFFSET_INDEX_SUFFIX).unlink()
    expected = [segment.path(suffix) + ".deleted" for suffix in (LOG_SUFFIX, TIME_INDEX_SUFFIX)]
    assert segment.mark_deleted() == expected
    assert sorted(str(path) for path in tmp_path.iterdir()) == expected
    assert len(segment.directory.open_segments) == 0


# -- appends


def test_what_an_append_needs_is_there_before_it_writes(tmp_path: Path) -> None:
    """Opening a file and reading an index can fail; behind them only the write can."""
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(5), interval=0)
    segment.write_indexes(closing=False)
    segment.release()
    assert segment.index_entries == 0, "not in memory"
    interval = 3 * SIZE
    batches = [parsed(one) for one in ones(4, BASE + 5)]
    disk.take()
    segment.prepare_append(4 * SIZE, interval)
    assert segment.view().file is not None
    assert disk.take("read") == [file_of(segment, suffix).name for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
    segment.append_many(b"".join(one.view for one in batches), batches, 0, 4, interval)
    assert disk.take("read") == []
    assert segment.index_entries == 5
    assert segment.size == 9 * SIZE


def test_an_append_that_makes_no_entry_reads_no_index(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(5), interval=0)  # SIZE bytes since the last entry
    segment.write_indexes(closing=False)
    segment.release()
    disk.take()
    put(segment, *ones(1, BASE + 5), interval=2 * SIZE)
    assert disk.take("read") == []
    assert segment.index_entries == 0
    put(segment, *ones(1, BASE + 6), interval=3 * SIZE)
    assert disk.take("read") == []
    put(segment, *ones(1, BASE + 7), interval=2 * SIZE)
    assert list(segment.offset_index)[-1] == (BASE + 7, 7 * SIZE)


def test_an_append_to_a_segment_whose_times_nobody_read_reads_them_first(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(3), interval=0)
    segment.write_indexes(closing=True)
    again = opened(segment, disk)
    again.prepare_append(SIZE, NEVER)
    disk.take()
    put(again, batch(base_offset=BASE + 3, timestamp=NOW_MS - 100))
    assert disk.take("read") == []
    assert again.view().largest == (NOW_MS + 2, BASE + 2)


def test_room_that_is_reserved_is_given_back_once(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(1))
    disk.take()
    segment.trim()
    assert disk.take("cut") == [], "nothing was reserved"
    segment.preallocate(1 << 16)
    segment.trim()
    segment.trim()
    assert disk.take("cut") == [file_of(segment, LOG_SUFFIX).name]
    with structlog.testing.capture_logs() as lines:
        segment.preallocate(1 << 60)
    (line,) = lines
    assert (line["event"], line["path"], line["log_level"]) == (
        "segment not preallocated",
        segment.path(LOG_SUFFIX),
        "warning",
    )
    assert f"{1 << 60} bytes" in line["why"]
    assert "preallocate off" in line["next_step"]


# -- index files


def test_a_flush_brings_new_entries_alone_to_the_files(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(1), interval=0)
    assert segment.write_indexes(closing=False) == []
    assert not file_of(segment, OFFSET_INDEX_SUFFIX).exists()
    paths = [segment.path(suffix) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
    for count in (9, 10, 30):
        put(segment, *ones(count - (segment.size // SIZE), segment.next_offset()), interval=0)
        assert segment.write_indexes(closing=False) == paths
        assert segment.write_indexes(closing=False) == []
        assert offset_file(segment) == [(BASE + n, n * SIZE) for n in range(1, count)]
        assert [offset for _, offset in time_file(segment)] == [BASE + n for n in range(1, count)]


def test_entries_that_are_due_in_one_index_alone_are_written_to_it_alone(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(3, step_ms=0), interval=0)
    segment.write_indexes(closing=False)
    put(segment, *ones(1, BASE + 3, step_ms=0), interval=0)
    assert segment.write_indexes(closing=False) == [segment.path(OFFSET_INDEX_SUFFIX)], "no later timestamp"


def test_bytes_behind_the_entries_that_were_written_do_not_stay(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(4), interval=0)
    segment.write_indexes(closing=False)
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        with file_of(segment, suffix).open("ab") as file:
            file.write(b"\x07" * 24)
    put(segment, *ones(1, BASE + 4), interval=0)
    segment.write_indexes(closing=False)
    assert offset_file(segment) == [(BASE + n, n * SIZE) for n in range(1, 5)]
    assert [offset for _, offset in time_file(segment)] == [BASE + n for n in range(1, 5)]


def test_a_closed_segment_has_both_files_and_is_not_written_again(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(3))
    paths = [segment.path(suffix) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
    assert segment.write_indexes(closing=True) == paths[1:]
    assert (offset_file(segment), time_file(segment)) == ([], [(NOW_MS + 2, BASE + 2)])
    assert segment.write_indexes(closing=True) == []
    again = opened(segment, disk)
    disk.take()
    assert again.write_indexes(closing=True) == []
    assert again.write_indexes(closing=False) == []
    assert disk.take("read") == [], "nobody has read them since the start: they are as they were closed"


@pytest.mark.parametrize("missing", [OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_a_closed_segment_that_lost_a_file_gets_both_again(tmp_path: Path, missing: str) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(3), interval=0)
    segment.write_indexes(closing=True)
    file_of(segment, missing).unlink()
    again = opened(segment)
    assert again.write_indexes(closing=False) == []
    assert not file_of(segment, missing).exists()
    assert again.write_indexes(closing=True) != []
    assert offset_file(segment) == [], "at the default interval none is due"
    assert time_file(segment) == [(NOW_MS + 2, BASE + 2)]


@pytest.mark.parametrize("entries", [1, 2, 5])
def test_a_released_segment_that_was_closed_is_told_by_the_last_entry_of_its_times(
    tmp_path: Path, entries: int
) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(entries + 1), interval=0)
    segment.write_indexes(closing=True)
    assert len(time_file(segment)) == entries
    segment.release()
    disk.take()
    assert segment.write_indexes(closing=True) == []
    assert disk.take("read") == [file_of(segment, TIME_INDEX_SUFFIX).name]


@pytest.mark.parametrize("last", [0, 1, NOW_MS])
def test_a_released_segment_that_was_only_flushed_is_closed_with_its_largest_timestamp(
    tmp_path: Path, last: int
) -> None:
    """`release` lets go of entries that are in the files; the largest timestamp is none of them yet."""
    segment = new_segment(tmp_path)
    put(segment, *ones(2, timestamp=NO_TIME, step_ms=0))
    segment.reset_indexes()  # as recovery begins: the files are written whole then, the empty one too
    for number, one in enumerate(ones(2, timestamp=NO_TIME, step_ms=0)):
        segment.note_recovered(number * SIZE, parsed(one), 0)
    segment.write_indexes(closing=False)
    put(segment, batch(base_offset=BASE + 2, timestamp=last))
    segment.release()
    assert segment.index_entries == 0
    assert time_file(segment) == []
    segment.write_indexes(closing=True)
    assert time_file(segment) == [(last, BASE + 2)]
    assert offset_file(segment) == [(BASE + 1, SIZE)]


def test_indexes_that_were_read_and_nothing_else_are_closed_with_what_they_have(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(4), interval=0)
    segment.write_indexes(closing=True)
    again = opened(segment)
    assert len(again.offset_index) == 3
    assert again.write_indexes(closing=True) == []
    again = opened(segment)
    assert len(again.time_index) == 3
    assert again.view().largest == (NOW_MS + 3, BASE + 3)


def test_a_released_segments_times_that_were_cut_in_the_file_are_built_anew_when_it_is_closed(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(3), interval=0)
    segment.write_indexes(closing=True)
    segment.release()
    path = file_of(segment, TIME_INDEX_SUFFIX)
    path.write_bytes(path.read_bytes()[:11])
    segment.write_indexes(closing=True)
    assert time_file(segment) == [(NOW_MS + 2, BASE + 2)]


def test_a_segment_without_any_timestamp_is_closed_by_a_look_at_its_names(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(3, timestamp=NO_TIME, step_ms=0), interval=0)
    segment.write_indexes(closing=True)
    segment.release()
    disk.take()
    assert segment.write_indexes(closing=True) == []
    assert disk.take("read") == []
    assert (len(offset_file(segment)), time_file(segment)) == (2, [])


def test_only_entries_that_the_files_have_are_let_go_of(tmp_path: Path) -> None:
    """A flush writes those of the active segment; the descriptor is let go of in any case."""
    segment = new_segment(tmp_path)
    put(segment, *ones(4), interval=0)
    segment.release()
    assert segment.index_entries == 3, "none is written"
    segment.write_indexes(closing=False)
    put(segment, *ones(2, BASE + 4), interval=0)
    segment.release()
    assert segment.index_entries == 5, "two are not"
    segment.truncate(4 * SIZE, BASE + 4, NOW_MS)
    segment.release()
    assert segment.index_entries == 3, "the files have two more"
    segment.write_indexes(closing=False)
    segment.release()
    assert segment.index_entries == 0
    assert list(segment.offset_index) == [(BASE + n, n * SIZE) for n in range(1, 4)]


def test_indexes_are_read_once_and_count_as_open(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(4), interval=0)
    segment.write_indexes(closing=True)
    again = opened(segment, disk)
    disk.take()
    for _ in range(3):
        assert (len(again.offset_index), len(again.time_index)) == (3, 3)
    assert disk.take("read") == [file_of(segment, suffix).name for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
    assert len(again.directory.open_segments) == 1
    put(again, *ones(1, BASE + 4), interval=0)
    put(again, *ones(1, BASE + 5), interval=0)
    assert [entry.offset for entry in again.offset_index] == [BASE + 1, BASE + 2, BASE + 3, BASE + 5]


# -- indexes that lie


def lying(segment: Segment, *entries: tuple[int, int]) -> Segment:
    """The segment with another offset index in its file."""
    segment.write_indexes(closing=True)
    file_of(segment, OFFSET_INDEX_SUFFIX).write_bytes(b"".join(struct.pack("!ii", o - BASE, p) for o, p in entries))
    return opened(segment)


@pytest.mark.parametrize(
    ("entry", "whys"),
    [
        pytest.param((BASE + 2, 5 * SIZE), ["lies before the batch at"], id="a later batch"),
        pytest.param((BASE + 1, SIZE + 7), ["no batch at position"], id="inside of a batch"),
        pytest.param((BASE + 6, 2 * SIZE), [], id="an earlier batch"),
        pytest.param((BASE + 1, SIZE), [], id="right"),
    ],
)
def test_a_batch_is_found_whatever_the_index_says(tmp_path: Path, entry: tuple[int, int], whys: list[str]) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(8))
    with structlog.testing.capture_logs() as lines:
        again = lying(segment, entry)
        for offset in range(8):
            found = again.find(BASE + offset)
            assert found is not None
            assert (found.position, found.header.base_offset) == (offset * SIZE, BASE + offset)
        assert again.find(BASE + 8) is None
        assert again.next_offset() == BASE + 8
    assert len(lines) == len(whys)
    for line, why in zip(lines, whys, strict=True):
        assert why in line["why"]
        assert {key: line[key] for key in ("event", "log_level", "segment", "size_bytes", "indexed_to", "damage")} == {
            "event": "index rebuilt",
            "log_level": "warning",
            "segment": segment.path(LOG_SUFFIX),
            "size_bytes": 8 * SIZE,
            "indexed_to": 8 * SIZE,
            "damage": None,
        }


def test_an_offset_in_a_gap_is_found_at_the_batch_behind_it(tmp_path: Path) -> None:
    """As compaction leaves them; an entry is for the last offset of its batch, here that before the gap."""
    segment = new_segment(tmp_path)
    put(
        segment,
        batch(2, base_offset=BASE),
        batch(2, base_offset=BASE + 10),
        batch(2, base_offset=BASE + 30),
        interval=0,
    )
    with structlog.testing.capture_logs() as lines:
        for offset, base in ((0, 0), (1, 0), (2, 10), (9, 10), (10, 10), (11, 10), (12, 30), (29, 30), (31, 30)):
            found = segment.find(BASE + offset)
            assert found is not None
            assert found.header.base_offset == BASE + base
    assert lines == []


def test_the_end_of_the_last_batch_is_found_whatever_the_index_says(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *(batch(3, base_offset=BASE + 3 * n) for n in range(5)))
    size = len(batch(3))
    again = lying(segment, (BASE + 5, size + 9))
    assert again.next_offset() == BASE + 15
    assert list(again.offset_index) == [], "it is built anew; at the default interval no entry is due"
    with file_of(segment, LOG_SUFFIX).open("r+b") as file:
        file.seek(2 * size + 16)
        file.write(b"\x09")
    with structlog.testing.capture_logs() as lines:
        with pytest.raises(CorruptRecords):
            lying(segment).next_offset()
        assert lines == [], "no index was asked that could lie"
        with pytest.raises(CorruptRecords):
            lying(segment, (BASE + 5, size)).next_offset()
        assert [line["event"] for line in lines] == ["index rebuilt"]
    assert lying(segment, (BASE + 11, 3 * size)).next_offset() == BASE + 15, "what is before is not read"


@pytest.mark.parametrize("entries", [[], [3], [2, 4], [6]])
def test_the_last_batch_that_begins_within_a_limit(tmp_path: Path, entries: list[int]) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(8))
    again = lying(segment, *((BASE + n, n * SIZE) for n in entries))
    for start in range(8):
        for limit in range(start * SIZE, 8 * SIZE, SIZE // 3):
            found = again.batch_end_within(start * SIZE, limit)
            last = limit // SIZE
            indexed = max((n for n in entries if n <= last), default=0)
            expected = indexed if indexed > start else last
            if expected == start:
                assert found is None
            else:
                assert found is not None
                assert (found.position, found.header.base_offset) == (expected * SIZE, BASE + expected)


def test_an_end_is_found_though_the_index_points_into_a_batch(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(8))
    with structlog.testing.capture_logs() as lines:
        found = lying(segment, (BASE + 3, 3 * SIZE + 5)).batch_end_within(SIZE, 5 * SIZE)
    assert found is not None
    assert found.position == 5 * SIZE
    assert [line["event"] for line in lines] == ["index rebuilt"]


def test_damage_behind_the_limit_is_not_looked_at(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(8))
    damage(segment, 5)
    found = segment.batch_end_within(0, 4 * SIZE)
    assert found is not None
    assert found.position == 4 * SIZE
    with pytest.raises(CorruptRecords):
        segment.batch_end_within(0, 6 * SIZE)


def test_indexes_that_are_rebuilt_end_at_the_first_damage_and_say_so(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(8))
    segment.write_indexes(closing=True)
    damage(segment, 5)
    file_of(segment, OFFSET_INDEX_SUFFIX).unlink()
    again = opened(segment)
    with structlog.testing.capture_logs() as lines:
        assert again.view().largest is None
        assert (again.max_timestamp, again.time_index.last_entry()) == (NOW_MS + 4, None)
    (line,) = lines
    assert line["indexed_to"] == 5 * SIZE
    assert f"no batch at position {5 * SIZE}" in line["damage"]
    damage(segment, 0)
    again = opened(segment)
    with structlog.testing.capture_logs() as lines:
        assert (again.max_timestamp, again.first_timestamp) == (NO_TIME, NO_TIME)
    assert lines[0]["indexed_to"] == 0


@pytest.mark.parametrize("life", ["appended to", "opened again"])
def test_a_damaged_batch_hides_no_timestamp_behind_it(tmp_path: Path, life: str) -> None:
    """Its reader has the indexes built anew, up to the damage. Retention and a search by time still have to know of
    younger records behind it: the segment must not go too early, and the search must say that it cannot read."""
    segment = new_segment(tmp_path)
    put(segment, *ones(8), interval=0)
    if life == "opened again":
        segment.write_indexes(closing=True)
        segment = opened(segment)
    damage(segment, 5)
    with pytest.raises(CorruptRecords):
        segment.find(BASE + 5)
    assert (segment.max_timestamp, segment.view().largest) == (NOW_MS + 7, (NOW_MS + 7, BASE + 7))
    assert segment.may_reach(NOW_MS + 7)
    assert segment.time_index.last_entry() is None, "at the default interval none is due before the damage"
    put(segment, *ones(1, BASE + 8))
    assert segment.max_timestamp == NOW_MS + 8


def test_indexes_that_were_rebuilt_replace_the_files(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(8), interval=0)
    again = lying(segment, (BASE + 2, 5 * SIZE), (BASE + 3, 6 * SIZE))
    assert again.find(BASE + 2) is not None
    assert again.write_indexes(closing=False) == [again.path(OFFSET_INDEX_SUFFIX), again.path(TIME_INDEX_SUFFIX)]
    assert offset_file(again) == []
    assert time_file(again) == []
    assert again.write_indexes(closing=False) == []


def test_recovery_begins_with_nothing_that_was_known(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(5), interval=0)
    segment.reset_indexes()
    assert segment.view().largest == (NO_TIME, BASE)
    kept = ones(2, timestamp=NOW_MS - 10)
    for number, one in enumerate(kept):
        segment.note_recovered(number * SIZE, parsed(one), 0)
    assert segment.view().largest == (NOW_MS - 9, BASE + 1)
    assert segment.first_timestamp == NOW_MS - 10


@pytest.mark.parametrize("suffix", [OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_lost_index_makes_no_segment_older_than_it_is(tmp_path: Path, suffix: str, damage: str) -> None:
    """Retention asks for the largest timestamp first, and would take the segment, with records that are too young.
    The last entry of a closed segment has it, but none of an index that was built anew."""
    segment = new_segment(tmp_path)
    times = [5, 9, 30, 7]
    put(segment, *(batch(base_offset=BASE + n, timestamp=NOW_MS + time) for n, time in enumerate(times)), interval=0)
    segment.write_indexes(closing=True)
    if damage == "missing":
        file_of(segment, suffix).unlink()
    else:
        file_of(segment, suffix).write_bytes(b"" if suffix == TIME_INDEX_SUFFIX else b"torn")
    again = opened(segment)
    assert (again.age_from_ms, again.max_timestamp) == (NOW_MS + 30, NOW_MS + 30)
    assert again.may_reach(NOW_MS + 30), "or a search by time would leave it out"
    again.write_indexes(closing=True)
    assert opened(again).view().largest is None
    assert opened(again).max_timestamp == NOW_MS + 30


# -- the transaction index


def aborted(first: int, last: int) -> AbortedTransaction:
    return AbortedTransaction(7, BASE + first, BASE + last, BASE + last + 1)


def test_aborted_transactions_are_in_their_file_at_once_and_durable_where_they_are_replaced(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(9))
    assert segment.transaction_index_files() == []
    disk.take()
    segment.set_aborted([])
    assert disk.take("replace durably", "replace") == []
    assert not file_of(segment, TXN_INDEX_SUFFIX).exists()
    segment.add_aborted(aborted(0, 2))
    segment.add_aborted(aborted(3, 5))
    assert bytes_of(segment, TXN_INDEX_SUFFIX) == aborted_bytes(aborted(0, 2)) + aborted_bytes(aborted(3, 5))
    assert [file.path for file in segment.transaction_index_files()] == [segment.path(TXN_INDEX_SUFFIX)]
    assert opened(segment).aborted_transactions == [aborted(0, 2), aborted(3, 5)]
    disk.take()
    segment.set_aborted([aborted(0, 2)])
    assert disk.take("replace durably") == [file_of(segment, TXN_INDEX_SUFFIX).name]
    assert bytes_of(segment, TXN_INDEX_SUFFIX) == aborted_bytes(aborted(0, 2))
    segment.set_aborted([])
    assert disk.take("replace durably") == [file_of(segment, TXN_INDEX_SUFFIX).name], "emptied, not removed"
    assert bytes_of(segment, TXN_INDEX_SUFFIX) == b""
    assert segment.transaction_index_files() == []


def test_a_transaction_index_that_is_damaged_takes_no_entry(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(9))
    file_of(segment, TXN_INDEX_SUFFIX).write_bytes(b"torn")
    again = opened(segment)
    for change in (lambda: again.add_aborted(aborted(0, 2)), lambda: again.truncate(SIZE, BASE + 1, NOW_MS)):
        with pytest.raises(StorageError, match="not a whole number") as failure:
            change()
        assert failure.value.path == segment.path(TXN_INDEX_SUFFIX)
    assert (again.size, bytes_of(segment, TXN_INDEX_SUFFIX)) == (9 * SIZE, b"torn")


@pytest.mark.parametrize(
    ("offset", "left"),
    [(8, [0, 1, 2]), (7, [0, 1]), (6, [0, 1]), (4, [0, 1]), (3, [0]), (2, []), (0, [])],
)
def test_a_truncation_takes_the_transactions_that_ended_at_its_offset_or_behind(
    tmp_path: Path, offset: int, left: list[int]
) -> None:
    disk = NotingFileSystem()
    segment = new_segment(tmp_path, disk)
    put(segment, *ones(9))
    entries = [aborted(0, 2), aborted(1, 3), aborted(4, 7)]
    for entry in entries:
        segment.add_aborted(entry)
    disk.take()
    segment.truncate(offset * SIZE, BASE + offset, NOW_MS)
    kept = [entries[number] for number in left]
    assert segment.aborted_transactions == kept
    assert bytes_of(segment, TXN_INDEX_SUFFIX) == b"".join(map(aborted_bytes, kept))
    assert len(disk.take("replace durably")) == (0 if len(kept) == 3 else 1), "not where none goes"


# -- the end


@pytest.mark.parametrize("left", [0, 1, 3, 4, 7])
def test_a_truncation_leaves_what_a_segment_of_these_batches_alone_has(tmp_path: Path, left: int) -> None:
    interval = 2 * SIZE
    cut, short = new_segment(tmp_path / "cut"), new_segment(tmp_path / "short")
    put(cut, *ones(8), interval=interval)
    put(short, *ones(left), interval=interval)
    cut.write_indexes(closing=False)
    cut.truncate(left * SIZE, BASE + left, NOW_MS + 99)
    assert cut.created_ms == (NOW_MS if left else NOW_MS + 99)
    for segment in (cut, short):
        segment.write_indexes(closing=True)
    for one in (cut, opened(cut)):
        assert one.size == short.size
        assert (one.max_timestamp, one.first_timestamp) == (short.max_timestamp, short.first_timestamp)
        assert one.next_offset() == short.next_offset()
        assert list(one.offset_index) == list(short.offset_index)
    assert (offset_file(cut), time_file(cut)) == (offset_file(short), time_file(short))
    assert bytes_of(cut, LOG_SUFFIX) == bytes_of(short, LOG_SUFFIX)


@pytest.mark.parametrize(("interval", "behind"), [(2 * SIZE, 3), (2 * SIZE - 1, 2), (2 * SIZE + 1, 3)])
def test_after_a_truncation_the_next_entry_is_an_interval_further(tmp_path: Path, interval: int, behind: int) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(8), interval=interval)
    segment.truncate(5 * SIZE, BASE + 5, NOW_MS)
    before = list(segment.offset_index)
    put(segment, *ones(behind + 1, BASE + 5), interval=interval)
    assert list(segment.offset_index) == [*before, (BASE + 5 + behind, (5 + behind) * SIZE)]


def test_a_truncation_takes_the_indexes_entries_from_their_files_with_the_next_flush(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(8), interval=0)
    segment.write_indexes(closing=False)
    segment.truncate(4 * SIZE, BASE + 4, NOW_MS)
    assert segment.write_indexes(closing=False) == [segment.path(OFFSET_INDEX_SUFFIX), segment.path(TIME_INDEX_SUFFIX)]
    assert offset_file(segment) == [(BASE + n, n * SIZE) for n in range(1, 4)]
    assert [offset for _, offset in time_file(segment)] == [BASE + n for n in range(1, 4)]


def test_the_largest_timestamp_after_a_truncation_is_of_the_first_batch_that_has_it(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    times = [1, 8, 8, 4, 20]
    put(segment, *(batch(2, base_offset=BASE + 2 * n, timestamp=NOW_MS + time) for n, time in enumerate(times)))
    segment.truncate(4 * len(batch(2)), BASE + 8, NOW_MS)
    assert segment.view().largest == (NOW_MS + 9, BASE + 3)


# -- views


def test_what_a_worker_read_of_the_files_is_taken_where_nobody_read_it_meanwhile(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(4), interval=0)
    segment.write_indexes(closing=True)
    read, largest = opened(segment), (NOW_MS + 3, BASE + 3)
    indexes = read.offset_index, read.time_index
    again = opened(segment)
    view = again.view()
    assert (view.largest, view.indexes, view.file, view.size) == (None, None, None, 4 * SIZE)
    assert again.may_reach(NOW_MS + 100), "nothing is known yet"
    again.learn(read.view().largest or segment.view().largest, None)  # type: ignore[arg-type]
    assert (again.view().largest, again.view().indexes) == (largest, None)
    assert [again.may_reach(NOW_MS + time) for time in (3, 4)] == [True, False]
    again.learn(segment.view().largest, indexes)  # type: ignore[arg-type]
    assert again.view().indexes == indexes
    assert len(again.directory.open_segments) == 1
    other = opened(segment)
    own = other.offset_index, other.time_index
    other.learn(segment.view().largest, indexes)  # type: ignore[arg-type]
    found = other.view().indexes
    assert found is not None
    assert (found[0] is own[0], found[1] is own[1]) == (True, True), "as they go on growing"


def test_nothing_is_at_the_end_of_a_segment(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(2))
    assert segment.batch_at(SIZE).header.base_offset == BASE + 1
    assert segment.header_at(SIZE).base_offset == BASE + 1
    with pytest.raises(CorruptRecords, match=f"no batch at position {2 * SIZE} of {2 * SIZE}"):
        segment.batch_at(2 * SIZE)
    assert [position for position, _ in segment.headers(SIZE)] == [SIZE]
    assert [position for position, _ in segment.headers()] == [0, SIZE]


# -- the directory, and what is open


def test_a_directory_is_noted_where_its_log_directory_wants_it(tmp_path: Path) -> None:
    noted: dict[LogDirectory, None] = {}
    first, second = (LogDirectory(NotingFileSystem(), str(tmp_path), OpenSegments(), noted=noted) for _ in range(2))
    second.note()
    first.note()
    second.note()
    assert list(noted) == [second, first]
    directory(tmp_path).note()
    assert len(noted) == 2


def test_the_name_of_a_new_directory_is_made_durable_once(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    made = MadeDirectories(disk, str(tmp_path))
    first, second = (LogDirectory(disk, str(tmp_path / name), OpenSegments(), made) for name in "ab")
    second.ensure_name()
    assert disk.take("sync names") == [tmp_path.name]
    first.ensure_name()
    second.ensure_name()
    directory(tmp_path, disk).ensure_name()
    assert disk.take("sync names") == [], "the sync was of all names"
    third = LogDirectory(disk, str(tmp_path / "c"), OpenSegments(), made)
    third.ensure_name()
    assert disk.take("sync names") == [tmp_path.name]


def test_a_segment_whose_file_is_gone_has_no_age(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(1, timestamp=NO_TIME))
    file_of(segment, LOG_SUFFIX).unlink()
    with pytest.raises(StorageError, match="is gone") as failure:
        assert segment.age_from_ms
    assert failure.value.path == segment.path(LOG_SUFFIX)


def test_a_directory_or_a_file_that_somebody_took_away_is_a_failure_of_the_disk(tmp_path: Path) -> None:
    where = directory(tmp_path / "orders-0")
    with pytest.raises(StorageError, match="is gone") as failure:
        where.open(f"{where.path}/nothing")
    assert failure.value.path == f"{where.path}/nothing"
    (tmp_path / "file").write_bytes(b"")
    assert where.remove_if_there(str(tmp_path / "file"))
    assert not where.remove_if_there(str(tmp_path / "file"))
    where.rename(str(tmp_path / "moved"))
    assert (where.path, (tmp_path / "moved").is_dir()) == (str(tmp_path / "moved"), True)
    (tmp_path / "moved").rmdir()
    with pytest.raises(StorageError, match="is gone") as failure:
        where.rename(str(tmp_path / "elsewhere"))
    assert (failure.value.path, where.path) == (str(tmp_path / "moved"), str(tmp_path / "moved"))


def test_as_many_segments_stay_open_as_may(tmp_path: Path) -> None:
    where = directory(tmp_path, max_open=2)
    segments = [Segment.create(where, BASE + number, now_ms=NOW_MS) for number in range(4)]
    assert len(where.open_segments) == 2
    assert [segment.view().file is not None for segment in segments] == [False, False, True, True]
    segments[0].append(batch(base_offset=BASE), BASE, NOW_MS, NEVER)
    assert [segment.view().file is not None for segment in segments] == [True, False, False, True]


@pytest.mark.parametrize("ending", ["close", "reopen"])
def test_a_segment_that_lets_go_of_its_file_counts_as_open_no_more(tmp_path: Path, ending: str) -> None:
    segment = new_segment(tmp_path)
    put(segment, *ones(1))
    assert len(segment.directory.open_segments) == 1
    segment.close() if ending == "close" else segment.reopen()
    assert len(segment.directory.open_segments) == 0
    assert segment.view().file is None


def test_what_another_had_open_is_taken_over_within_the_bound(tmp_path: Path) -> None:
    one, other = directory(tmp_path / "one", max_open=3), directory(tmp_path / "other", max_open=3)
    first = [Segment.create(one, BASE + number, now_ms=NOW_MS) for number in range(2)]
    second = [Segment.create(other, BASE + number, now_ms=NOW_MS) for number in range(2)]
    taken = one.open_segments.taking_over(other.open_segments)
    assert taken is one.open_segments
    assert len(taken) == 3
    assert [segment.view().file is not None for segment in [*first, *second]] == [False, True, True, True]
    assert taken.taking_over(taken) is taken
    assert len(taken) == 3
    assert len(OpenSegments(0)) == 0
