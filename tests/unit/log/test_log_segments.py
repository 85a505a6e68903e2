"""The segments of a log: in which one and where in it an offset is, which places are remembered, and what goes when."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from kavka.log.decide.indexes import AbortedTransaction
from kavka.log.log_segments import READ_POSITIONS, LogSegments, ages_from_ms, fit
from kavka.log.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX, LogDirectory, OpenSegments, Segment
from kavka.records.batch import batch_at
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import NOW_MS, batch

NEVER = 1 << 30
SIZE = len(batch(2))
"""Of a batch of two records: all have it here."""
noted: dict[LogDirectory, None] = {}


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    noted.clear()
    return LogDirectory(LocalFileSystem(), str(tmp_path), OpenSegments(100), noted=noted)


def segment(directory: LogDirectory, base_offset: int, *base_offsets: int) -> Segment:
    """One with batches of two records at these offsets."""
    made = Segment.create(directory, base_offset, now_ms=NOW_MS)
    for offset in base_offsets:
        data = batch(2, base_offset=offset, timestamp=NOW_MS + offset)
        found = batch_at(memoryview(data))
        assert found is not None
        made.append(data, found.header.last_offset, found.header.max_timestamp, NEVER)
    return made


def three(directory: LogDirectory) -> LogSegments:
    """Segments at 10, 20 and 30; the second one ends before the third begins, the third has a gap behind 31."""
    return LogSegments(
        [
            segment(directory, 10, 10, 12, 14, 16, 18),
            segment(directory, 20, 20, 22),
            segment(directory, 30, 30, 36),
        ]
    )


# -- which segment


@pytest.mark.parametrize(
    ("offset", "number"), [(0, -1), (9, -1), (10, 0), (19, 0), (20, 1), (29, 1), (30, 2), (1 << 40, 2)]
)
def test_an_offset_is_in_the_last_segment_that_begins_at_or_before_it(
    directory: LogDirectory, offset: int, number: int
) -> None:
    segments = three(directory)
    assert segments.number_of(offset) == number
    assert segments.from_offset(offset) == segments.listed[max(number, 0) :]


@pytest.mark.parametrize(
    ("high_watermark", "count"), [(0, 0), (19, 0), (20, 1), (29, 1), (30, 2), (37, 2), (38, 3), (99, 3)]
)
def test_a_segment_is_below_the_high_watermark_if_its_end_is(
    directory: LogDirectory, high_watermark: int, count: int
) -> None:
    segments = three(directory)
    assert segments.below(high_watermark, 38) == segments.listed[:count]


def test_an_empty_segment_counts_as_below_unless_it_is_written_to(directory: LogDirectory) -> None:
    """Compaction leaves such ones, which go with others. The active one is the log's end."""
    emptied, active = segment(directory, 20), segment(directory, 30)
    segments = LogSegments([segment(directory, 10, 10), emptied, active])
    assert segments.below(30, 30) == segments.listed[:2]
    assert list(ages_from_ms(segments.listed)) == [NOW_MS + 11, None, None]


def test_segments_are_held_while_they_are_there_side_by_side(directory: LogDirectory) -> None:
    segments = three(directory)
    first, second, third = segments.listed
    for held in ([first], [third], [first, second], [second, third], [first, second, third]):
        assert segments.hold(held)
    for other in ([first, third], [second, first], [third, first], [segment(directory, 20)], [segment(directory, 5)]):
        assert not segments.hold(other)
    segments.remove(1, 2, NOW_MS)
    assert segments.hold([first, third])
    assert not segments.hold([first, second])


# -- where in it


@pytest.mark.parametrize(
    ("offset", "number", "position", "is_begin"),
    [
        (0, 0, 0, False),
        (10, 0, 0, True),
        (11, 0, 0, False),
        (12, 0, 1, True),
        (19, 0, 4, False),
        (22, 1, 1, True),
        (24, 2, 0, False),
        (29, 2, 0, False),
        (30, 2, 0, True),
        (32, 2, 1, False),
        (36, 2, 1, True),
        (37, 2, 1, False),
        (38, 2, 2, False),
        (99, 2, 2, False),
    ],
)
def test_an_offset_is_located_at_the_first_batch_that_ends_at_or_behind_it(
    directory: LogDirectory, offset: int, number: int, position: int, is_begin: bool
) -> None:
    segments = three(directory)
    place = segments.listed[number], position * SIZE
    assert segments.locate(offset) == place
    assert segments.read_ends == ({offset: place} if is_begin else {}), "the begin of a batch is remembered"


