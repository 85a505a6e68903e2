"""What is stored of offsets, with what a later write says of some of them.

    I1  per offset the later one wins
    I2  the result is in order, without overlaps; neighbours differ in state or count
    I3  nothing lies below the start offset

Source: Kafka's PersisterStateBatchCombiner.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter

from kavka.model import Offset, StateBatch


def combined(stored: Sequence[StateBatch], newer: Iterable[StateBatch], start: Offset) -> tuple[StateBatch, ...]:
    """`stored` with `newer` over it, from `start` on (-1: not known)."""
    joined: list[StateBatch] = []
    for batch in _over(stored, _laid_out(list(newer))):
        if batch.last_offset < start:
            continue
        if batch.first_offset < start:
            batch = batch._replace(first_offset=start)
        before = joined[-1] if joined else None
        if before is not None and before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
            joined[-1] = before._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return tuple(joined)


def _laid_out(newer: list[StateBatch]) -> list[StateBatch]:
    """In order and without overlaps. A leader's are; those of a request may be anything, and so many that to lay one
    over the other would take the square of their number."""
    if all(before.last_offset < after.first_offset for before, after in pairwise(newer)):
        return newer
    found: list[StateBatch] = []
    taken: list[tuple[Offset, Offset]] = []  # by later batches, in order and without overlaps
    for batch in reversed(newer):
        position, (first, last) = batch.first_offset, batch[:2]
        low = high = bisect_left(taken, first, key=itemgetter(1))
        while high < len(taken) and taken[high][0] <= last:
            if position < taken[high][0]:
                found.append(batch._replace(first_offset=position, last_offset=taken[high][0] - 1))
            position = taken[high][1] + 1
            high += 1
        if position <= last:
            found.append(batch._replace(first_offset=position))
        if low < high:
            first, last = min(first, taken[low][0]), max(last, taken[high - 1][1])
        taken[low:high] = [(first, last)]
    return sorted(found)


def _over(under: Sequence[StateBatch], layer: list[StateBatch]) -> list[StateBatch]:
    """`layer`, which is in order and does not overlap, over `under`, which is so too."""
    left: list[StateBatch] = []
    position = 0
    for batch in under:
        first = batch.first_offset
        while position < len(layer) and layer[position].last_offset < first:
            position += 1
        index = position
        while first <= batch.last_offset and index < len(layer) and layer[index].first_offset <= batch.last_offset:
            if first < layer[index].first_offset:
                left.append(batch._replace(first_offset=first, last_offset=layer[index].first_offset - 1))
            first = layer[index].last_offset + 1
            index += 1
        if first <= batch.last_offset:
            left.append(batch._replace(first_offset=first))
    return sorted([*left, *layer])
