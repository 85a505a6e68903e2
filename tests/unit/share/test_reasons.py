"""The why-records of a share group's records: which are told, in which words, and how often."""

from __future__ import annotations

from kavka.decisions import DecisionKind
from kavka.model import BrokerId, LeaderEpoch, TopicPartition
from kavka.share.decide.acquired_records import LogBatch, Wish
from kavka.share.decide.reasons import PAUSE_MS, Cause, Place, Telling
from kavka.share.decide.share_partition import Acknowledgement, AcknowledgeType, ShareLimits, SharePartition

LIMITS = ShareLimits(deliveries=2, lock_ms=100, in_flight=100)
PLACE = Place(BrokerId(1), "workers", TopicPartition("orders", 3), LeaderEpoch(4), LIMITS.deliveries)


def taken(partition: SharePartition, member: str, count: int, now_ms: int) -> None:
    assert partition.acquire(member, [LogBatch(0, 9)], Wish(count, is_exact=True), now_ms, LIMITS)


def settle(partition: SharePartition) -> None:
    partition.settle(partition.take_write(), is_committed=True)


def test_a_lock_that_is_over_gives_records_again_and_at_the_limit_no_more() -> None:
    partition, telling = SharePartition(0), Telling()
    taken(partition, "a", 4, now_ms=0)
    change = partition.expire(100, LIMITS)
    (again,) = telling.of(PLACE, Cause.LOCK_OVER, partition.left_by(change), 100, 1_700_000_000_000)
    assert again.kind is DecisionKind.SHARE_RECORDS_RELEASED
    assert again.why == ("group workers gets records 0 to 3 again: the lock ran out; deliveries so far: 1 of at most 2")
    assert (again.partition, again.leader_epoch, again.at_ms) == (PLACE.partition, 4, 1_700_000_000_000)
    assert again.evidence["members"] == ("a",)
    settle(partition)
    taken(partition, "b", 1, now_ms=200)
    change = partition.release("b", LIMITS)
    (no_more,) = telling.of(PLACE, Cause.SESSION_OVER, partition.left_by(change), 200, 0)
    assert no_more.kind is DecisionKind.SHARE_RECORDS_ARCHIVED
    assert no_more.why == (
        "group workers does not get record 0 again: the member's share session ended; deliveries: 2 of at most 2"
    )


def test_what_a_member_says_is_told_for_each_fate_and_what_it_accepts_is_not() -> None:
    partition, telling = SharePartition(0), Telling()
    taken(partition, "a", 6, now_ms=0)
    said = [AcknowledgeType.ACCEPT] * 2 + [AcknowledgeType.RELEASE] * 3 + [AcknowledgeType.REJECT]
    change = partition.acknowledge("a", [Acknowledgement(0, 5, said)], 0, LIMITS)
    told = telling.of(PLACE, Cause.SAID, partition.left_by(change), 0, 0)
    assert [(each.kind, each.evidence["records"]) for each in told] == [
        (DecisionKind.SHARE_RECORDS_RELEASED, 3),
        (DecisionKind.SHARE_RECORDS_ARCHIVED, 1),
    ]
    assert told[0].why.startswith("group workers gets records 2 to 4 again: released by a member; ")
    assert told[1].why == "group workers does not get record 5 again: rejected by a member"
    assert [each.evidence["cause"] for each in told] == ["released by a member", "rejected by a member"]


def test_what_a_member_rejects_at_the_limit_was_rejected_and_a_gap_is_no_news() -> None:
    partition, telling = SharePartition(0), Telling()
    once = LIMITS._replace(deliveries=1)
    partition.acquire("a", [LogBatch(0, 9)], Wish(4, is_exact=True), 0, once)
    said = [AcknowledgeType.REJECT, AcknowledgeType.RELEASE]
    change = partition.acknowledge("a", [Acknowledgement(0, 1, said)], 0, once)
    told = telling.of(PLACE._replace(limit=1), Cause.SAID, partition.left_by(change), 0, 0)
    assert [each.why.partition(" again: ")[2] for each in told] == [
        "rejected by a member",
        "released by a member; deliveries: 1 of at most 1",
    ]
    change = partition.acknowledge("a", [Acknowledgement(2, 2, [AcknowledgeType.GAP])], 0, LIMITS)
    assert telling.of(PLACE, Cause.SAID, partition.left_by(change), 5_000, 0) == []
    settle(partition)
    assert not any(span.is_rejected for span in partition.spans), "it is told once, and not kept"


def test_one_cause_is_told_once_a_second_with_what_was_not_told_before() -> None:
    partition, telling = SharePartition(0), Telling()

    def released(now_ms: int, count: int) -> list[object]:
        partition = SharePartition(0)
        taken(partition, "a", count, now_ms)
        left = partition.left_by(partition.release("a", LIMITS))
        return [each.evidence["not_told_before"] for each in telling.of(PLACE, Cause.SESSION_OVER, left, now_ms, 0)]

    assert released(0, 1) == [0]
    assert released(10, 2) == []
    assert released(PAUSE_MS - 1, 3) == []
    assert released(PAUSE_MS, 4) == [5]
    assert released(2 * PAUSE_MS, 1) == [0]
    taken(partition, "a", 1, 0)
    left = partition.left_by(partition.expire(100, LIMITS))
    assert telling.of(PLACE, Cause.LOCK_OVER, left, 2 * PAUSE_MS, 0), "another cause has a second of its own"


def test_the_second_is_counted_from_when_it_was_told_and_not_from_the_start_of_the_clock() -> None:
    telling = Telling()
    assert [telling.turn("x", 1, now_ms) for now_ms in (5_000, 5_999, 6_000)] == [0, None, 1]
