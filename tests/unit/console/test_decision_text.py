"""Decisions in words, and who was in an ISR when, as they tell it."""

from __future__ import annotations

from datetime import UTC

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("starlette")

from kavka.console.look.charts import Look
from kavka.console.look.decision_text import (
    causes_of,
    describe,
    describe_folded,
    essential,
    fold,
    of_broker,
    without_echoes,
)
from kavka.console.look.i18n import translator
from kavka.console.look.replica_history import IsrState, spans, states_from, up_to_now
from kavka.console.pages.decisions import select
from kavka.decisions import Decision, DecisionKind, RecordedDecision
from kavka.model import BrokerId, TopicPartition

LOOK = Look(translator("en"), UTC)
AT = 1_767_265_200_000
ORDERS = TopicPartition("orders", 3)


def recorded(kind: DecisionKind, at_ms: int = AT, **fields: object) -> RecordedDecision:
    decision = Decision(kind, at_ms, BrokerId(1), str(fields.pop("why", "because")), **fields)  # type: ignore[arg-type]
    return RecordedDecision(f"{at_ms}-{kind.value}", decision)


def shrunk(at_ms: int = AT) -> RecordedDecision:
    return recorded(
        DecisionKind.ISR_SHRUNK,
        at_ms,
        why="broker 3 was last caught up 31.2 s before",
        partition=ORDERS,
        before={"isr": [1, 2, 3]},
        after={"isr": [1, 2]},
        evidence={
            "log_end_offset": 50_000,
            "broker_3_log_end_offset": 31_598,
            "broker_3_last_caught_up_ms": at_ms - 31_200,
        },
    )


def test_an_isr_that_shrank_is_told_with_how_far_behind_and_since_when() -> None:
    story = describe(shrunk(), "prod", LOOK)
    evidence = {str(name): str(value) for name, value in story.evidence}
    assert story.level == "warn"
    assert story.link == "/c/prod/topics/orders?partition=3"
    assert story.changes == ("in sync 1, 2, 3 → 1, 2",)
    assert story.why == "Broker 3 was last caught up 31.2 s before."
    assert evidence["broker 3, log end offset"] == "31598 (18,402 records behind the leader)"
    assert evidence["broker 3, last caught up"] == "10:59:28.800 UTC (31.2 s before the decision)"
    assert evidence["decided by"] == "broker 1"


def test_an_unclean_election_is_grave() -> None:
    assert describe(recorded(DecisionKind.LEADER_ELECTED, evidence={"unclean": True}), "c", LOOK).level == "bad"
    assert describe(recorded(DecisionKind.LEADER_ELECTED, evidence={"unclean": False}), "c", LOOK).level == "ok"


@pytest.mark.parametrize(("kept", "level"), [(9, "warn"), (10, "ok")])
def test_a_log_is_cut_only_where_records_go(kept: int, level: str) -> None:
    cut = recorded(
        DecisionKind.LOG_TRUNCATED,
        partition=ORDERS,
        before={"log_end_offset": 10, "latest_epoch": 3},
        after={"log_end_offset": kept, "latest_epoch": 0},
    )
    assert describe(cut, "prod", LOOK).level == level


def test_text_of_a_broker_is_escaped_in_evidence() -> None:
    story = describe(recorded(DecisionKind.FENCED, evidence={"error": "<script>"}), "c", LOOK)
    assert all("<script>" not in value for _name, value in story.evidence)


def test_a_search_for_a_partition_finds_no_other_whose_name_begins_so() -> None:
    other = recorded(DecisionKind.ISR_SHRUNK, partition=TopicPartition("orders", 33))
    assert select([shrunk(), other], "orders-3", "") == [shrunk()]


def test_a_search_for_a_broker_finds_where_it_left_an_isr() -> None:
    went = recorded(DecisionKind.BROKER_WENT, about_broker=BrokerId(3))
    calm = recorded(DecisionKind.ISR_EXPANDED, partition=ORDERS, before={"isr": [1]}, after={"isr": [1, 2]})
    assert select([shrunk(), went, calm], "broker 3", "") == of_broker([shrunk(), went, calm], 3) == [shrunk(), went]


def test_a_search_for_words_looks_at_reasons_and_evidence() -> None:
    assert select([shrunk()], "caught 31598", "") == [shrunk()]
    assert select([shrunk()], "caught nothing", "") == []
    assert select([shrunk()], "", "isr expanded") == []


def test_causes_are_what_befell_brokers_in_the_minute_before() -> None:
    early = recorded(DecisionKind.BROKER_WENT, AT - 61_000, about_broker=BrokerId(3))
    near = recorded(DecisionKind.BROKER_WENT, AT - 1_000, about_broker=BrokerId(3))
    later = recorded(DecisionKind.BROKER_WENT, AT + 1, about_broker=BrokerId(2))
    assert causes_of(shrunk().decision, [early, near, later]) == [near]


