"""What share groups gave up in the last hour, and since when they stand at a record, out of the brokers' why-records.

Decides which why-records count. Must not know what is too much (the health checks), nor how the records are read.

A leader records at most one sentence a second for a share-partition and a cause, with the number of records that it did
not tell of before; so sums are right, but for the last second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kavka.decisions import DecisionKind
from kavka.observe.snapshot import ClusterSnapshot, GivenUp

if TYPE_CHECKING:
    from kavka.decisions import Decision, RecordedDecision
    from kavka.model import TopicPartition
    from kavka.observe.decision_tail import DecisionTail

HOUR_MS: Final = 3_600_000
AGAIN_MS: Final = 5_000
"""How long a view is good: a busy cluster records thousands of reasons in an hour."""
MOST_DECISIONS: Final = 5_000
_KINDS: Final = frozenset({DecisionKind.SHARE_RECORDS_ARCHIVED, DecisionKind.DEAD_LETTERS_FAILED})


class GivenUpRecords:
    """Of one cluster, for as long as it is watched."""

    def __init__(self) -> None:
        self._view: tuple[GivenUp, ...] = ()
        self._looked_at_ms = -AGAIN_MS
        self._known = 0

    def view(self, recorded: DecisionTail, now_ms: int) -> tuple[GivenUp, ...]:
        """By group and partition."""
        if now_ms - self._looked_at_ms >= AGAIN_MS or len(recorded) != self._known:
            found = recorded.recent(limit=MOST_DECISIONS, since_ms=now_ms - HOUR_MS, matches=_counts)
            self._view = given_up(each.decision for each in found)
            self._looked_at_ms, self._known = now_ms, len(recorded)
        return self._view


def _counts(recorded: RecordedDecision) -> bool:
    return recorded.decision.kind in _KINDS


def given_up(newest_first: Iterable[Decision]) -> tuple[GivenUp, ...]:
    """What these decisions say together, by group and partition."""
    found: dict[tuple[str, TopicPartition], GivenUp] = {}
    for decision in newest_first:
        partition, told = decision.partition, decision.evidence
        if partition is None:
            continue
        count = _number(told.get("records")) + _number(told.get("not_told_before"))
        last = _number(told.get("last_offset"))
        key = (str(told.get("group", "")), partition)
        one = found.get(key) or GivenUp(*key, 0, -1, 0, "")
        if decision.kind is DecisionKind.DEAD_LETTERS_FAILED:
            one = one._replace(
                without_letter=one.without_letter + count, problem=one.problem or str(told.get("problem", ""))
            )
        elif _number(told.get("deliveries")) >= _number(told.get("limit")):
            one = one._replace(
                at_limit=one.at_limit + count, last_offset=last if one.last_offset < 0 else one.last_offset
            )
        if one.at_limit or one.without_letter:
            found[key] = one
    return tuple(found[key] for key in sorted(found))


def since_delivered(snapshot: ClusterSnapshot, newest_first: Iterable[Decision]) -> ClusterSnapshot:
    """The snapshot with the times since when share groups with members stand at a record, as far back as it was
    delivered and came back. One look at a cluster cannot tell for how long; where no decision does, None says so."""
    behind = {
        (name, offset.partition): offset.committed
        for name, group in snapshot.groups.items()
        if group.is_share and group.members
        for offset in group.offsets
        if offset.lag and offset.committed is not None
    }
    since: dict[tuple[str, TopicPartition], int] = {}
    for decision in newest_first:
        if decision.kind is not DecisionKind.SHARE_RECORDS_RELEASED or decision.partition is None:
            continue
        key = (str(decision.evidence.get("group", "")), decision.partition)
        first, last = decision.evidence.get("first_offset"), decision.evidence.get("last_offset")
        if key in behind and isinstance(first, int) and isinstance(last, int) and first <= (behind[key] or 0) <= last:
            since[key] = decision.at_ms
    return _with_times(snapshot, since) if since else snapshot


def _with_times(snapshot: ClusterSnapshot, since: Mapping[tuple[str, TopicPartition], int]) -> ClusterSnapshot:
    groups = {
        name: replace(
            group,
            offsets=tuple(
                replace(offset, still_since_ms=since.get((name, offset.partition), offset.still_since_ms))
                for offset in group.offsets
            ),
        )
        for name, group in snapshot.groups.items()
    }
    return replace(snapshot, groups=groups)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
