"""What is told of records that a group gives up, word for word, and of those that it gets again."""

from __future__ import annotations

import pytest

from kavka.decisions import DecisionKind
from kavka.model import BrokerId, LeaderEpoch, StateBatch, TopicPartition
from kavka.share.decide.dead_letters import (
    AT_LIMIT,
    LASTING_MS,
    MOST_TRIES,
    REJECTED,
    DeadLetters,
    Found,
    Lasting,
    Refusal,
    Written,
    failed,
    pause_s,
    reason,
    refusal,
    with_causes,
    written,
)
from kavka.share.decide.in_flight import look
from kavka.share.decide.reasons import MOST_MEMBERS, Cause, Place, Telling
from kavka.share.decide.share_partition import AcknowledgeType, SharePartition
from kavka.share.decide.spans import RecordState, Span

ORDERS = TopicPartition("orders", 3)
DLQ = DeadLetters("dlq.orders", prefix="dlq.")
THERE = Found(2, is_allowed=True, max_message_bytes=1_000)
PLACE = Place(BrokerId(1), "workers", ORDERS, LeaderEpoch(4), 5)


# -- dead letters


@pytest.mark.parametrize(
    ("letters", "found", "why", "may_pass"),
    [
        (
            DLQ._replace(topic="__x"),
            THERE,
            "Configured DLQ topic name in share group: g cannot start with __, topic: __x.",
            False,
        ),
        (DLQ._replace(topic="orders"), THERE, "The record is in the DLQ topic orders of share group g already.", False),
        (DLQ._replace(topic=""), THERE, "Configured DLQ topic name in share group: g is empty.", True),
        (
            DLQ,
            THERE._replace(is_allowed=False),
            "DLQ is not enabled on configured DLQ topic for share group: g, topic: dlq.orders.",
            True,
        ),
        (
            DLQ,
            None,
            "DLQ topic does not exist and auto create is disabled on cluster for share group: g, topic: dlq.orders.",
            True,
        ),
        (
            DLQ._replace(topic="x"),
            THERE,
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: g, topic: x, "
            "prefix: dlq..",
            True,
        ),
    ],
)
def test_a_refusal_is_in_kafkas_words(letters: DeadLetters, found: Found | None, why: str, may_pass: bool) -> None:
    assert refusal("g", letters, ORDERS, found) == Refusal(why, may_pass)


def test_a_group_without_the_setting_has_no_dead_letters() -> None:
    assert DeadLetters() == ("", False, "", False)
    told = refusal("g", DeadLetters(), ORDERS, None)
    assert told is not None
    assert told.why.endswith("is empty.")


def test_the_reasons_are_kafkas() -> None:
    assert (reason(is_rejected=True), reason(is_rejected=False)) == (REJECTED, AT_LIMIT)
    assert (REJECTED, AT_LIMIT) == ("Offset rejected by client.", "Offset delivery count exceeded the threshold.")


def test_pauses_double_up_to_the_last_try() -> None:
    assert MOST_TRIES == 5
    assert [pause_s(tries, 0.5) for tries in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 8.0]
    assert pause_s(5, 0.5) is pause_s(6, 0.5) is None
    assert (pause_s(4, 0.0), pause_s(4, 1.0)) == (pytest.approx(6.4), pytest.approx(9.6))


def test_what_lasts_is_known_of_each_group_and_forgotten_after_a_while() -> None:
    assert LASTING_MS == 60_000
    lasting = Lasting()
    lasting.note("one", "missing", 0)
    lasting.note("two", "not allowed", 60_000)
    assert lasting.is_known("one", "missing", 60_000), "for so long"
    assert lasting.is_known("two", "not allowed", 120_000)
    assert lasting.is_known("one", "missing", 120_000), "found again, it lasts as long again"
    lasting.note("three", "x", 300_000)
    assert not lasting.is_known("one", "missing", 120_000), "what is long ago is not kept"
    lasting.note("three", "y", 300_001)
    assert not lasting.is_known("three", "x", 300_001)
    assert lasting.is_known("three", "y", 300_001)
    lasting.forget("never")


def test_what_was_found_a_moment_ago_stays_known_when_another_group_finds_something() -> None:
    lasting = Lasting()
    lasting.note("one", "missing", 500_000)
    lasting.note("two", "missing", 560_000)
    assert lasting.is_known("one", "missing", 560_000)


def test_the_cause_of_what_was_delivered_often_enough_is_the_limit() -> None:
    told = with_causes([Span(0, 0, RecordState.ARCHIVING, 4), Span(1, 1, RecordState.ARCHIVING, 5)], 5)
    assert [span.is_rejected for span in told] == [True, False]


GIVEN_UP = [
    Span(3, 4, RecordState.ARCHIVING, 1, is_rejected=True),
    Span(7, 7, RecordState.ARCHIVING, 5),
    Span(9, 11, RecordState.ARCHIVING, 2, is_rejected=True),
]
EVIDENCE = {
    "group": "workers",
    "source": "orders-3",
    "first_offset": 3,
    "last_offset": 11,
    "records": 6,
    "rejected": 5,
    "deliveries": 5,
    "limit": 5,
    "not_told_before": 2,
}


def test_a_why_record_tells_where_dead_letters_are() -> None:
    told = written(PLACE, GIVEN_UP, Written(TopicPartition("dlq.orders", 1), 12), 9, 2)
    assert (told.kind, told.at_ms, told.broker_id) == (DecisionKind.DEAD_LETTERS_WRITTEN, 9, 1)
    assert told.partition == TopicPartition("dlq.orders", 1)
    assert told.why == (
        "group workers has given up records 3 to 11 (6 of them) of orders-3: 5 rejected by a member, 1 delivered as "
        "often as they may be; their dead letters are in dlq.orders-1 from offset 12 on"
    )
    assert told.evidence == {**EVIDENCE, "first_dead_letter": 12}


