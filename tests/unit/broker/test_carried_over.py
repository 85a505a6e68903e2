"""Which decisions of earlier lives the ring has, and the topic of decisions has not."""

from __future__ import annotations

import time

import pytest

from kavka.broker.decisions.carried_over import left_behind
from kavka.decisions import Decision, DecisionKind, RecordedDecision, encode_decision, ring_mark
from kavka.model import BrokerId

EARLIER, LAST, OWN = "1-a", "1-b", "1-c"


def line(life: str, number: int) -> bytes:
    decision = Decision(DecisionKind.BROKER_WENT, number, BrokerId(1), "because", about_broker=BrokerId(2))
    return encode_decision(RecordedDecision(f"{life}-{number}", decision))


def mark(life: str, number: int) -> bytes:
    return ring_mark(f"{life}-{number}")


def test_what_stands_behind_the_last_mark_was_left_behind() -> None:
    lines = [ring_mark(), line(LAST, 1), line(LAST, 2), mark(LAST, 1), line(LAST, 3)]
    assert left_behind(lines, OWN) == [line(LAST, 2), line(LAST, 3)]


def test_nothing_was_left_behind_where_the_last_line_was_sent() -> None:
    assert left_behind([ring_mark(), line(LAST, 1), line(LAST, 2), mark(LAST, 2)], OWN) == []


def test_without_marks_nobody_knows_what_was_sent_and_nothing_is_sent_again() -> None:
    lines = [line(EARLIER, 1), line(EARLIER, 2)]
    assert left_behind(lines, OWN) == []
    assert left_behind([*lines, ring_mark(), line(LAST, 1)], OWN) == [line(LAST, 1)]


def test_a_life_that_sent_something_had_sent_all_of_the_lives_before() -> None:
    lines = [ring_mark(), line(EARLIER, 7), ring_mark(), line(LAST, 1), mark(EARLIER, 7), mark(LAST, 1), line(LAST, 2)]
    assert left_behind(lines, OWN) == [line(LAST, 2)]
    assert left_behind(lines[:4], OWN) == [line(EARLIER, 7), line(LAST, 1)]


def test_own_decisions_are_not_carried_over() -> None:
    lines = [ring_mark(), line(LAST, 1), ring_mark(), line(OWN, 1)]
    assert left_behind(lines, OWN) == [line(LAST, 1)]
    assert left_behind([*lines, mark(OWN, 1)], OWN) == []


def test_a_mark_covers_what_is_before_it_though_its_own_decision_is_damaged() -> None:
    lines = [ring_mark(), line(LAST, 1), line(LAST, 2), b"\0" * 40, mark(LAST, 3), line(LAST, 4)]
    assert left_behind(lines, OWN) == [line(LAST, 4)]


def test_a_mark_of_what_is_not_in_the_ring_any_more_covers_nothing_that_came_later() -> None:
    lines = [ring_mark(), line(LAST, 8), mark(LAST, 5), line(LAST, 9)]
    assert left_behind(lines, OWN) == [line(LAST, 8), line(LAST, 9)]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{",
        b'{"carried":',
        b'{"carried":"',
        b'{"carried":"x',
        b'{"carried":"1-b-"}',
        b'{"version":1,"id":"',
        b"\xff",
        b'{"version":1,"id":"1-b-' + b"9" * 5_000 + b'"',
        b'{"carried":"1-b-' + b"9" * 5_000 + b'"}',
    ],
)
def test_a_damaged_line_takes_no_other_with_it(damaged: bytes) -> None:
    lines = [ring_mark(), line(LAST, 1), damaged, line(LAST, 2)]
    assert left_behind(lines, OWN) == [line(LAST, 1), line(LAST, 2)]


def test_many_marks_of_what_is_not_in_the_ring_any_more_cost_little() -> None:
    """A walk over all lines for each would take half a minute, in which the broker answers nobody."""
    lines = [ring_mark(), *(line(LAST, number) for number in range(10_000))]
    began = time.process_time()
    left = left_behind([*lines, *(mark(EARLIER, number) for number in range(10_000))], OWN)
    assert len(left) == 10_000
    assert time.process_time() - began < 5
