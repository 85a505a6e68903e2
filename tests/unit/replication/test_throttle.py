"""How many bytes a second replication may move for the replicas that an operator named."""

from __future__ import annotations

import pytest

from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.throttle import DEFAULT_SAMPLES, DEFAULT_WINDOW_MS, NO_LIMIT, Throttle

RATE = 1_000
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def throttle(rate: int = RATE) -> Throttle:
    one = Throttle(BrokerId(2), rate=rate)
    one.set_replicas("orders", ["*"])
    return one


def test_replicas_are_named_by_partition_and_broker() -> None:
    one = Throttle(BrokerId(2), rate=RATE)
    one.set_replicas("orders", ["0:1", "1:2", "2:12"])
    assert not one.is_throttled(ORDERS_0), "that is broker 1's"
    assert one.is_throttled(ORDERS_1)
    assert not one.is_throttled(TopicPartition("orders", 2)), "that is broker 12's"
    assert not one.is_throttled(TopicPartition("other", 1))


def test_a_star_names_all_and_an_empty_list_none() -> None:
    one = throttle()
    assert one.is_throttled(ORDERS_0)
    one.set_replicas("orders", [])
    assert not one.is_throttled(ORDERS_0)
    assert not one.is_limited


def test_without_a_rate_nothing_is_limited() -> None:
    one = throttle(NO_LIMIT)
    one.record(1 << 40, 0)
    assert not one.is_limited
    assert not one.is_exceeded(0)


def test_an_idle_throttle_lets_one_second_worth_through_at_once() -> None:
    """Kafka's rate is a SimpleRate here: windows that have not passed do not count."""
    one = throttle()
    one.record(RATE, 100_000)
    assert not one.is_exceeded(100_000)
    one.record(1, 100_000)
    assert one.is_exceeded(100_000)
    assert one.is_exceeded(101_000)
    assert not one.is_exceeded(101_001), "the rate is that of the time since the first byte"


def test_after_a_long_silence_a_throttle_is_idle_again() -> None:
    one = throttle()
    one.record(3 * RATE, 0)
    assert one.is_exceeded(2_999)
    one.record(RATE, 3_000)
    assert one.is_exceeded(3_500)
    assert not one.is_exceeded(14_000)
    one.record(RATE + 1, 30_000)
    assert one.is_exceeded(30_000)


@pytest.mark.parametrize("later", [1, RATE, 5 * RATE, 30 * RATE])
def test_it_is_free_neither_sooner_nor_later_than_it_says(later: int) -> None:
    one = throttle()
    one.record(20 * RATE, 0)
    one.record(later, 5_000)
    free_in_ms = one.free_in_ms(5_000)
    assert one.is_exceeded(5_000 + free_in_ms - 1)
    assert not one.is_exceeded(5_000 + free_in_ms)


def test_with_a_rate_of_nothing_it_is_free_when_nothing_counts_any_more() -> None:
    one = throttle(0)
    one.record(1, 5_000)
    assert one.free_in_ms(5_000) == 11_000
    assert not one.is_exceeded(16_000)


def test_the_quota_is_free_again_when_what_was_moved_is_long_enough_ago() -> None:
    one = throttle()
    one.record(5 * RATE, 100_000)
    one.record(6 * RATE, 105_000)
    assert one.is_exceeded(105_000)
    free_in_ms = one.free_in_ms(105_000)
    assert free_in_ms > 0
    assert not one.is_exceeded(105_000 + free_in_ms)


@pytest.mark.parametrize("chunk", [100, 5_000, 20_000])
def test_over_a_minute_the_rate_is_kept(chunk: int) -> None:
    one = throttle()
    moved = 0
    for now_ms in range(0, 60_000, 10):
        if not one.is_exceeded(now_ms):
            one.record(chunk, now_ms)
            moved += chunk
    # One burst, then the rate; and what overshoots each time the quota is used up, which is not held against the next.
    assert 50 * RATE <= moved <= 61 * RATE + 6 * chunk


def test_nothing_is_remembered_longer_than_its_window() -> None:
    one = throttle()
    for second in range(1_000):
        one.record(10, second * 1_000)
    assert len(one._samples_so_far) <= 12


def test_a_rate_that_is_raised_counts_at_once() -> None:
    one = throttle()
    one.record(2 * RATE, 0)
    assert one.is_exceeded(0)
    one.rate = 2 * RATE
    assert not one.is_exceeded(0)
    assert one.free_in_ms(0) == 0


def test_the_defaults_are_those_of_apache_kafka() -> None:
    # QuotaConfig: QUOTA_BYTES_PER_SECOND_DEFAULT, NUM_QUOTA_SAMPLES_DEFAULT, QUOTA_WINDOW_SIZE_SECONDS_DEFAULT
    assert (NO_LIMIT, DEFAULT_SAMPLES, DEFAULT_WINDOW_MS) == (9_223_372_036_854_775_807, 11, 1_000)
    one = Throttle(BrokerId(2))
    assert one.rate == NO_LIMIT