def test_a_why_record_tells_of_records_without_dead_letters() -> None:
    told = failed(PLACE, GIVEN_UP, "it is full", 9, 2)
    assert (told.kind, told.at_ms, told.broker_id) == (DecisionKind.DEAD_LETTERS_FAILED, 9, 1)
    assert (told.partition, told.leader_epoch) == (ORDERS, 4)
    assert told.why == ("records 3 to 11 (6 of them) of group workers are archived without dead letters: it is full")
    assert told.evidence == {**EVIDENCE, "problem": "it is full"}


# -- why-records of a share-partition

AGAIN = RecordState.AVAILABLE


def left(
    first: int, last: int, becomes: RecordState | None, deliveries: int = 1, member: str = "a", **fields: bool
) -> Span:
    return Span(first, last, RecordState.ACQUIRED, deliveries, member, becomes=becomes, change=1, **fields)


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        ([left(3, 3, AGAIN)], "group workers gets record 3 again: the lock ran out; deliveries so far: 1 of at most 5"),
        (
            [left(3, 4, AGAIN, 2), left(5, 9, AGAIN, 1)],
            "group workers gets records 3 to 9 again: the lock ran out; deliveries so far: 2 of at most 5",
        ),
        (
            [left(3, 4, AGAIN), left(6, 9, AGAIN, 3)],
            "group workers gets 6 of records 3 to 9 again: the lock ran out; deliveries so far: 3 of at most 5",
        ),
        (
            [left(3, 3, RecordState.ARCHIVED, 5)],
            "group workers does not get record 3 again: the lock ran out; deliveries: 5 of at most 5",
        ),
        (
            [left(3, 4, RecordState.ARCHIVING, 4)],
            "group workers does not get records 3 to 4 again: the lock ran out; deliveries: 4 of at most 5",
        ),
        (
            [left(3, 3, RecordState.ARCHIVED, 5, is_rejected=True)],
            "group workers does not get record 3 again: rejected by a member",
        ),
    ],
)
def test_one_sentence_tells_what_becomes_of_records(spans: list[Span], why: str) -> None:
    (told,) = Telling().of(PLACE, Cause.LOCK_OVER, spans, 0, 9)
    assert told.why == why


@pytest.mark.parametrize(
    "span",
    [
        left(0, 0, RecordState.ACKNOWLEDGED),
        left(0, 0, None),
        left(0, 0, RecordState.ARCHIVED, 4),
        left(0, 0, RecordState.ACQUIRED),
    ],
)
def test_what_is_accepted_or_a_gap_is_no_news(span: Span) -> None:
    assert Telling().of(PLACE, Cause.SAID, [span], 0, 9) == []


def test_the_evidence_names_the_first_members_each_once() -> None:
    assert MOST_MEMBERS == 4
    spans = [left(number, number, AGAIN, 1 + number, f"m{number // 2}") for number in range(12)]
    (told,) = Telling().of(PLACE, Cause.SESSION_OVER, spans, 0, 9)
    assert told.evidence == {
        "group": "workers",
        "cause": "the member's share session ended",
        "first_offset": 0,
        "last_offset": 11,
        "records": 12,
        "members": ("m0", "m1", "m2", "m3"),
        "deliveries": 12,
        "limit": 5,
        "not_told_before": 0,
    }
    assert (told.kind, told.at_ms, told.broker_id) == (DecisionKind.SHARE_RECORDS_RELEASED, 9, 1)
    assert (told.partition, told.leader_epoch) == (ORDERS, 4)


def test_each_fate_is_told_in_its_own_turn() -> None:
    telling = Telling()
    both = [left(0, 0, AGAIN), left(1, 1, RecordState.ARCHIVED, 5), left(2, 2, RecordState.ARCHIVED, is_rejected=True)]
    told = telling.of(PLACE, Cause.SAID, both, 0, 9)
    assert [each.kind for each in told] == [
        DecisionKind.SHARE_RECORDS_RELEASED,
        DecisionKind.SHARE_RECORDS_ARCHIVED,
        DecisionKind.SHARE_RECORDS_ARCHIVED,
    ]
    assert [each.evidence["cause"] for each in told] == [
        "released by a member",
        "released by a member",
        "rejected by a member",
    ]
    assert telling.of(PLACE, Cause.SAID, both, 999, 9) == []
    assert [each.evidence["not_told_before"] for each in telling.of(PLACE, Cause.SAID, both, 1_000, 9)] == [1, 1, 1]


def test_what_is_counted_is_told_once() -> None:
    telling = Telling()
    assert telling.turn("x", 3, 0) == 0
    assert [telling.turn("x", count, 10) for count in (2, 5)] == [None, None]
    assert telling.turn("y", 1, 10) == 0
    assert telling.turn("x", 1, 1_000) == 7
    assert telling.turn("x", 1, 2_000) == 0


# -- what an administrator sees, and what a share-partition begins with


def test_what_comes_to_be_written_has_no_time_left_below_nothing() -> None:
    partition = SharePartition(0, [StateBatch(0, 4, RecordState.ARCHIVING, 5)])
    (run,) = look(partition, 10, 5).runs
    assert (run.member_id, run.lock_left_ms, run.state) == ("", None, RecordState.ARCHIVING)


def test_the_kinds_of_acknowledgements_have_the_protocols_numbers() -> None:
    assert [kind.name for kind in map(AcknowledgeType, range(5))] == ["GAP", "ACCEPT", "RELEASE", "REJECT", "RENEW"]
