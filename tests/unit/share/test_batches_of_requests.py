"""Batches as a request may bring them: over one another, in any order. What is stored has none that is empty."""

from __future__ import annotations

from itertools import product

import pytest

from kavka.coordinator.share_state.decide.batches import combined
from kavka.model import StateBatch

DONE, FREE = 2, 0
RANGES = [(first, last) for first in range(1, 5) for last in range(first, 5)]


@pytest.mark.parametrize(
    ("newer", "expected"),
    [
        ([(3, 5, DONE), (3, 9, FREE)], [(3, 9, FREE)]),
        ([(3, 9, DONE), (3, 5, FREE)], [(3, 5, FREE), (6, 9, DONE)]),
        ([(3, 9, DONE), (7, 9, FREE)], [(3, 6, DONE), (7, 9, FREE)]),
        ([(3, 9, DONE), (3, 9, FREE)], [(3, 9, FREE)]),
        ([(3, 9, DONE), (3, 4, FREE), (5, 6, FREE)], [(3, 6, FREE), (7, 9, DONE)]),
        ([(3, 9, DONE), (5, 6, FREE), (3, 4, FREE)], [(3, 6, FREE), (7, 9, DONE)]),
    ],
)
def test_the_later_one_of_a_request_lies_over_the_earlier(
    newer: list[tuple[int, int, int]], expected: list[tuple[int, int, int]]
) -> None:
    found = combined((), [StateBatch(*each, 1) for each in newer], -1)
    assert [batch[:3] for batch in found] == expected


@pytest.mark.parametrize("is_stored", [False, True], ids=["in one request", "one after the other"])
def test_no_two_batches_leave_one_that_is_empty(*, is_stored: bool) -> None:
    for one, other in product(RANGES, RANGES):
        first, second = [StateBatch(*one, DONE, 1)], [StateBatch(*other, FREE, 1)]
        found = combined(first, second, -1) if is_stored else combined((), [*first, *second], -1)
        told = [(offset, batch.state) for batch in found for offset in range(batch.first_offset, batch.last_offset + 1)]
        covered = dict.fromkeys(range(one[0], one[1] + 1), DONE)
        covered |= dict.fromkeys(range(other[0], other[1] + 1), FREE)
        assert told == sorted(covered.items())
        assert all(batch.first_offset <= batch.last_offset for batch in found), (one, other, found)
