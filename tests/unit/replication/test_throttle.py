"""How many bytes a second replication may move for the replicas that an operator named."""

from __future__ import annotations

import pytest

from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.throttle import NO_LIMIT, Throttle

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
