"""Which topic a group's dead letters may go to, what they say, and how often they are tried."""

from __future__ import annotations

import pytest

from kavka.model import BrokerId, LeaderEpoch, TopicPartition
from kavka.share.decide.dead_letters import (
    MOST_TRIES,
    DeadLetters,
    Found,
    Lasting,
    Written,
    failed,
    headers,
    partition_for,
    pause_s,
    refusal,
    with_causes,
    written,
)
from kavka.share.decide.reasons import Place
from kavka.share.decide.spans import RecordState, Span

ORDERS = TopicPartition("orders", 3)
DLQ = DeadLetters("dlq.orders", prefix="dlq.")
THERE = Found(2, is_allowed=True, max_message_bytes=1_000)


def test_an_allowed_topic_with_the_prefix_is_taken() -> None:
    assert refusal("g", DLQ, ORDERS, THERE) is None


def test_a_missing_topic_is_taken_where_it_may_be_created() -> None:
    assert refusal("g", DLQ._replace(may_create=True), ORDERS, None) is None


def test_without_a_prefix_any_name_is_taken() -> None:
    assert refusal("g", DLQ._replace(topic="graves", prefix=""), ORDERS, THERE) is None


@pytest.mark.parametrize(
    ("letters", "source", "found", "why"),
    [
        (DLQ._replace(topic=""), ORDERS, THERE, "is empty"),
        (DLQ._replace(topic="__x", prefix=""), ORDERS, THERE, "cannot start with __"),
        (DLQ, ORDERS, THERE._replace(is_allowed=False), "not enabled on configured DLQ topic"),
        (DLQ, ORDERS, None, "does not exist and auto create is disabled"),
        (DLQ._replace(topic="orders-dlq"), ORDERS, THERE, "does not comply with the DLQ topic prefix"),
        (DLQ, TopicPartition("dlq.orders", 0), THERE, "is in the DLQ topic dlq.orders of share group g already"),
        # Kafka's order of checks: whoever sees the first answer can act on it.
        (DLQ._replace(topic="orders-dlq"), ORDERS, None, "does not exist"),
        (DLQ._replace(topic="orders-dlq"), ORDERS, THERE._replace(is_allowed=False), "not enabled"),
        (DLQ._replace(topic="orders-dlq", may_create=True), ORDERS, None, "does not comply"),
    ],
)
def test_a_topic_is_refused_with_the_reason(
    letters: DeadLetters, source: TopicPartition, found: Found | None, why: str
) -> None:
    told = refusal("g", letters, source, found)
    assert told is not None
    assert why in told.why


def test_what_another_try_may_find_otherwise_may_pass() -> None:
    """ZooKeeper was slow: this broker has not heard yet of the topic, of its setting, or of the group's."""
    for letters, found in ((DLQ, None), (DLQ, THERE._replace(is_allowed=False)), (DLQ._replace(topic=""), THERE)):
        told = refusal("g", letters, ORDERS, found)
        assert told is not None
        assert told.may_pass
    for letters, source in ((DLQ._replace(topic="__x"), ORDERS), (DLQ, TopicPartition("dlq.orders", 0))):
        told = refusal("g", letters, source, THERE)
        assert told is not None
        assert not told.may_pass


def test_a_cause_is_known_to_last_for_a_minute_after_it_was_found_last() -> None:
    lasting = Lasting()
    assert not lasting.is_known("g", "missing", 0)
    lasting.note("g", "missing", 1_000)
    assert lasting.is_known("g", "missing", 61_000)
    assert lasting.is_known("g", "missing", 121_000)
    assert not lasting.is_known("g", "not allowed", 121_000)
    assert not lasting.is_known("other", "missing", 121_000)
    assert not lasting.is_known("g", "missing", 181_001)
    lasting.note("g", "missing", 181_001)
    lasting.forget("g")
    assert not lasting.is_known("g", "missing", 181_002)


def test_the_headers_say_what_the_dead_letter_is_of() -> None:
    assert headers("g\u00fc", ORDERS, 17, 5, is_rejected=False) == (
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"17"),
        ("__dlq.errors.group", "g\u00fc".encode()),
        ("__dlq.errors.delivery.count", b"5"),
        ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
    )
    assert headers("g", ORDERS, 0, 1, is_rejected=True)[-1][1] == b"Offset rejected by client."


def test_what_another_leader_finds_to_be_given_up_below_the_limit_was_rejected() -> None:
    found = [Span(0, 1, RecordState.ARCHIVING, 2), Span(2, 2, RecordState.ARCHIVING, 5)]
    told = with_causes([*found, Span(3, 3, RecordState.ARCHIVING, 5, is_rejected=True)], 5)
    assert [span.is_rejected for span in told] == [True, False, True]


def test_the_why_records_say_whose_they_are_and_why() -> None:
    place = Place(BrokerId(1), "workers", ORDERS, LeaderEpoch(4), 5)
    spans = [Span(3, 4, RecordState.ARCHIVING, 1, is_rejected=True), Span(7, 7, RecordState.ARCHIVING, 5)]
    there = written(place, spans, Written(TopicPartition("dlq.orders", 1), 12), 9, 2)
    assert there.subject == "dlq.orders-1"
    assert there.why == (
        "group workers has given up records 3 to 7 (3 of them) of orders-3: 2 rejected by a member, 1 delivered as "
        "often as they may be; their dead letters are in dlq.orders-1 from offset 12 on"
    )
    assert (there.evidence["first_dead_letter"], there.evidence["not_told_before"]) == (12, 2)
    lost = failed(place, spans, "it is full", 9, 0)
    assert lost.subject == "orders-3"
    assert lost.why == "records 3 to 7 (3 of them) of group workers are archived without dead letters: it is full"


def test_dead_letters_of_one_partition_are_in_one_partition() -> None:
    assert [partition_for(source, 3) for source in range(5)] == [0, 1, 2, 0, 1]


def test_a_dead_letter_is_tried_five_times_with_longer_and_longer_pauses() -> None:
    assert [pause_s(tries, 0.5) for tries in range(1, MOST_TRIES + 1)] == [1.0, 2.0, 4.0, 8.0, None]
    assert pause_s(1, 0.0) == pytest.approx(0.8)
    assert pause_s(1, 1.0) == pytest.approx(1.2)
