"""Which log is compacted next, from where to where, and which segments become one: as Kafka's LogCleanerManager says
(cleanableOffsets, grabFilthiestCompactedLog, maxCompactionDelay), and its Cleaner (groupSegmentsBySize)."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.log.cleaner_choice import LogToClean, dirty_segments, filthiest, group_segments, look_at
from kavka.log.decide.indexes import MAX_RELATIVE_OFFSET
from kavka.log.log_config import LogConfig
from kavka.model import TopicPartition
from tests.unit.log.log_support import NOW_MS, PARTITION

FOR_EVER = 1 << 62


def segment(base_offset: int, size: int = 100, *, age_from_ms: int = 0, first_timestamp: int = -1) -> Any:
    """What the choice asks a segment; times in ms."""
    return SimpleNamespace(base_offset=base_offset, size=size, age_from_ms=age_from_ms, first_timestamp=first_timestamp)


def log(*segments: Any, cleaned_to: int | None = None, start: int = 0, end: int = 1000, **settings: Any) -> Any:
    """What the choice asks a log; the last segment is the active one."""
    stable, bound = settings.pop("stable", end), settings.pop("epochs_durable_to", FOR_EVER)
    return SimpleNamespace(
        topic_partition=settings.pop("topic_partition", PARTITION),
        config=LogConfig(cleanup_compact=True, **settings),
        segments=list(segments),
        cleaned_to=cleaned_to,
        log_start_offset=start,
        log_end_offset=end,
        last_stable_offset=stable,
        swap=SimpleNamespace(bound=bound),
    )


def four(**settings: Any) -> Any:
    """Segments at 0, 10, 20, and an active one at 30, of 1, 2, 4 and 8 bytes."""
    return log(segment(0, 1), segment(10, 2), segment(20, 4), segment(30, 8), **settings)


def look(found: Any, now_ms: int = NOW_MS) -> tuple[int, int, int, int]:
    """First dirty offset, from where it cannot be cleaned; clean bytes, and those that may be cleaned."""
    seen = look_at(found, now_ms)
    return seen.first_dirty, seen.uncleanable_from, seen.clean_bytes, seen.cleanable_bytes


@pytest.mark.parametrize(
    ("cleaned_to", "start", "first_dirty"),
    [
        (None, 0, 0),
        (None, 7, 7),
        (0, 0, 0),
        (15, 0, 15),
        (7, 7, 7),
        (6, 7, 7),
        (1000, 0, 1000),
        (1001, 0, 0),
        (-1, 0, 0),
    ],
)
def test_a_pass_begins_where_the_last_one_ended_if_that_can_be_right(
    cleaned_to: int | None, start: int, first_dirty: int
) -> None:
    assert look(four(cleaned_to=cleaned_to, start=start))[0] == first_dirty


@pytest.mark.parametrize(
    ("cleaned_to", "clean", "cleanable"),
    [(0, 0, 7), (9, 0, 7), (10, 1, 6), (11, 1, 6), (20, 3, 4), (29, 3, 4), (30, 7, 0), (35, 7, 0)],
)
def test_what_is_clean_and_what_may_be_cleaned_are_counted_by_whole_segments(
    cleaned_to: int, clean: int, cleanable: int
) -> None:
    """The active segment counts as neither."""
    assert look(four(cleaned_to=cleaned_to))[2:] == (clean, cleanable)


@pytest.mark.parametrize("bounded_by", ["stable", "epochs_durable_to"])
@pytest.mark.parametrize(
    ("bound", "uncleanable_from", "cleanable"),
    [(0, 0, 0), (9, 0, 0), (10, 10, 1), (19, 10, 1), (20, 20, 3), (29, 20, 3), (30, 30, 7), (31, 30, 7), (999, 30, 7)],
)
def test_nothing_is_cleaned_that_is_not_decided_or_whose_epochs_are_not_durable(
    bounded_by: str, bound: int, uncleanable_from: int, cleanable: int
) -> None:
    assert look(four(**{bounded_by: bound})) == (0, uncleanable_from, 0, cleanable)


def test_what_is_clean_ends_no_earlier_because_something_before_is_not_stable() -> None:
    assert look(four(stable=5, cleaned_to=20)) == (20, 20, 3, 0)
    assert look(four(stable=5, cleaned_to=25)) == (25, 20, 3, 0)


def test_nothing_is_cleaned_of_a_log_that_begins_before_its_first_segment_and_is_stable_no_further() -> None:
    assert look(log(segment(10, 1), segment(20), start=5, stable=5)) == (5, 10, 0, 0)


def test_the_only_segment_is_the_active_one() -> None:
    assert look(log(segment(5, 100), start=5, end=50)) == (5, 5, 0, 0)
    assert look_at(log(segment(5, 100), start=5, end=50), NOW_MS).dirty_ratio == 0.0


@pytest.mark.parametrize(
    ("ages", "uncleanable_from"),
    [
        ((500, 500, 500, 0), 30),
        ((500, 499, 500, 0), 10),
        ((500, 500, 499, 0), 20),
        ((500, 499, 499, 0), 10),
        ((499, 500, 500, 0), 0),
        ((0, 0, 0, 0), 0),
    ],
)
def test_the_first_segment_with_a_record_that_is_too_young_ends_what_may_be_cleaned(
    ages: Sequence[int], uncleanable_from: int
) -> None:
    """min.compaction.lag.ms: a record is to be read for so long at least. Ages in ms before now."""
    segments = [segment(10 * number, age_from_ms=NOW_MS - age) for number, age in enumerate(ages)]
    assert look(log(*segments, min_compaction_lag_ms=500))[1] == uncleanable_from
    assert look(log(*segments))[1] == 30, "without a lag nothing is too young"


def test_without_a_lag_a_time_in_the_future_is_not_too_young_either() -> None:
    assert look(log(segment(0, age_from_ms=NOW_MS + 5), segment(10)))[1] == 10


def test_how_young_clean_segments_are_does_not_matter() -> None:
    young = [segment(10 * number, age_from_ms=NOW_MS) for number in range(2)]
    old = segment(20, age_from_ms=NOW_MS - 1)
    assert look(log(*young, old, segment(30), cleaned_to=20, min_compaction_lag_ms=1))[1] == 30
    assert look(log(*young, old, segment(30), cleaned_to=19, min_compaction_lag_ms=1))[1] == 10


@pytest.mark.parametrize(
    ("first_timestamps", "lag_ms", "delay_ms"),
    [
        ((NOW_MS - 500, NOW_MS, NOW_MS, NOW_MS), 500, 0),
        ((NOW_MS - 501, NOW_MS, NOW_MS, NOW_MS), 500, 1),
        ((NOW_MS, NOW_MS - 600, NOW_MS - 700, NOW_MS), 500, 200),
        ((NOW_MS, NOW_MS, NOW_MS, NOW_MS - 900), 500, 0),
        ((-1, 0, -5, 0), 500, 0),
        ((-1, 0, 1, -1), 500, NOW_MS - 501),
        ((NOW_MS + 900, NOW_MS, NOW_MS, NOW_MS), 500, 0),
        ((1, 1, 1, 1), FOR_EVER, 0),
        ((NOW_MS - 2, NOW_MS, NOW_MS, NOW_MS), 1, 1),
    ],
)
def test_a_log_must_be_cleaned_when_its_first_dirty_record_is_too_old(
    first_timestamps: Sequence[int], lag_ms: int, delay_ms: int
) -> None:
    """max.compaction.lag.ms (KIP-354): how long ago it had to be. The active segment's records do not count."""
    segments = [segment(10 * number, first_timestamp=first) for number, first in enumerate(first_timestamps)]
    assert look_at(log(*segments, max_compaction_lag_ms=lag_ms), NOW_MS).compaction_delay_ms == delay_ms


