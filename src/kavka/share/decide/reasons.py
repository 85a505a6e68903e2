"""Why a share group is given records again, and why others are not given out any more: the why-records of its leaders.

Decides the sentence of what a change does, and how often one is told: one for a share-partition and a cause each
second, with what was not told before. Must not know the log, the coordinator, or who reads it.

What a member accepts leaves no record, nor does an offset at which there is none (a gap). What a former leader had
given out is given out again without one: locks are not stored, so nobody knows of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Final, NamedTuple, assert_never

from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId, LeaderEpoch, TopicPartition
from kavka.share.decide.spans import RecordState, Span

PAUSE_MS: Final = 1_000
"""How long after a cause was told it is only counted."""
MOST_MEMBERS: Final = 4
"""How many members a record names."""


class Cause(Enum):
    """Why records left their member, as the sentence says it."""

    LOCK_OVER = "the lock ran out"
    SESSION_OVER = "the member's share session ended"
    SAID = "released by a member"


REJECTED: Final = "rejected by a member"
"""Instead of a cause: a member said that nobody should get the record."""


class Place(NamedTuple):
    """The share-partition that a why-record is about. `limit` is how often a record is delivered."""

    broker_id: BrokerId
    group_id: str
    partition: TopicPartition
    leader_epoch: LeaderEpoch
    limit: int


class Fate(Enum):
    """What becomes of records that leave their members."""

    AGAIN = "given out again"
    LIMIT = "delivered as often as they may be"
    REJECTED = "rejected"


class Telling:
    """What was recorded of one share-partition."""

    def __init__(self) -> None:
        self._told_ms: dict[Hashable, int] = {}
        self._untold: dict[Hashable, int] = {}

    def turn(self, what: Hashable, count: int, now_ms: int) -> int | None:
        """How many of these were not told before; None where these `count` are not told now either."""
        told_ms = self._told_ms.get(what)
        if told_ms is not None and now_ms - told_ms < PAUSE_MS:
            self._untold[what] = self._untold.get(what, 0) + count
            return None
        self._told_ms[what] = now_ms
        return self._untold.pop(what, 0)

    def of(self, place: Place, cause: Cause, left: Sequence[Span], now_ms: int, at_ms: int) -> list[Decision]:
        """Of spans that leave their members; `now_ms` is the clock that never jumps, `at_ms` the wall's."""
        fates: dict[Fate, list[Span]] = {}
        for span in left:
            fate = _fate(span, place.limit)
            if fate is not None:
                fates.setdefault(fate, []).append(span)
        decisions = []
        for fate, spans in fates.items():
            untold = self.turn((cause, fate), sum(span.size for span in spans), now_ms)
            if untold is not None:
                decisions.append(_decision(place, cause, fate, spans, at_ms, untold))
        return decisions


def _fate(span: Span, limit: int) -> Fate | None:
    if span.becomes is RecordState.AVAILABLE:
        return Fate.AGAIN
    if span.becomes not in (RecordState.ARCHIVING, RecordState.ARCHIVED):
        return None
    if span.is_rejected:
        return Fate.REJECTED
    is_gap = span.becomes is RecordState.ARCHIVED and span.deliveries < limit
    return None if is_gap else Fate.LIMIT


def _decision(place: Place, cause: Cause, fate: Fate, spans: Sequence[Span], at_ms: int, untold: int) -> Decision:
    count, first, last = sum(span.size for span in spans), spans[0].first, spans[-1].last
    records, deliveries = _which(count, first, last), max(span.deliveries for span in spans)
    group, limit = place.group_id, place.limit
    match fate:
        case Fate.AGAIN:
            why = (
                f"group {group} gets {records} again: {cause.value}; deliveries so far: {deliveries} of at most {limit}"
            )
        case Fate.LIMIT:
            why = (
                f"group {group} does not get {records} again: {cause.value}; "
                f"deliveries: {deliveries} of at most {limit}"
            )
        case Fate.REJECTED:
            why = f"group {group} does not get {records} again: rejected by a member"
        case _:
            assert_never(fate)
    return Decision(
        DecisionKind.SHARE_RECORDS_RELEASED if fate is Fate.AGAIN else DecisionKind.SHARE_RECORDS_ARCHIVED,
        at_ms,
        place.broker_id,
        why,
        partition=place.partition,
        leader_epoch=place.leader_epoch,
        evidence={
            "group": group,
            "cause": REJECTED if fate is Fate.REJECTED else cause.value,
            "first_offset": first,
            "last_offset": last,
            "records": count,
            "members": tuple(dict.fromkeys(span.member for span in spans))[:MOST_MEMBERS],
            "deliveries": deliveries,
            "limit": limit,
            "not_told_before": untold,
        },
    )


def _which(count: int, first: int, last: int) -> str:
    """Offsets `first` to `last`, of which `count` are meant."""
    if count == 1:
        return f"record {first}"
    return f"records {first} to {last}" if count == last - first + 1 else f"{count} of records {first} to {last}"
