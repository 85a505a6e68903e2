"""What is stored of offsets, with what a later write says of some of them.

    I1  per offset the later one wins
    I2  the result is in order, without overlaps; neighbours differ in state or count
    I3  nothing lies below the start offset

Source: Kafka's PersisterStateBatchCombiner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kavka.model import Offset, StateBatch


def combined(stored: Sequence[StateBatch], newer: Iterable[StateBatch], start: Offset) -> tuple[StateBatch, ...]:
    """`stored` with `newer` over it, from `start` on (-1: not known)."""
    under = list(stored)
    layer: list[StateBatch] = []
    for batch in newer:
        if layer and batch.first_offset <= layer[-1].last_offset:
            under, layer = _over(under, layer), []
        layer.append(batch)
    under = _over(under, layer)
    joined: list[StateBatch] = []
    for batch in under:
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


def _over(under: list[StateBatch], layer: list[StateBatch]) -> list[StateBatch]:
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
