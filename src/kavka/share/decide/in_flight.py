"""InFlight: what a share group has done with the records of one partition, as an administrator sees it.

Decides how many runs are told: the first ones, which hold up the start offset. Must not know who asks, or how it is
sent. Kafka has no such question: its AdminClient tells the start offset and the lag of a group, and no lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from kavka.model import Offset
from kavka.share.decide.share_partition import SharePartition
from kavka.share.decide.spans import RecordState


class Run(NamedTuple):
    """Offsets `first` to `last`, all in the same state. `being_written`: what they become once that is stored, None
    where nothing is. `lock_left_ms` is None unless a member has them, and 0 where its lock is about to be noticed as
    over."""

    first: Offset
    last: Offset
    state: RecordState
    being_written: RecordState | None
    deliveries: int
    member_id: str
    lock_left_ms: int | None


class InFlight(NamedTuple):
    """`start` is the first offset that may still be delivered, `end` one past the last that was. Of `run_count` runs
    the first are in `runs`; `records` counts those between start and end that are not done."""

    start: Offset
    end: Offset
    records: int
    run_count: int
    runs: tuple[Run, ...]


def look(records: SharePartition, now_ms: int, most_runs: int) -> InFlight:
    """As it is now, by the clock of locks."""
    runs = tuple(islice(_runs(records, now_ms), most_runs))
    return InFlight(records.start, records.end, records.in_flight, len(records.spans), runs)


def _runs(records: SharePartition, now_ms: int) -> Iterator[Run]:
    for span in records.spans:
        is_held = span.state is RecordState.ACQUIRED
        yield Run(
            span.first,
            span.last,
            span.state,
            span.becomes,
            span.deliveries,
            span.member if is_held else "",
            max(span.deadline_ms - now_ms, 0) if is_held else None,
        )
