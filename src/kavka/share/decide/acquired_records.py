"""How much of what was read a member is given, and how it is told.

Source: Kafka's SharePartition; KIP-1206 for the modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.model import Offset


class LogBatch(NamedTuple):
    """A batch of records as the log has it. `is_aborted`: of a transaction that was, where the group reads committed
    records only."""

    first: Offset
    last: Offset
    is_aborted: bool = False


class Wish(NamedTuple):
    """What a fetch asks for. `is_exact`: never more than `max_records` (mode record_limit); otherwise batches are given
    whole (batch_optimized). Ranges are told in pieces of at most `batch_size`, where that is above 0."""

    max_records: int
    batch_size: int = 0
    is_exact: bool = False


class Acquired(NamedTuple):
    """Records that a member was given, delivered for the `deliveries`-th time."""

    first: Offset
    last: Offset
    deliveries: int


def isolation_from(limit: int) -> int:
    """The delivery count from which records are given in smaller and smaller pieces."""
    return max(2, (limit + 1) // 2)


def piece_size(size: int, count: int, limit: int) -> int:
    """How many of `size` records that failed together, delivered `count` times, are given at once. A record that makes
    its members fail so takes fewer and fewer others with it, and none in its last attempt. `size` is that of the whole,
    although part of it may be done: once the bad half of a batch is found, the other half goes out in one piece."""
    if count >= limit - 1:
        return 1
    return max(1, size >> (count - isolation_from(limit) + 1))


def told(pieces: Sequence[Acquired], batch_size: int) -> list[Acquired]:
    """The pieces as a member gets them: neighbours with the same count are joined, up to `batch_size`."""
    joined: list[Acquired] = []
    for piece in pieces:
        if joined:
            before = joined[-1]
            size = piece.last - before.first + 1
            is_next = before.last + 1 == piece.first and before.deliveries == piece.deliveries
            if is_next and (batch_size <= 0 or size <= batch_size):
                joined[-1] = before._replace(last=piece.last)
                continue
        joined.append(piece)
    return joined