def test_there_is_something_to_throttle_with_a_rate_and_a_list_and_not_with_one_of_them() -> None:
    one = Throttle(BrokerId(2), rate=RATE)
    assert (one.is_limited, one.lists_set) == (False, 0)
    one.set_replicas("orders", ["0:2"])
    assert (one.is_limited, one.lists_set) == (True, 1)
    one.rate = NO_LIMIT
    assert not one.is_limited
    one.rate = RATE
    one.set_replicas("orders", ["0:1", ""])
    assert (one.is_limited, one.lists_set) == (False, 2), "they are another broker's"
    one.set_replicas("nobody", [])
    assert (one.is_limited, one.lists_set) == (False, 3)


def test_no_bytes_are_no_news() -> None:
    one = throttle()
    one.record(0, 1_000)
    one.record(RATE + 1, 5_000)
    assert one.is_exceeded(6_000), "the rate is that since 5,000"
    assert not one.is_exceeded(6_001)


@pytest.mark.parametrize(("second_at", "gone_at"), [(999, 11_999), (1_000, 11_000)])
def test_what_came_within_a_window_goes_together_one_span_after_its_last(second_at: int, gone_at: int) -> None:
    """Kafka's Sample.isComplete and SampledStat.purgeObsoleteSamples."""
    for began_ms in (0, 100_000):
        one = throttle()
        one.record(20 * RATE, began_ms)
        one.record(1, began_ms + second_at)
        assert one.free_in_ms(began_ms + second_at) == gone_at - second_at
        assert one.is_exceeded(began_ms + gone_at - 1)
        assert not one.is_exceeded(began_ms + gone_at)


def test_a_window_begins_with_the_first_bytes_after_the_one_before_it() -> None:
    one = throttle()
    for size_bytes, now_ms in ((1, 0), (20 * RATE, 1_000), (1, 1_999)):
        one.record(size_bytes, now_ms)
    assert one.is_exceeded(12_998), "the last two came in the same window"
    assert not one.is_exceeded(12_999)


def test_a_window_that_reaches_into_the_span_counts_beside_the_eleven_of_it() -> None:
    one = throttle()
    one.record(1, 0)
    one.record(20 * RATE, 999)
    for second in range(1, 12):
        one.record(1, second * 1_000)
    assert one.is_exceeded(11_500)
    assert one.is_exceeded(11_998)
    assert not one.is_exceeded(11_999)


def test_when_the_oldest_goes_the_rate_is_that_of_the_rest_since_these_began() -> None:
    one = throttle()
    one.record(20 * RATE, 0)
    one.record(8 * RATE, 5_000)
    one.record(3 * RATE, 6_500)
    assert one.free_in_ms(6_500) == 5_000 + 11_000 - 6_500, "11 KB since 5,000 are down to the rate by then"
    assert one.is_exceeded(15_999)
    assert not one.is_exceeded(16_000)
    other = throttle()
    other.record(20 * RATE, 0)
    other.record(14 * RATE, 5_000)
    other.record(3 * RATE, 6_500)
    assert other.free_in_ms(7_000) == 16_000 - 7_000, "then 3 KB since 6,500 are left, long ago"


@pytest.mark.parametrize(
    ("rate", "size_bytes", "free_at"),
    [(1_000, 1_001, 1_001), (1_000, 1_999, 1_999), (3, 10, 3_334), (3, 9, 3_000), (1, 2, 2_000), (7, 8, 1_143)],
)
def test_the_quota_is_free_in_the_millisecond_in_which_the_rate_is_reached(
    rate: int, size_bytes: int, free_at: int
) -> None:
    one = throttle(rate)
    one.record(size_bytes, 100_000)
    assert one.free_in_ms(100_000) == free_at
    assert one.free_in_ms(100_000 + free_at - 1) == 1
    assert one.is_exceeded(100_000 + free_at - 1)
    assert (one.free_in_ms(100_000 + free_at), one.is_exceeded(100_000 + free_at)) == (0, False)


def test_what_is_left_when_the_oldest_goes_may_be_too_much_although_all_was_not() -> None:
    """At 11,000 all of it is down to the rate, which is when the first bytes count no more: what is left came in less
    time, and is too much for it."""
    one = throttle()
    one.record(RATE, 0)
    one.record(10 * RATE, 5_000)
    assert one.free_in_ms(5_000) == 10_000
    assert one.is_exceeded(11_000)
    assert not one.is_exceeded(15_000)


def test_windows_may_be_longer_and_fewer() -> None:
    one = Throttle(BrokerId(2), rate=RATE, samples=3, window_ms=2_000)
    one.record(2 * RATE, 0)
    assert not one.is_exceeded(0), "one window's bytes"
    one.record(20 * RATE, 1_999)
    assert one.free_in_ms(1_999) == 6_000, "all of it is of one window"
    one.record(1, 2_000)
    assert one.free_in_ms(2_000) == 5_999


@pytest.mark.parametrize("now_ms", [0, 1_700_000_000_000])
def test_with_a_rate_of_nothing_every_byte_is_too_much_at_any_time(now_ms: int) -> None:
    one = throttle(0)
    assert not one.is_exceeded(now_ms)
    one.record(1, now_ms)
    assert one.is_exceeded(now_ms + 10_999)
    assert not one.is_exceeded(now_ms + 11_000)


def test_below_the_rate_it_is_free_from_the_clocks_first_millisecond_on() -> None:
    one = throttle()
    one.record(RATE, 0)
    assert (one.is_exceeded(0), one.free_in_ms(0)) == (False, 0)