def test_clean_records_may_be_as_old_as_they_are() -> None:
    segments = [segment(0, first_timestamp=1), segment(10, first_timestamp=NOW_MS - 9), segment(20)]
    assert look_at(log(*segments, cleaned_to=10, max_compaction_lag_ms=5), NOW_MS).compaction_delay_ms == 4
    assert look_at(log(*segments, cleaned_to=9, max_compaction_lag_ms=5), NOW_MS).compaction_delay_ms == NOW_MS - 6


# -- which one is due


def to_clean(
    clean: int, cleanable: int, delay_ms: int = 0, *, ratio: float = 0.5, name: str = "t", partition: int = 0
) -> LogToClean:
    found = log(segment(0), min_cleanable_dirty_ratio=ratio, topic_partition=TopicPartition(name, partition))
    return LogToClean(found, 0, 0, clean, cleanable, delay_ms)


@pytest.mark.parametrize(
    ("clean", "cleanable", "delay_ms", "ratio", "dirty_ratio", "is_due"),
    [
        (50, 50, 0, 0.5, 0.5, False),
        (49, 51, 0, 0.5, 0.51, True),
        (50, 50, 1, 0.5, 0.5, True),
        (99, 1, 0, 0.0, 0.01, True),
        (100, 0, 0, 0.0, 0.0, False),
        (100, 0, 1, 0.0, 0.0, False),
        (0, 0, 1, 0.0, 0.0, False),
        (0, 1, 0, 0.5, 1.0, True),
        (0, 1, 0, 1.0, 1.0, False),
        (0, 1, 1, 1.0, 1.0, True),
    ],
)
def test_a_log_is_due_above_its_ratio_or_when_it_must_be(
    clean: int, cleanable: int, delay_ms: int, ratio: float, dirty_ratio: float, is_due: bool
) -> None:
    found = to_clean(clean, cleanable, delay_ms, ratio=ratio)
    assert found.dirty_ratio == dirty_ratio
    assert found.is_due is is_due


