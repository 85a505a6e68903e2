"""What leaders recorded of their followers' fetches, as a trace that policies are asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.flight.format import (
    CHECK,
    CHECK_FIELDS,
    FETCH,
    FETCH_FIELDS,
    FLIGHT_FILES,
    REFUSED,
    REPEATED,
    encode_block,
    encode_fact,
)
from kavka.flight.ring_reader import find_rings
from kavka.model import TopicPartition
from kavka.studies.lag_flight import REPEATED_MS, fetch_trace
from kavka.studies.lag_outcome import Choice
from kavka.studies.lag_policy import replay

ORDERS = TopicPartition("orders", 0)


class Ring:
    """One broker's recording, written by hand."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / name / FLIGHT_FILES[1]
        self._path.parent.mkdir(parents=True)
        self._entries = bytearray()
        self.fact(f="life", broker=1)
        self.fact(f="partition", p=1, topic="orders", partition=0)

    def fact(self, **fields: object) -> None:
        self._entries += encode_fact(fields)

    def fetch(self, broker_id: int, at_ms: int, offset: int, end: int, flags: int = 0) -> None:
        self._entries += FETCH_FIELDS.pack(FETCH, 1, broker_id, at_ms, offset, end, 0, 7, 0, flags)

    def check(self, at_ms: int, end: int) -> None:
        self._entries += CHECK_FIELDS.pack(CHECK, 1, at_ms, end, 0, 0)

    def write(self, *, clock_ms: int = 0) -> None:
        """What came since the last block, as a block that was written at `clock_ms` by the broker's own clock."""
        with self._path.open("ab") as file:
            file.write(encode_block(self._entries, 1_000_000, clock_ms))
        self._entries.clear()


def told(directory: Path, *followers: int) -> list[tuple[int, int, int]]:
    """Of the leader and of these."""
    trace = fetch_trace(find_rings([str(directory)]))
    return [(each.at_ms, each.follower, each.amount) for each in trace if each.follower in (1, *followers)]


def test_followers_get_the_names_of_a_trace_and_appends_are_told_when_the_leader_was_seen_with_them(
    tmp_path: Path,
) -> None:
    ring = Ring(tmp_path, "broker-5")
    ring.fetch(7, 100, offset=40, end=40)
    ring.fetch(9, 110, offset=40, end=40)
    ring.fetch(7, 600, offset=40, end=45)
    ring.check(900, end=48)
    ring.fetch(9, 1_000, offset=48, end=48)
    ring.write()

    assert told(tmp_path, 2, 3) == [
        (0, 2, 0),
        (10, 3, 0),
        (500, 1, 5),
        (500, 2, 0),
        (800, 1, 3),
        (900, 3, 8),
    ]


def test_fetches_that_were_all_the_same_are_had_again(tmp_path: Path) -> None:
    ring = Ring(tmp_path, "broker-5")
    ring.fetch(7, 0, offset=4, end=4)
    ring.fetch(7, 1_700, offset=4, end=4, flags=REPEATED)
    ring.write()

    assert told(tmp_path, 2) == [(at_ms, 2, 0) for at_ms in (0, REPEATED_MS, 2 * REPEATED_MS, 3 * REPEATED_MS, 1_700)]


def test_what_was_refused_tells_nothing_and_of_two_leaderships_the_one_with_more_fetches_is_taken(
    tmp_path: Path,
) -> None:
    short, long = Ring(tmp_path, "broker-5"), Ring(tmp_path, "broker-6")
    short.fetch(7, 0, offset=0, end=0)
    short.fetch(7, 50, offset=0, end=9, flags=REFUSED)
    short.fact(f="follow", p=1, at=60)
    for at_ms in (200, 300):
        long.fetch(5, at_ms, offset=10, end=10)
    short.write()
    long.write()

    assert told(tmp_path, 2) == [(0, 2, 0), (100, 2, 0)]


def test_a_leadership_goes_on_where_the_ring_begins_another_file(tmp_path: Path) -> None:
    ring = Ring(tmp_path, "broker-5")
    ring.fetch(7, 0, offset=0, end=0)
    ring.fact(f="life", broker=1, again=True)
    ring.fetch(7, 100, offset=0, end=3)
    ring.write()

    assert told(tmp_path, 2) == [(0, 2, 0), (100, 1, 3), (100, 2, 0)]


def test_with_two_replicas_nobody_minds_the_follower_that_is_not_there(tmp_path: Path) -> None:
    ring = Ring(tmp_path, "broker-5")
    for second in range(60):
        ring.fetch(7, 1_000 * second, offset=7 * second, end=7 * second)
    ring.write()

    trace = fetch_trace(find_rings([str(tmp_path)]))

    assert replay(trace, Choice("time", 3_000)).false_alarms == 0
    assert replay(trace, Choice("messages", 3_000, 100)).false_alarms == 0


@pytest.mark.parametrize(("limit", "alarms"), [(4, True), (5_000, False)])
def test_policies_are_asked_at_moments_in_which_nobody_was_thrown_out(
    tmp_path: Path, limit: int, *, alarms: bool
) -> None:
    ring = Ring(tmp_path, "broker-5")
    for second in range(60):
        # follower 9 is most of a second behind the other, five records at a time.
        ring.fetch(7, 1_000 * second, offset=5 * second, end=5 * second)
        ring.fetch(9, 1_000 * second + 900, offset=5 * second, end=5 * second)
        ring.fetch(7, 1_000 * second + 950, offset=5 * second, end=5 * second + 5)
    ring.write()

    outcome = replay(fetch_trace(find_rings([str(tmp_path)])), Choice("messages", 2_200, limit))

    assert (outcome.false_alarms > 0) is alarms


def test_a_directory_without_recordings_tells_nothing(tmp_path: Path) -> None:
    assert told(tmp_path) == []


def test_a_clock_that_is_read_otherwise_in_the_next_block_puts_no_fetch_before_its_append(tmp_path: Path) -> None:
    """Each block says how far the wall clock is ahead, rounded: the next one may be a millisecond less."""
    ring = Ring(tmp_path, "broker-5")
    ring.fetch(7, 0, offset=0, end=0)
    ring.check(100, end=1)
    ring.write()
    ring.fetch(7, 100, offset=1, end=1)
    ring.check(101, end=3)
    ring.fetch(9, 101, offset=2, end=3)
    ring.write(clock_ms=2)

    assert told(tmp_path, 2, 3) == [(0, 2, 0), (100, 1, 1), (100, 2, 1), (100, 1, 2), (100, 3, 2)]
    outcome = replay(fetch_trace(find_rings([str(tmp_path)])), Choice("time", 3_000))
    assert outcome.writes == 2
