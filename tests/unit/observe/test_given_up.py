"""What share groups gave up, and since when they stand at a record, out of why-records."""

from __future__ import annotations

from dataclasses import replace

from kavka.decisions import Decision, DecisionKind
from kavka.model import TopicPartition
from kavka.observe.given_up import given_up, since_delivered
from kavka.observe.snapshot import ClusterSnapshot, GivenUp, GroupOffset, GroupView, MemberView
from tests.unit.observe import snapshots as make

P0 = TopicPartition("orders", 0)
ARCHIVED, RELEASED = DecisionKind.SHARE_RECORDS_ARCHIVED, DecisionKind.SHARE_RECORDS_RELEASED
FAILED = DecisionKind.DEAD_LETTERS_FAILED


def told(kind: DecisionKind, at_ms: int, first: int, last: int, **evidence: object) -> Decision:
    known = {"group": "workers", "first_offset": first, "last_offset": last, "records": last - first + 1}
    return Decision(kind, at_ms, 1, "why", partition=P0, evidence={**known, **evidence})  # type: ignore[dict-item]


def test_records_at_their_limit_are_summed_and_rejected_ones_are_not_among_them() -> None:
    newest_first = [
        told(ARCHIVED, 9_000, 17, 17, deliveries=5, limit=5, not_told_before=2),
        told(ARCHIVED, 8_000, 12, 16, deliveries=2, limit=5, not_told_before=0),
        told(ARCHIVED, 7_000, 3, 4, deliveries=5, limit=5, not_told_before=0),
        told(RELEASED, 6_000, 0, 1, deliveries=1, limit=5, not_told_before=0),
    ]
    assert given_up(newest_first) == (GivenUp("workers", P0, 5, 17, 0, ""),)
    assert given_up(newest_first[1:2]) == ()


def test_dead_letters_that_were_refused_are_summed_with_the_newest_reason() -> None:
    newest_first = [
        told(FAILED, 9_000, 17, 17, not_told_before=0, problem="no topic dlq.x"),
        told(FAILED, 8_000, 1, 3, not_told_before=1, problem="too large"),
    ]
    assert given_up(newest_first) == (GivenUp("workers", P0, 0, -1, 5, "no topic dlq.x"),)


def snapshot(**changes: object) -> ClusterSnapshot:
    member = MemberView("m", None, "c", "/h", (P0,), None)
    group = GroupView("workers", "share", "Stable", "share", "simple", 1)
    offset = GroupOffset(P0, 5, 12, not_done=7)
    known: dict[str, object] = {"members": (member,), "offsets": (offset,), **changes}
    return make.snapshot(groups=[replace(group, **known)])  # type: ignore[arg-type]  # fields by name


def test_one_look_learns_since_when_a_record_comes_back() -> None:
    newest_first = [
        told(RELEASED, 9_000, 5, 9),
        told(RELEASED, 8_000, 6, 9),
        told(RELEASED, 7_000, 0, 5),
        told(RELEASED, 6_000, 0, 4),
    ]
    (offset,) = since_delivered(snapshot(), newest_first).groups["workers"].offsets
    assert offset.still_since_ms == 7_000
    (offset,) = since_delivered(snapshot(members=()), newest_first).groups["workers"].offsets
    assert offset.still_since_ms is None, "without members it is a backlog"