@pytest.mark.parametrize(
    ("offset", "position", "is_begin"),
    [(20, 0, True), (21, 0, False), (22, 1, True), (23, 1, False), (24, 2, False), (30, 2, False), (9, 0, False)],
)
def test_a_position_in_a_segment_is_that_of_the_first_batch_that_is_not_wholly_below(
    directory: LogDirectory, offset: int, position: int, is_begin: bool
) -> None:
    segments = three(directory)
    second = segments.listed[1]
    assert segments.position_of(offset, second) == position * SIZE
    assert segments.read_ends == ({offset: (second, position * SIZE)} if is_begin else {})
    segments.remember(30, second, 2 * SIZE)
    assert segments.position_of(30, second) == 2 * SIZE, "what is remembered of 30 is the begin of the next segment"
    assert [segments.position_of(end, segments.active) for end in (30, 36, 38)] == [0, SIZE, 2 * SIZE]


def test_positions_that_are_remembered_are_not_looked_for(directory: LogDirectory) -> None:
    segments = three(directory)
    first, _, active = segments.listed
    segments.tail.update({30: 0, 36: SIZE})
    segments.remember(12, first, SIZE)
    for each in segments.listed:
        with open(each.path(LOG_SUFFIX), "r+b") as file:
            file.truncate(0)
    assert [segments.position_of(offset, active) for offset in (30, 36)] == [0, SIZE]
    assert segments.position_of(12, first) == SIZE


def test_the_end_of_a_segment_is_the_begin_of_the_next_one(directory: LogDirectory) -> None:
    segments = three(directory)
    first, second, active = segments.listed
    segments.remember(20, first, first.size)
    segments.remember(24, second, second.size)
    segments.remember(38, active, active.size)
    segments.remember(18, first, first.size - SIZE)
    assert segments.read_ends == {
        20: (second, 0),
        24: (active, 0),
        38: (active, active.size),
        18: (first, 4 * SIZE),
    }


def test_in_front_of_a_segment_that_compaction_emptied_nothing_is_remembered(directory: LogDirectory) -> None:
    first, emptied, active = segment(directory, 10, 10), segment(directory, 20), segment(directory, 30)
    segments = LogSegments([first, emptied, active])
    segments.remember(12, first, first.size)
    assert segments.read_ends == {}
    assert segments.locate(12) == (active, 0)
    segments = LogSegments([first, active])
    segments.remember(12, first, first.size)
    assert segments.read_ends == {12: (active, 0)}, "where the next batch will be"


def test_the_place_that_was_remembered_first_is_forgotten_first(directory: LogDirectory) -> None:
    segments = three(directory)
    for offset in range(READ_POSITIONS + 3):
        segments.remember(offset, segments.active, 0)
    assert list(segments.read_ends) == [*range(3, READ_POSITIONS + 3)]
    segments.tail[36] = SIZE
    segments.forget_places()
    assert (segments.read_ends, segments.tail) == ({}, {})


# -- aborted transactions


def aborted(first: int, last: int, stable: int | None = None) -> AbortedTransaction:
    return AbortedTransaction(7, first, last, last + 1 if stable is None else stable)


@pytest.mark.parametrize(
    ("start", "end", "numbers"),
    [
        (10, 40, [0, 1, 2]),
        (0, 40, [0, 1, 2]),
        (13, 40, [0, 1, 2]),
        (14, 40, [1, 2]),
        (22, 40, [1, 2]),
        (23, 40, [2]),
        (37, 40, [2]),
        (38, 40, []),
        (10, 15, [0]),
        (10, 16, [0, 1]),
        (10, 10, []),
        (10, 30, [0, 1]),
        (10, 31, [0, 1, 2]),
    ],
)
def test_a_reader_gets_the_aborted_transactions_with_records_in_what_it_read(
    directory: LogDirectory, start: int, end: int, numbers: list[int]
) -> None:
    """As Kafka's TransactionIndex.collectAbortedTxns. That of the second segment began in the first."""
    segments = three(directory)
    entries = [aborted(10, 13), aborted(15, 22), aborted(30, 37)]
    for each, entry in zip(segments.listed, entries, strict=True):
        each.add_aborted(entry)
    assert segments.aborted_transactions(start, end) == [entries[number] for number in numbers]