def test_the_filthiest_of_those_that_are_due_is_next() -> None:
    low, high = to_clean(40, 60, name="low"), to_clean(10, 90, name="high")
    not_due = to_clean(1, 99, ratio=1.0, name="not due")
    must = to_clean(95, 5, 1, name="must")
    assert filthiest([low, not_due, high, must]) is high
    assert filthiest([low, must]) is low
    assert filthiest([must, not_due]) is must
    assert filthiest([not_due]) is None
    assert filthiest([]) is None
    first, second = to_clean(0, 9, partition=1), to_clean(0, 5, partition=2)
    assert filthiest([first, second]) is filthiest([second, first]) is second, "the order does not matter"


@pytest.mark.parametrize(
    ("first_dirty", "uncleanable_from", "bases"),
    [
        (0, 30, [0, 10, 20]),
        (9, 30, [0, 10, 20]),
        (10, 30, [10, 20]),
        (10, 20, [10]),
        (15, 21, [10, 20]),
        (0, 0, []),
        (30, 30, []),
        (0, 99, [0, 10, 20]),
    ],
)
def test_the_segments_between_the_two_offsets_are_cleaned_but_for_the_active_one(
    first_dirty: int, uncleanable_from: int, bases: list[int]
) -> None:
    found = LogToClean(four(), first_dirty, uncleanable_from, 0, 0, 0)
    assert [each.base_offset for each in dirty_segments(found)] == bases


# -- which segments become one


def groups(found: Any, end_offset: int = 1 << 40) -> list[list[int]]:
    return [[each.base_offset for each in group] for group in group_segments(found, end_offset)]


def sized(*sizes: int, **settings: Any) -> Any:
    """A log with segments of ten offsets each, and an active one."""
    return log(*(segment(10 * number, size) for number, size in enumerate(sizes)), segment(10 * len(sizes)), **settings)


