"""The tail of decisions: each once, by time, bounded, found by what it is about."""

from __future__ import annotations

from kavka.decisions import Decision, DecisionKind, RecordedDecision
from kavka.model import BrokerId, TopicPartition
from kavka.observe.decision_tail import MAX_DECISIONS, DecisionTail


def decision(name: str, at_ms: int, **about: object) -> RecordedDecision:
    made = Decision(DecisionKind.ISR_SHRUNK, at_ms, BrokerId(1), "why", **about)  # type: ignore[arg-type]  # fields by name
    return RecordedDecision(name, made)


def names(found: list[RecordedDecision]) -> list[str]:
    return [each.decision_id for each in found]


def test_each_is_kept_once_and_given_back_the_newest_first() -> None:
    tail = DecisionTail(lambda: 0)
    assert tail.take(decision("b", 2))
    assert tail.take(decision("a", 1))
    assert not tail.take(decision("b", 2))
    assert tail.take(decision("c", 3))
    assert names(tail.recent()) == ["c", "b", "a"]
    assert names(tail.recent(limit=1)) == ["c"]
    assert names(tail.recent(since_ms=2)) == ["c", "b"]


def test_they_are_found_by_partition_topic_group_and_anything_else() -> None:
    tail = DecisionTail(lambda: 0)
    tail.take(decision("p0", 1, partition=TopicPartition("orders", 0)))
    tail.take(decision("p1", 2, partition=TopicPartition("orders", 1)))
    tail.take(decision("b2", 3, about_broker=BrokerId(2)))
    tail.take(decision("g", 4, group="readers"))
    assert names(tail.recent(partition=TopicPartition("orders", 1))) == ["p1"]
    assert names(tail.recent(topic="orders")) == ["p1", "p0"]
    assert names(tail.recent(group="readers")) == ["g"]
    tail.take(decision("made", 5, evidence={"topic": "orders"}))
    assert names(tail.recent(topic="orders", since_ms=2)) == ["made", "p1"]
    assert names(tail.recent(matches=lambda each: each.decision.at_ms % 2 == 0)) == ["g", "p1"]
    found = tail.find("b2")
    assert found is not None
    assert found.decision.about_broker == 2
    assert tail.find("nobody") is None


def test_at_the_bound_the_oldest_goes_and_one_that_is_older_than_all_is_not_taken() -> None:
    tail = DecisionTail(lambda: 0)
    for number in range(MAX_DECISIONS + 3):
        tail.take(decision(str(number), 10 + number))
    assert len(tail) == MAX_DECISIONS
    assert tail.find("2") is None
    assert tail.find("3") is not None
    assert not tail.take(decision("ancient", 1))
    assert len(tail) == MAX_DECISIONS


def test_what_is_new_is_what_was_read_since_whatever_time_it_bears() -> None:
    tail = DecisionTail(lambda: 0)
    tail.take(decision("a", 100))
    count = tail.count
    assert tail.read_since(count) == []
    assert tail.take(decision("of a clock that is behind", 50))
    assert not tail.take(decision("a", 100))
    assert tail.take(decision("b", 200))
    assert names(tail.read_since(count)) == ["of a clock that is behind", "b"]
    assert names(tail.read_since(tail.count - 1)) == ["b"]


def test_of_more_than_are_kept_the_last_are_new() -> None:
    tail = DecisionTail(lambda: 0)
    for number in range(MAX_DECISIONS + 2):
        tail.take(decision(str(number), number))
    new = names(tail.read_since(0))
    assert (new[0], new[-1], len(new)) == ("2", str(MAX_DECISIONS + 1), MAX_DECISIONS)