def test_no_segment_is_asked_behind_the_first_that_says_that_all_before_is_stable(directory: LogDirectory) -> None:
    segments = three(directory)
    segments.listed[0].add_aborted(aborted(10, 13, stable=14))
    Path(segments.listed[1].path(TXN_INDEX_SUFFIX)).write_bytes(b"torn")
    segments.listed[1] = Segment.open(directory, 20, now_ms=NOW_MS)
    with structlog.testing.capture_logs() as lines:
        assert segments.aborted_transactions(10, 14) == [aborted(10, 13, stable=14)]
        assert lines == []
        assert segments.aborted_transactions(10, 15) == [aborted(10, 13, stable=14)]
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("transaction index rebuilt", "warning")
    assert line["path"] == segments.listed[1].path(TXN_INDEX_SUFFIX)
    assert "not a whole number" in line["why"]


# -- coming and going


def test_a_segment_that_is_added_is_the_active_one(directory: LogDirectory) -> None:
    segments = three(directory)
    segments.tail[30] = 0
    noted.clear()
    added = segment(directory, 40)
    segments.add(added)
    assert (segments.active, segments.bases, segments.tail) == (added, [10, 20, 30, 40], {})
    assert segments.listed[3:] == [added]
    assert list(noted) == [directory]
    assert segments.size_bytes == 9 * SIZE


def test_segments_that_go_are_renamed_at_once_and_removed_when_their_delay_is_over(
    directory: LogDirectory, tmp_path: Path
) -> None:
    segments = three(directory)
    first, second, active = segments.listed
    segments.remember(12, first, SIZE)
    segments.tail[36] = SIZE
    noted.clear()
    segments.remove(0, 1, NOW_MS + 10)
    assert (segments.listed, segments.bases) == ([second, active], [20, 30])
    assert (segments.read_ends, segments.tail) == ({}, {})
    assert list(noted) == [directory]
    segments.remove(0, 1, NOW_MS + 20)
    names = [str(tmp_path / f"{base:020d}.log.deleted") for base in (10, 20)]
    assert all(Path(name).exists() for name in names)
    assert segments.take_removals(NOW_MS + 9) == []
    assert segments.take_removals(NOW_MS + 10) == names[:1]
    assert segments.take_removals(NOW_MS + 10) == []
    assert segments.take_removals(NOW_MS + 99) == names[1:]
    assert segments.removals == []


def test_the_last_segment_that_is_left_is_the_active_one(directory: LogDirectory) -> None:
    segments = three(directory)
    first, second, _ = segments.listed
    for left in (second, first):
        segments.remove(len(segments.listed) - 1, len(segments.listed), NOW_MS)
        assert segments.end_with_last() is left
        assert segments.active is left


def test_a_segment_is_put_between_others(directory: LogDirectory) -> None:
    segments = three(directory)
    between = segment(directory, 25, 25)
    segments.insert(2, between)
    assert (segments.bases, segments.listed[2]) == ([10, 20, 25, 30], between)
    assert segments.locate(26) == (between, 0)


# -- what a limit holds


@pytest.mark.parametrize(
    ("position", "max_bytes", "min_one_batch", "expected"),
    [
        (0, 5 * SIZE - 1, True, (4, 18)),
        (0, 2 * SIZE, True, (2, 14)),
        (0, 2 * SIZE, False, (2, 14)),
        (0, 2 * SIZE - 1, True, (1, 12)),
        (2, SIZE, False, (1, 16)),
        (2, SIZE - 1, True, (1, 16)),
        (2, SIZE - 1, False, (0, 14)),
        (4, SIZE, False, (1, 20)),
        (4, SIZE + 1, False, (1, 20)),
        (4, 1, True, (1, 20)),
        (4, 1, False, (0, 18)),
    ],
)
def test_a_limit_holds_whole_batches(
    directory: LogDirectory, position: int, max_bytes: int, min_one_batch: bool, expected: tuple[int, int]
) -> None:
    first = three(directory).listed[0]
    size, next_offset = fit(first, position * SIZE, max_bytes, min_one_batch=min_one_batch)
    assert (size // SIZE, size % SIZE, next_offset) == (expected[0], 0, expected[1])
