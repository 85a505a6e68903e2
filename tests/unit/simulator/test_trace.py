"""What a trace records, forgets, and tells of itself."""

from __future__ import annotations

import pytest

from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId, TopicPartition
from kavka.simulator.host import trace as trace_module
from kavka.simulator.host.trace import ReplicaLook, Trace, current_trace, recording
from kavka.zookeeper.znodes import PartitionState

PARTITION = TopicPartition("orders", 0)


def stored(leader: int, *isr: int, epoch: int = 0) -> PartitionState:
    return PartitionState(BrokerId(leader), epoch, tuple(map(BrokerId, isr)), 1)


def look(log_end_offset: int, high_watermark: int, *, is_leader: bool = False, epoch: int = 0) -> ReplicaLook:
    return ReplicaLook(is_leader, epoch, (1, 2), log_end_offset, high_watermark)


def kinds(trace: Trace) -> list[str]:
    return [event.kind for event in trace.events()]


def test_a_replica_is_news_when_its_role_changes_and_a_move_when_its_offsets_do() -> None:
    trace = Trace()
    for each in (look(0, 0), look(3, 0), look(3, 0), look(3, 3), look(5, 4), look(5, 4, is_leader=True, epoch=1)):
        trace.on_replica("broker-1", PARTITION, each)

    assert kinds(trace) == ["follows", "appended", "committed", "offsets moved", "leads"]
    assert [event.kind for event in trace.last(9, moves=False)] == ["follows", "leads"]


def test_a_log_that_becomes_shorter_says_from_where_to_where() -> None:
    trace = Trace()
    trace.on_replica("broker-1", PARTITION, look(7, 2))
    trace.on_replica("broker-1", PARTITION, look(4, 2))

    (event,) = trace.last(1)
    assert (event.kind, event.text, event.log_end_offset) == ("log cut back", "from 7 to 4", 4)


def test_a_new_life_of_a_broker_looks_at_its_replicas_anew() -> None:
    trace = Trace()
    trace.on_replica("broker-1", PARTITION, look(7, 2))
    trace.on_broker_began("broker-1", "life 2")
    trace.on_replica("broker-1", PARTITION, look(4, 2))

    assert kinds(trace) == ["follows", "started", "follows"]


def test_stored_states_say_who_left_and_who_joined_and_are_counted() -> None:
    trace = Trace()
    trace.on_stored(PARTITION, stored(1, 1, 2, 3), 0)
    trace.on_stored(PARTITION, stored(1, 1, 2), 1)
    trace.on_stored(PARTITION, stored(-1, 2, epoch=1), 2)
    trace.on_stored(PARTITION, stored(2, 2, 3, epoch=2), 3)

    assert [event.text for event in trace.events()] == [
        "leader 1; version 0",
        "leader 1; version 1; 3 left the isr",
        "no leader; version 2; 1 left the isr",
        "leader 2; version 3; 3 joined the isr",
    ]
    assert (trace.isr_shrinks, trace.isr_expansions) == (2, 1)


def test_a_decision_stands_with_its_reason_and_the_isr_it_led_to() -> None:
    trace = Trace()
    why = "broker 3 last caught up 12000 ms ago"
    decision = Decision(
        DecisionKind.ISR_SHRUNK, 1, BrokerId(1), why, PARTITION, leader_epoch=4, after={"isr": (1, 2)}, evidence={}
    )
    trace.on_decision("broker-1", decision)

    (event,) = trace.events()
    assert (event.kind, event.partition, event.leader_epoch, event.isr) == ("isr shrunk", "orders-0", 4, (1, 2))
    assert event.text == why
    assert event.decision is decision


def test_a_line_has_its_columns_where_the_headings_are_whatever_the_text_holds() -> None:
    trace = Trace()
    trace.attach(lambda: 61_250, dict)
    trace.on_stored(PARTITION, stored(1, 1, 2, epoch=3), 0)
    trace.on_node("broker-1", "halts", "a\nb\x1b[31m\tc")

    head, state, hostile = trace.lines()
    assert state[: head.index("node")].split() == ["61.250"]
    assert state[head.index("event") : head.index("partition")].strip() == "state stored"
    assert state[head.index("isr") : head.index("leo") - 5].strip() == "1,2"
    assert hostile[head.index("text") :] == "a b [31m c"


def test_the_earliest_are_forgotten_beyond_the_bound_and_the_digest_is_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(first: str) -> Trace:
        trace = Trace()
        trace.on_node("broker-1", first)
        for number in range(20):
            trace.on_replica("broker-1", PARTITION, look(number, 0))
            trace.on_node("network", "cut", str(number))
        return trace

    everything = record("killed")
    monkeypatch.setattr(trace_module, "MAX_MOVES", 5)
    monkeypatch.setattr(trace_module, "MAX_NEWS", 7)
    bounded, other = record("killed"), record("paused")

    assert everything.forgotten == 0
    assert len(list(bounded.events())) == 12
    assert bounded.forgotten == everything.recorded - 12
    assert [event.number for event in bounded.events()] == sorted(event.number for event in bounded.events())
    assert "are not kept" in list(bounded.lines())[1]
    assert bounded.digest == everything.digest
    assert list(map(str, other.events())) == list(map(str, bounded.events()))
    assert other.digest != bounded.digest


def test_the_last_events_are_of_both_kinds_in_order() -> None:
    trace = Trace()
    for number in range(5):
        trace.on_replica("broker-1", PARTITION, look(number, 0))
        trace.on_node("network", "cut", str(number))

    assert [event.number for event in trace.last(4)] == [7, 8, 9, 10]


def test_a_run_is_recorded_only_where_somebody_asked_for_it() -> None:
    assert current_trace() is None
    with recording() as outer:
        assert current_trace() is outer
        with recording() as inner:
            assert current_trace() is inner
        assert current_trace() is outer
    assert current_trace() is None
