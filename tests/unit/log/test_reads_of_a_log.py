"""What a read answers, to the byte, and that it searches nothing where its reader continues or is at the tail."""

from pathlib import Path

import pytest

from kavka.log.log_results import ENOUGH_BYTES, ReadResult
from kavka.log.unified_log import UnifiedLog
from kavka.records.batch import iterate_batches
from tests.unit.log.log_support import NOW_MS, append, batch, new_log
from tests.unit.log.noting_disk import NotingFileSystem

SIZE = len(batch())
ALL = 1 << 20


def read(log: UnifiedLog, offset: int, max_bytes: int = ALL, *, max_offset: int | None = None) -> ReadResult:
    bound = log.log_end_offset if max_offset is None else max_offset
    return log.read(offset, max_bytes, max_offset=bound, min_one_batch=True)


def bases(result: ReadResult) -> list[int]:
    data = b"".join(chunk.tobytes() for chunk in result.chunks)
    return [one.header.base_offset for one in iterate_batches(memoryview(data))]


# -- how much


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_what_is_as_large_as_the_limit_is_read_whole(tmp_path: Path, batches: int) -> None:
    log = new_log(tmp_path, index_interval_bytes=0)
    append(log, *(batch() for _ in range(5)))
    result = read(log, 5 - batches, batches * SIZE)
    assert (bases(result), result.size_bytes, result.next_offset) == ([*range(5 - batches, 5)], batches * SIZE, 5)


def test_who_waits_for_bytes_is_told_how_many_a_later_answer_could_have(tmp_path: Path) -> None:
    """As Kafka counts them for a delayed fetch: all in front of the last segment, else what is there or the limit."""
    log = new_log(tmp_path, segment_bytes=2 * SIZE)
    append(log, *(batch() for _ in range(5)))  # segments at 0, 2, 4
    assert read(log, 0).available_bytes == ENOUGH_BYTES
    assert read(log, 0, SIZE).available_bytes == ENOUGH_BYTES
    assert read(log, 2, max_offset=4).available_bytes == 2 * SIZE, "the segment ends where the reader's bound is"
    assert read(log, 2, max_offset=3).available_bytes == SIZE
    assert read(log, 2, SIZE + 10, max_offset=4).available_bytes == SIZE + 10, "a batch more has no room"
    assert read(log, 2, 10, max_offset=4).available_bytes == SIZE, "one batch over the limit"
    assert read(log, 4).available_bytes == SIZE
    assert read(log, 5).available_bytes == 0


def test_a_batch_of_two_headers_size_is_not_taken_for_one_without_records(tmp_path: Path) -> None:
    value = b"v" * (2 * 61 - len(batch([b""])))
    assert len(batch([value])) == 2 * 61
    log = new_log(tmp_path)
    append(log, batch([value]), batch([value]), batch())
    for offset in range(3):
        result = log.read_records(offset, 2 * 61, max_offset=3, min_one_batch=True)
        assert bases(result) == [offset]


# -- where


def test_a_follower_that_got_several_batches_at_once_reads_from_each_of_them(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch())
    log.append_as_follower(b"".join(batch(2, base_offset=base, leader_epoch=0) for base in (1, 3, 5)), NOW_MS)
    assert [bases(read(log, offset, SIZE)) for offset in (0, 1, 3, 5)] == [[0], [1], [3], [5]]
    assert bases(read(log, 4, SIZE)) == [3], "the batch that holds it"


@pytest.mark.parametrize("start", [0, 3])
def test_a_reader_that_goes_on_searches_nothing(tmp_path: Path, start: int) -> None:
    """Over the end of a segment too. An index interval of one batch: the index is asked where to stop, and not read."""
    disk = NotingFileSystem()
    log = new_log(tmp_path, filesystem=disk, segment_bytes=4 * SIZE, index_interval_bytes=0)
    append(log, *(batch() for _ in range(60)))
    offset = read(log, start, 2 * SIZE).next_offset
    disk.take()
    looked = 0
    while offset < 60:
        result = read(log, offset, SIZE)
        assert bases(result) == [offset]
        looked += len([name for what, name in disk.notes if what == "read"]) - 1  # one is ours
        offset = result.next_offset
        disk.take()
    assert looked <= 60 - start, "a header for each batch, to find its end"


def test_a_reader_at_the_tail_searches_nothing(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    log = new_log(tmp_path, filesystem=disk)
    append(log, *(batch() for _ in range(20)))
    disk.take()
    for offset in range(20):
        assert read(log, offset).size_bytes == (20 - offset) * SIZE
    assert disk.take("read") == [], "each of the last batches is known, the first of the file too"


def test_a_read_that_can_have_nothing_searches_nothing(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    log = new_log(tmp_path, filesystem=disk, segment_bytes=100 * SIZE)
    append(log, *(batch() for _ in range(300)))
    disk.take()
    for offset, bound in ((300, 300), (150, 150), (150, 149), (299, 10), (300, 10)):
        assert read(log, offset, max_offset=bound) == ([], 0, offset, 0)
    assert disk.take("read") == []


def test_a_read_up_to_the_end_of_a_segment_searches_for_no_end(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    log = new_log(tmp_path, filesystem=disk, segment_bytes=2 * SIZE)
    append(log, *(batch() for _ in range(6)))
    assert [read(log, offset).size_bytes for offset in (0, 2)] == [2 * SIZE, 2 * SIZE]
    disk.take()
    assert read(log, 2, max_offset=4).size_bytes == 2 * SIZE
    assert disk.take("read") == []


def test_what_a_follower_got_is_where_its_own_followers_and_readers_find_it_without_a_search(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    log = new_log(tmp_path, filesystem=disk)
    for base in range(0, 40, 2):
        log.append_as_follower(batch(base_offset=base) + batch(base_offset=base + 1), NOW_MS)
    disk.take()
    for base in range(0, 40, 2):
        assert read(log, base).size_bytes == (40 - base) * SIZE
    assert disk.take("read") == []
