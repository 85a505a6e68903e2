"""How long an address that guesses has to wait, by hand and for any order of failures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security.failed_login_delay import FIRST_DELAY_MS, MAX_ADDRESSES, Guessing, group_of

HOST, LISTENER = "10.0.0.1", "CLIENTS"
FREE, LONGEST_MS = 20, 10_000


def fail(guessing: Guessing, times: int, now_ms: int = 0, host: str = HOST) -> list[int]:
    return [guessing.on_failure(host, LISTENER, now_ms) for _ in range(times)]


def test_twenty_failures_are_free_and_then_the_delay_doubles_to_ten_seconds() -> None:
    guessing = Guessing(FREE, LONGEST_MS)
    assert fail(guessing, FREE) == [0] * FREE
    assert guessing.wait_ms(HOST, LISTENER, 0) == 0
    assert fail(guessing, 10) == [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]
    assert guessing.wait_ms(HOST, LISTENER, 0) == 10_000
    assert guessing.wait_ms(HOST, LISTENER, 9_999) == 1
    assert guessing.wait_ms(HOST, LISTENER, 10_000) == 0


def test_who_stops_for_a_minute_and_a_half_has_all_its_free_failures_again() -> None:
    guessing = Guessing(FREE, LONGEST_MS)
    fail(guessing, 500)
    assert fail(guessing, FREE, 90_000) == [0] * FREE


def test_a_failure_every_three_seconds_is_free_for_ever() -> None:
    guessing = Guessing(FREE, LONGEST_MS)
    assert not any(guessing.on_failure(HOST, LISTENER, 3_000 * number) for number in range(1_000))


def test_other_addresses_and_other_listeners_do_not_wait() -> None:
    guessing = Guessing(FREE, LONGEST_MS)
    fail(guessing, 100)
    assert guessing.wait_ms("10.0.0.2", LISTENER, 0) == 0
    assert guessing.wait_ms(HOST, "BROKERS", 0) == 0
    assert guessing.on_failure(HOST, "BROKERS", 0) == 0


def test_nobody_waits_where_it_is_switched_off() -> None:
    guessing = Guessing(0, LONGEST_MS)
    assert fail(guessing, 100) == [0] * 100
    assert guessing.wait_ms(HOST, LISTENER, 0) == 0
    assert len(guessing) == 0


def test_a_shorter_longest_delay_is_kept_to() -> None:
    assert max(fail(Guessing(1, 100), 20)) == 100
    assert fail(Guessing(1, 250), 6) == [0, 100, 200, 250, 250, 250]


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not-an-address", "not-an-address"),
    ],
)
def test_an_address_counts_alone_and_of_ipv6_its_network(host: str, group: str) -> None:
    assert group_of(host) == group


def test_a_machine_does_not_get_free_failures_for_each_of_its_addresses() -> None:
    guessing = Guessing(FREE, LONGEST_MS)
    for number in range(FREE):
        assert guessing.on_failure(f"2001:db8::{number:x}", LISTENER, 0) == 0
    assert guessing.on_failure("2001:db8::ffff", LISTENER, 0) == FIRST_DELAY_MS
    assert guessing.wait_ms("2001:db8::abcd", LISTENER, 0) == FIRST_DELAY_MS


def test_ten_thousand_addresses_are_remembered_and_the_oldest_is_forgotten() -> None:
    guessing = Guessing(1, LONGEST_MS)
    for number in range(MAX_ADDRESSES):
        guessing.on_failure(f"host-{number}", LISTENER, number)
    guessing.on_failure("host-0", LISTENER, MAX_ADDRESSES)  # Now host-1 is the one that failed longest ago.
    assert len(guessing) == MAX_ADDRESSES
    guessing.on_failure("new", LISTENER, MAX_ADDRESSES)
    assert len(guessing) == MAX_ADDRESSES
    assert guessing.wait_ms("host-0", LISTENER, MAX_ADDRESSES) > 0
    assert guessing.on_failure("host-1", LISTENER, MAX_ADDRESSES) == 0


@given(st.lists(st.integers(0, 30_000), max_size=80), st.integers(1, 50), st.integers(100, 60_000))
def test_who_waits_as_told_never_has_more_than_its_share(pauses: list[int], free: int, longest_ms: int) -> None:
    """Bounded in every span of time, whatever else the address waits of its own accord."""
    guessing, now_ms, times = Guessing(free, longest_ms), 0, []
    for pause_ms in pauses:
        now_ms += pause_ms // 20
        now_ms += guessing.wait_ms(HOST, LISTENER, now_ms)
        times.append(now_ms)
        delay_ms = guessing.on_failure(HOST, LISTENER, now_ms)
        assert delay_ms == 0 or min(FIRST_DELAY_MS, longest_ms) <= delay_ms <= longest_ms
    longest_steps = 12
    """More doublings than 60 s take from 100 ms."""
    for first, start_ms in enumerate(times):
        for last in range(first, len(times)):
            span_ms = times[last] - start_ms
            allowed = free + longest_steps + span_ms * free / 60_000 + span_ms / longest_ms
            assert last - first <= allowed


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5_000)), max_size=100))
def test_the_wait_of_one_address_does_not_depend_on_the_others(failures: list[tuple[str, int]]) -> None:
    together, alone = Guessing(3, 5_000), Guessing(3, 5_000)
    now_ms = 0
    for host, pause_ms in failures:
        now_ms += pause_ms
        told = together.on_failure(host, LISTENER, now_ms)
        if host == "a":
            assert told == alone.on_failure(host, LISTENER, now_ms)
        assert together.wait_ms("a", LISTENER, now_ms) == alone.wait_ms("a", LISTENER, now_ms)