def test_who_was_in_sync_and_when() -> None:
    elected = recorded(
        DecisionKind.LEADER_ELECTED,
        AT - 60_000,
        partition=ORDERS,
        before={"leader": -1},
        after={"leader": 1, "isr": [1, 2, 3]},
    )
    states = states_from([shrunk(), elected])
    assert states == [IsrState(AT - 60_000, 1, frozenset({1, 2, 3})), IsrState(AT, 1, frozenset({1, 2}))]
    rows = dict(spans(states, (1, 3), LOOK, from_ms=AT - 90_000, until_ms=AT + 10_000))
    assert [(each.kind, each.until_ms - each.from_ms) for each in rows["broker 1"]] == [
        ("none", 30_000),
        ("led", 70_000),
    ]
    assert [each.kind for each in rows["broker 3"]] == ["none", "in", "out"]


def test_what_was_before_the_first_decision_was_so_since_the_topic_was_made() -> None:
    first, second = states_from([shrunk()], made_ms=AT - 60_000)
    assert first == IsrState(AT - 60_000, 1, frozenset({1, 2, 3}))
    assert second.at_ms == AT


def test_before_the_first_decision_nothing_is_known() -> None:
    rows = spans([], (1,), LOOK, from_ms=AT, until_ms=AT + 1_000)
    assert [each.kind for each in rows[0][1]] == ["none"]


def test_what_is_so_now_is_known_since_somebody_looks_and_no_longer() -> None:
    now = IsrState(AT, 1, frozenset({1, 2}))
    assert up_to_now([], now, observed_since_ms=AT - 500) == [now._replace(at_ms=AT - 500)]
    same = [IsrState(AT - 900, 1, frozenset({1, 2}))]
    assert up_to_now(same, now, observed_since_ms=AT - 500) == same


def test_a_time_in_which_changes_were_missed_is_not_known() -> None:
    old = IsrState(AT - 900, 2, frozenset({2}))
    now = IsrState(AT, 1, frozenset({1, 2}))
    states = up_to_now([old], now, observed_since_ms=AT - 500)
    rows = dict(spans(states, (1, 2), LOOK, from_ms=AT - 1_000, until_ms=AT))
    assert [each.kind for each in rows["broker 1"]] == ["none", "out", "none", "led"]
    assert [(each.kind, each.from_ms) for each in rows["broker 2"]][-1] == ("in", AT - 500)


def test_an_isr_change_that_leader_and_controller_recorded_is_told_once_with_its_reason() -> None:
    agreed = recorded(
        DecisionKind.ISR_SHRUNK,
        AT + 4,
        why="ISR [1, 2], as leader 1 proposed in epoch 0",
        partition=ORDERS,
        after={"isr": [1, 2]},
        evidence={"proposed_isr": [1, 2]},
    )
    assert without_echoes([agreed, shrunk()]) == [shrunk()]
    assert without_echoes([agreed]) == [agreed]


def test_a_topic_that_was_made_is_its_own_story() -> None:
    made = recorded(DecisionKind.TOPIC_CREATED, evidence={"topic": "orders", "partitions": 6})
    story = describe(made, "prod", LOOK)
    assert (story.subject, story.link) == ("orders", "/c/prod/topics/orders")


def partition_decision(kind: DecisionKind, number: int, at_ms: int) -> RecordedDecision:
    return RecordedDecision(
        f"{kind.value} {number}", recorded(kind, at_ms, partition=TopicPartition("orders", number))[1]
    )


def test_what_only_follows_from_an_election_is_left_out_where_there_is_little_room() -> None:
    elected = partition_decision(DecisionKind.LEADER_ELECTED, 1, AT)
    taken = partition_decision(DecisionKind.LEADERSHIP_TAKEN, 1, AT + 5)
    fenced = partition_decision(DecisionKind.FENCED, 1, AT + 9)
    fenced_later = partition_decision(DecisionKind.FENCED, 1, AT + 60_000)
    fenced_elsewhere = partition_decision(DecisionKind.FENCED, 2, AT + 9)
    everything = [fenced_later, fenced, fenced_elsewhere, taken, elected]
    assert essential(everything) == [fenced_later, fenced_elsewhere, elected]


def test_many_of_a_kind_at_one_time_are_one_story() -> None:
    shrinks = [partition_decision(DecisionKind.ISR_SHRUNK, number, AT + number) for number in range(5)]
    early = partition_decision(DecisionKind.ISR_SHRUNK, 9, AT - 60_000)
    went = recorded(DecisionKind.BROKER_WENT, AT + 2, about_broker=BrokerId(3))
    told = describe_folded(fold([*reversed(shrinks), went, early]), "c", LOOK)
    assert [(each.story.subject, len(each.others)) for each in told] == [
        ("orders-4", 4),
        ("broker 3", 0),
        ("orders-9", 0),
    ]
