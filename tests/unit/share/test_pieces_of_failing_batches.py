"""In which pieces records are given out that fail again and again: a bad one takes few with it, in few fetches.

The sizes for one batch are those that Apache Kafka 4.3.1 gave Java's KafkaShareConsumer.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kavka.share.decide.acquired_records import Acquired, LogBatch, Wish, told
from kavka.share.decide.share_partition import Acknowledgement, AcknowledgeType, ShareLimits, SharePartition

BAD = 17
NOW_MS = 0
ALL = Wish(500)


def pieces(batches: Sequence[LogBatch], *, limit: int, wish: Wish = ALL) -> list[tuple[int, int, int]]:
    """What one member is given until nothing is left. It releases what it got with record BAD, and accepts the rest."""
    partition, limits = SharePartition(0), ShareLimits(limit, 30_000, 2_000)
    given: list[tuple[int, int, int]] = []
    while found := partition.acquire(
        "a", [batch for batch in batches if batch.last >= partition.next_fetch_offset], wish, NOW_MS, limits
    ):
        given += [(first, last, count) for first, last, count in found]
        is_bad = any(piece.first <= BAD <= piece.last for piece in found)
        kind = AcknowledgeType.RELEASE if is_bad else AcknowledgeType.ACCEPT
        partition.acknowledge("a", [Acknowledgement(first, last, [kind]) for first, last, _ in found], NOW_MS, limits)
        partition.settle(partition.take_write(), is_committed=True)
    assert partition.start == batches[-1].last + 1, "something is left"
    return given


def test_a_batch_of_40_is_halved_and_its_last_attempts_are_alone_as_in_kafka() -> None:
    alone = [(offset, offset, 5) for offset in range(20)]
    whole = [(0, 39, 1), (0, 39, 2), (0, 39, 3)]
    assert pieces([LogBatch(0, 39)], limit=5) == [*whole, (0, 19, 4), *alone, (20, 39, 4)]


def test_with_three_deliveries_only_the_last_one_is_alone() -> None:
    alone = [(offset, offset, 3) for offset in range(40)]
    assert pieces([LogBatch(0, 39)], limit=3) == [(0, 39, 1), (0, 39, 2), *alone]


def test_with_two_deliveries_nothing_is_alone() -> None:
    assert pieces([LogBatch(0, 39)], limit=2) == [(0, 39, 1), (0, 39, 2)]


@pytest.mark.parametrize("size", [1, 3])
def test_small_batches_that_failed_together_are_halved_together(size: int) -> None:
    """A producer that does not wait writes batches of one record. Alone, each of 500 would take a fetch of its own."""
    batches = [LogBatch(first, first + size - 1) for first in range(0, 120, size)]
    given = pieces(batches, limit=10)
    assert given[:5] == [(0, 119, count) for count in range(1, 6)]
    assert given[5] == (0, 59, 6)
    good = [piece for piece in given if not piece[0] <= BAD <= piece[1]]
    assert max(count for first, last, count in given if first <= BAD <= last) == 10
    assert len(given) < 50, "a fetch for almost every other record"
    assert sum(last - first + 1 for first, last, _ in good) == 119, "each good record is accepted once"


def test_a_piece_ends_before_records_that_have_not_failed() -> None:
    """They would take the blame for the one that makes members fail."""
    partition, limits = SharePartition(0), ShareLimits(5, 30_000, 2_000)
    for _ in range(3):
        partition.acquire("a", [LogBatch(0, 4)], Wish(5), NOW_MS, limits)
        partition.acknowledge("a", [Acknowledgement(0, 4, [AcknowledgeType.RELEASE])], NOW_MS, limits)
        partition.settle(partition.take_write(), is_committed=True)
    given = partition.acquire("a", [LogBatch(0, 4), LogBatch(5, 9)], ALL, NOW_MS, limits)
    assert given == [(0, 1, 4)]
    given = partition.acquire("b", [LogBatch(0, 4), LogBatch(5, 9)], ALL, NOW_MS, limits)
    assert given == [(2, 3, 4)]
    assert partition.acquire("b", [LogBatch(0, 4), LogBatch(5, 9)], ALL, NOW_MS, limits) == [(4, 4, 4)]
    assert partition.acquire("b", [LogBatch(5, 9)], ALL, NOW_MS, limits) == [(5, 9, 1)]


def test_a_limit_of_records_holds_for_a_piece() -> None:
    given = pieces([LogBatch(0, 39)], limit=5, wish=Wish(7, is_exact=True))
    assert max(last - first + 1 for first, last, _ in given) == 7


def test_neighbours_are_told_as_one_wherever_they_lie() -> None:
    pieces = [Acquired(10, 10, 1), Acquired(11, 12, 2), Acquired(13, 14, 2), Acquired(15, 15, 2), Acquired(17, 17, 2)]
    assert told(pieces, 0) == [(10, 10, 1), (11, 15, 2), (17, 17, 2)]
    assert told(pieces, 4) == [(10, 10, 1), (11, 14, 2), (15, 15, 2), (17, 17, 2)]
    assert told(pieces, 3) == [(10, 10, 1), (11, 12, 2), (13, 15, 2), (17, 17, 2)]
