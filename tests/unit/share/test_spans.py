"""Runs of equal state: where they are cut and joined, what is told of some offsets, and which locks are over."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest

from kavka.share.decide.acquired_records import Acquired, LogBatch, Wish, isolation_from, piece_size, told
from kavka.share.decide.acquisition_lock import first_lock_end_ms, last_lock_end_ms, lock_end_ms, locks_over
from kavka.share.decide.spans import TERMINAL, RecordState, Span, Spans

FREE, HELD, DONE, GONE = (
    RecordState.AVAILABLE,
    RecordState.ACQUIRED,
    RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVED,
)


def spans(start: int, *several: Span) -> Spans:
    made = Spans(start)
    for span in several:
        made.append(span)
    return made


def runs(of: Iterable[Span]) -> list[tuple[int, int, RecordState]]:
    return [(span.first, span.last, span.state) for span in of]


def test_states_have_kafkas_numbers() -> None:
    assert [state.value for state in (FREE, HELD, DONE, GONE)] == [0, 1, 2, 4]
    assert RecordState.ARCHIVING.value == 3
    assert TERMINAL == (DONE, GONE)


@pytest.mark.parametrize(
    ("state", "becomes", "is_free", "is_held", "will_be"),
    [
        (FREE, None, True, False, FREE),
        (FREE, GONE, False, False, GONE),
        (HELD, None, False, True, HELD),
        (HELD, DONE, False, False, DONE),
        (DONE, None, False, False, DONE),
        (HELD, FREE, False, False, FREE),
    ],
)
def test_what_is_being_written_is_nobodys(
    state: RecordState, becomes: RecordState | None, is_free: bool, is_held: bool, will_be: RecordState
) -> None:
    span = Span(3, 5, state, becomes=becomes)
    assert (span.size, span.is_free, span.is_held, span.will_be) == (3, is_free, is_held, will_be)


def test_a_new_span_was_never_delivered_and_is_nobodys() -> None:
    new = Span(0, 0, FREE)
    assert new == (0, 0, FREE, 0, "", 0, None, 0, False)
    assert new.size == 1


def test_equal_neighbours_are_one_run_and_a_hole_is_a_mistake() -> None:
    of = spans(5, Span(5, 6, FREE), Span(7, 7, FREE), Span(8, 9, FREE, 1), Span(10, 10, HELD, 1))
    assert runs(of) == [(5, 7, FREE), (8, 9, FREE), (10, 10, HELD)]
    assert (len(of), of.start, of.end) == (3, 5, 11)
    for first in (10, 12):
        with pytest.raises(AssertionError):
            of.append(Span(first, 13, FREE))
    assert (spans(5).end, len(spans(5))) == (5, 0)


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (5, 10, [(5, 7, FREE), (8, 9, HELD), (10, 10, DONE)]),
        (0, 99, [(5, 7, FREE), (8, 9, HELD), (10, 10, DONE)]),
        (6, 8, [(6, 7, FREE), (8, 8, HELD)]),
        (7, 7, [(7, 7, FREE)]),
        (8, 9, [(8, 9, HELD)]),
        (9, 10, [(9, 9, HELD), (10, 10, DONE)]),
        (0, 5, [(5, 5, FREE)]),
        (0, 4, []),
        (10, 10, [(10, 10, DONE)]),
        (11, 20, []),
    ],
)
def test_what_is_known_of_offsets_is_cut_to_them(
    first: int, last: int, found: list[tuple[int, int, RecordState]]
) -> None:
    of = spans(5, Span(5, 7, FREE), Span(8, 9, HELD), Span(10, 10, DONE))
    assert runs(of.within(first, last)) == found


def test_the_run_of_an_offset_is_the_whole_one() -> None:
    of = spans(5, Span(5, 7, FREE), Span(8, 9, HELD), Span(10, 10, DONE))
    assert [runs([of.run_of(offset)])[0][:2] for offset in (5, 6, 7, 8, 9, 10)] == [
        (5, 7),
        (5, 7),
        (5, 7),
        (8, 9),
        (8, 9),
        (10, 10),
    ]


def test_spans_are_a_state_for_each_offset() -> None:
    """Any changes, against one state per offset: the same states, in runs without holes or equal neighbours."""
    for seed in range(300):
        drawn = random.Random(seed)
        start = drawn.randint(0, 3)
        of, model = Spans(start), {}
        for _ in range(drawn.randint(1, 25)):
            choice = drawn.random()
            state = drawn.choice((FREE, HELD, DONE))
            if not model or choice < 0.3:
                size = drawn.randint(1, 4)
                model.update(dict.fromkeys(range(of.end, of.end + size), state))
                of.append(Span(of.end, of.end + size - 1, state))
            elif choice < 0.8:
                first = drawn.choice(list(model))
                last = drawn.randint(first, of.end - 1)
                seen: list[Span] = []

                def new(span: Span, state: RecordState = state, seen: list[Span] = seen) -> Span:
                    seen.append(span)
                    return span._replace(state=state)

                of.change(first, last, new)
                assert [offset for span in seen for offset in range(span.first, span.last + 1)] == [
                    *range(first, last + 1)
                ]
                assert all({model[offset] for offset in range(s.first, s.last + 1)} == {s.state} for s in seen)
                model.update(dict.fromkeys(range(first, last + 1), state))
            elif choice < 0.9:
                of.change_all(lambda span: span._replace(state=GONE) if span.state is DONE else span)
                model = {offset: GONE if known is DONE else known for offset, known in model.items()}
            else:
                bound = drawn.randint(of.start - 1, of.end)
                of.drop_below(bound)
                model = {offset: known for offset, known in model.items() if offset >= bound}
                assert of.start == max(bound, start)
                start = of.start
            found = list(of)
            assert {o: s.state for s in found for o in range(s.first, s.last + 1)} == model, seed
            assert all(one.last + 1 == two.first and one.state != two.state for one, two in pairwise(found))
            assert not found or found[0].first == of.start
            assert of.end == (max(model) + 1 if model else of.start)


def test_below_all_that_is_known_nothing_is_left_and_the_start_is_there() -> None:
    of = spans(5, Span(5, 7, FREE))
    of.drop_below(5)
    assert runs(of) == [(5, 7, FREE)]
    of.drop_below(20)
    assert (runs(of), of.start, of.end) == ([], 20, 20)
    of.drop_below(10)
    assert of.start == 20


# -- locks


def test_a_lock_is_over_when_its_end_has_come_unless_its_record_is_being_written() -> None:
    held = [
        Span(0, 0, HELD, deadline_ms=100),
        Span(1, 1, HELD, deadline_ms=90, becomes=DONE),
        Span(2, 2, FREE, deadline_ms=80),
        Span(3, 3, HELD, deadline_ms=200),
    ]
    assert [span.first for span in locks_over(held, 99)] == []
    assert [span.first for span in locks_over(held, 100)] == [0]
    assert (first_lock_end_ms(held), last_lock_end_ms(held)) == (100, 200)
    assert (first_lock_end_ms(held[1:3]), last_lock_end_ms(held[1:3])) == (None, None)
    assert lock_end_ms(100, 30) == 130


# -- how much a member is given


@pytest.mark.parametrize(("limit", "isolated"), [(1, 2), (2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (10, 5)])
def test_records_are_isolated_from_the_second_half_of_their_attempts_on(limit: int, isolated: int) -> None:
    """As Kafka: ceil(limit / 2), and not before the second delivery."""
    assert isolation_from(limit) == isolated


@pytest.mark.parametrize(("count", "size"), [(5, 250), (6, 125), (7, 62), (8, 31), (9, 1), (10, 1)])
def test_pieces_are_half_as_large_with_each_attempt_and_at_last_one_record(count: int, size: int) -> None:
    assert piece_size(500, count, 10) == size


def test_a_piece_has_a_record_at_least() -> None:
    assert piece_size(3, 7, 10) == 1
    assert piece_size(2, 2, 4) == 1
    assert [piece_size(500, count, 6) for count in (3, 4, 5)] == [250, 125, 1], "Kafka's own example"


@pytest.mark.parametrize(
    ("batch_size", "expected"),
    [
        (0, [(0, 5, 1), (6, 6, 2), (8, 9, 2)]),
        (-1, [(0, 5, 1), (6, 6, 2), (8, 9, 2)]),
        (6, [(0, 5, 1), (6, 6, 2), (8, 9, 2)]),
        (5, [(0, 3, 1), (4, 5, 1), (6, 6, 2), (8, 9, 2)]),
        (4, [(0, 3, 1), (4, 5, 1), (6, 6, 2), (8, 9, 2)]),
        (1, [(0, 1, 1), (2, 3, 1), (4, 5, 1), (6, 6, 2), (8, 9, 2)]),
    ],
)
def test_neighbours_with_the_same_count_are_told_as_one(batch_size: int, expected: list[tuple[int, int, int]]) -> None:
    pieces = [Acquired(0, 1, 1), Acquired(2, 3, 1), Acquired(4, 5, 1), Acquired(6, 6, 2), Acquired(8, 9, 2)]
    assert told(pieces, batch_size) == expected
    assert told([], batch_size) == []


def test_a_wish_and_a_batch_are_the_usual_ones_unless_said_otherwise() -> None:
    assert Wish(5) == (5, 0, False)
    assert told([Acquired(0, 1, 1), Acquired(2, 9, 1)], Wish(5).batch_size) == [(0, 9, 1)], "in one piece"
    assert LogBatch(0, 1) == (0, 1, False)
