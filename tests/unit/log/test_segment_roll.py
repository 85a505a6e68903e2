"""When a batch starts a new segment: each bound at its edge, and what an empty segment is spared."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kavka.log.decide.segment_roll import RollLimits, must_roll

LIMITS = RollLimits(segment_bytes=1000, segment_ms=60_000, max_index_entries=10)
MADE_MS = 1_000_000


@dataclass
class Growing:
    size: int = 500
    base_offset: int = 100
    created_ms: int = MADE_MS
    roll_jitter_ms: int = 0
    index_entries: int = 1
    first_timestamp: int = MADE_MS


def rolls(
    segment: Growing, *, size: int = 100, last_offset: int = 200, max_timestamp: int = -1, now_ms: int = 0
) -> bool:
    return must_roll(segment, size, last_offset, max_timestamp, now_ms or MADE_MS, LIMITS)


def test_a_batch_may_fill_a_segment_to_the_byte() -> None:
    assert not rolls(Growing(), size=500)
    assert rolls(Growing(), size=501)


def test_offsets_stay_within_what_an_index_entry_holds() -> None:
    assert not rolls(Growing(size=0), last_offset=100 + 2**31 - 1)
    assert rolls(Growing(size=0), last_offset=100 + 2**31)


def test_a_full_index_rolls() -> None:
    assert not rolls(Growing(index_entries=9))
    assert rolls(Growing(index_entries=10))


@pytest.mark.parametrize("jitter_ms", [0, 5_000])
def test_the_span_of_the_records_times_counts_and_not_the_clock(jitter_ms: int) -> None:
    segment, last_ms = Growing(roll_jitter_ms=jitter_ms), MADE_MS + 60_000 - jitter_ms
    assert not rolls(segment, max_timestamp=last_ms, now_ms=MADE_MS + 10**9)
    assert rolls(segment, max_timestamp=last_ms + 1)


def test_the_begin_of_time_is_a_first_time() -> None:
    """Kafka's LogSegment.timeWaitedForRoll: what is below zero is none."""
    segment = Growing(first_timestamp=0)
    assert not rolls(segment, max_timestamp=60_000, now_ms=MADE_MS + 10**9)
    assert rolls(segment, max_timestamp=60_001)


def test_without_a_first_time_the_time_since_it_was_made_counts() -> None:
    segment = Growing(first_timestamp=-1)
    assert not rolls(segment, max_timestamp=MADE_MS + 10**9, now_ms=MADE_MS + 60_000)
    assert rolls(segment, now_ms=MADE_MS + 60_001)


def test_an_empty_segment_is_never_too_old_nor_its_index_full() -> None:
    assert not rolls(Growing(size=0, index_entries=10, first_timestamp=-1), now_ms=MADE_MS + 10**9)


def test_the_first_time_is_not_asked_for_before_it_is_needed() -> None:
    class Unreadable(Growing):
        def __getattribute__(self, name: str) -> object:
            assert name != "first_timestamp"
            return super().__getattribute__(name)

    assert rolls(Unreadable(), size=501)