def test_segments_become_one_as_long_as_they_are_no_larger_together() -> None:
    assert groups(sized(40, 60, 1, 99, 100, 0, 30, 70, 1, segment_bytes=100)) == [
        [0, 10],
        [20, 30],
        [40, 50],
        [60, 70],
        [80],
    ]
    assert groups(sized(101, 0, 101, segment_bytes=100)) == [[0], [10], [20]], "one may be larger, and is alone then"
    assert groups(sized(segment_bytes=100)) == []


@pytest.mark.parametrize(
    ("end_offset", "bases"), [(0, []), (1, [[0]]), (10, [[0]]), (11, [[0, 10]]), (20, [[0, 10]]), (99, [[0, 10, 20]])]
)
def test_segments_that_begin_at_the_end_or_behind_it_are_left_alone(end_offset: int, bases: list[list[int]]) -> None:
    assert groups(sized(1, 1, 1), end_offset) == bases


@pytest.mark.parametrize(
    ("index_bytes", "bases"),
    [
        (12 * 8, [[0, 10, 20], [30]]),
        (12 * 8 - 1, [[0, 10], [20, 30]]),
        (12 * 7, [[0, 10], [20, 30]]),
        (12 * 7 - 1, [[0, 10], [20], [30]]),
        (12 * 5, [[0, 10], [20], [30]]),
        (12 * 5 - 1, [[0], [10], [20], [30]]),
        (12, [[0], [10], [20], [30]]),
        (0, [[0], [10], [20], [30]]),
    ],
)
def test_segments_become_one_as_long_as_their_entries_fit_into_one_index(
    index_bytes: int, bases: list[list[int]]
) -> None:
    """An index of 12 bytes an entry keeps one free for its last time. Here an entry is written every 10 bytes at most,
    and one more for the rest: 2, 2, 3 and 3 of them."""
    found = sized(19, 10, 20, 29, segment_index_bytes=index_bytes, index_interval_bytes=10)
    assert groups(found) == bases


def test_small_segments_need_an_entry_each_and_one_is_kept_free() -> None:
    for index_bytes, bases in ((12 * 3, [[0, 10]]), (12 * 3 - 1, [[0], [10]]), (12, [[0], [10]]), (0, [[0], [10]])):
        assert groups(sized(1, 1, segment_index_bytes=index_bytes, index_interval_bytes=10)) == bases


def test_an_index_that_gets_an_entry_for_each_batch_has_no_more_than_bytes() -> None:
    found = sized(1, 1, segment_index_bytes=12 * 5, index_interval_bytes=0)
    assert groups(found) == [[0, 10]]
    assert groups(sized(1, 2, segment_index_bytes=12 * 5, index_interval_bytes=0)) == [[0], [10]]
    assert groups(sized(1, 2, segment_index_bytes=12 * 5, index_interval_bytes=1)) == [[0], [10]]


@pytest.mark.parametrize(("beyond", "size", "joins"), [(0, 1, True), (1, 1, False), (1, 0, True)])
def test_the_offsets_of_one_segment_fit_into_31_bits(beyond: int, size: int, joins: bool) -> None:
    """Counted from its base offset; the last record is the one before the next segment, and an empty one has none."""
    end = 5 + MAX_RELATIVE_OFFSET + 1 + beyond
    found = log(segment(5), segment(10, size), segment(end), start=5, end=end)
    assert groups(found) == ([[5, 10]] if joins else [[5], [10]])


def test_the_offsets_of_a_segment_count_from_the_first_of_those_that_become_it() -> None:
    far = MAX_RELATIVE_OFFSET
    found = log(segment(0), segment(10), segment(20), segment(far + 11), end=far + 20)
    assert groups(found) == [[0, 10], [20]], "the last offset is 10 more than fit with the first segment's"
    found = log(segment(0, 99), segment(10, 50), segment(far, 50), segment(far + 11), end=far + 20, segment_bytes=100)
    assert groups(found) == [[0], [10, far]], "of the segments before, nothing"
