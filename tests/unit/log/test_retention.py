"""How many of the oldest segments go, each bound at its edge."""

from collections.abc import Iterator

import pytest

from kavka.log.decide.retention import below_log_start, over_age, over_size


@pytest.mark.parametrize(("log_start", "count"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (99, 2)])
def test_a_segment_goes_when_the_next_one_begins_at_or_below_the_log_start(log_start: int, count: int) -> None:
    assert below_log_start([0, 10, 20], log_start) == count


@pytest.mark.parametrize(("excess", "count"), [(-1, 0), (99, 0), (100, 1), (149, 1), (150, 2), (999, 3)])
def test_segments_go_as_long_as_no_less_than_retention_bytes_stays(excess: int, count: int) -> None:
    assert over_size([100, 50, 70], excess) == count


def test_an_empty_segment_stays_where_the_log_has_no_byte_too_many() -> None:
    assert over_size([0, 10], -1) == 0
    assert over_size([0, 10], 0) == 1


def test_a_segment_goes_when_its_youngest_record_is_older_than_retention_ms() -> None:
    assert over_age([100], now_ms=1_100, retention_ms=1_000) == 0
    assert over_age([100], now_ms=1_101, retention_ms=1_000) == 1


def test_segments_that_compaction_emptied_go_with_the_next_one_that_goes() -> None:
    old, young = 0, 2_000
    assert over_age([None, old, None, None, old, None, young, old], now_ms=2_000, retention_ms=1_000) == 5
    assert over_age([None, young], now_ms=2_000, retention_ms=1_000) == 0


def test_behind_the_first_segment_that_stays_no_age_is_asked_for() -> None:
    def ages() -> Iterator[int]:
        yield from (0, 2_000)
        raise AssertionError

    assert over_age(ages(), now_ms=2_000, retention_ms=1_000) == 1
