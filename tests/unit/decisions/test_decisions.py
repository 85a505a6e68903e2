"""The form of why-records."""

from __future__ import annotations

import json

import pytest

from kavka.decisions import (
    Decision,
    DecisionKind,
    MalformedDecision,
    RecordedDecision,
    decode_decision,
    encode_decision,
)
from kavka.model import BrokerId, TopicPartition

SHRUNK = Decision(
    DecisionKind.ISR_SHRUNK,
    at_ms=1_700_000_000_123,
    broker_id=BrokerId(1),
    why="broker 3 has not caught up for 10,500 ms; replica.lag.time.max.ms is 10,000",
    partition=TopicPartition("orders", 3),
    leader_epoch=7,
    controller_epoch=2,
    before={"isr": [1, 2, 3]},
    after={"isr": [1, 2]},
    evidence={"lag_ms": 10_500, "last_caught_up_ms": None, "log_end_offset": 42, "policy": "time", "alive": True},
)


@pytest.mark.parametrize(
    ("decision", "subject"),
    [
        (SHRUNK, "orders-3"),
        (SHRUNK._replace(partition=None, about_broker=BrokerId(2)), "broker 2"),
        (SHRUNK._replace(partition=None, group="billing"), "group billing"),
        (SHRUNK._replace(partition=None), "controller"),
    ],
)
def test_a_decision_comes_back_from_its_json_as_it_was(decision: Decision, subject: str) -> None:
    recorded = RecordedDecision("1-1700000000000-5", decision)

    assert decision.subject == subject
    assert decode_decision(encode_decision(recorded)) == recorded


def test_the_json_has_the_documented_fields() -> None:
    fields = json.loads(encode_decision(RecordedDecision("1-0-1", SHRUNK)))

    assert list(fields) == [
        "version", "id", "kind", "at_ms", "broker", "subject", "why", "topic", "partition", "leader_epoch",
        "controller_epoch", "before", "after", "evidence",
    ]  # fmt: skip
    assert fields["kind"] == "isr shrunk"
    assert fields["subject"] == "orders-3"


def test_fields_that_are_not_known_are_passed_over() -> None:
    fields = json.loads(encode_decision(RecordedDecision("1-0-1", SHRUNK)))

    assert decode_decision(json.dumps({**fields, "colour": "black"}).encode()).decision == SHRUNK


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"{}", b'{"version":2}', b'{"version":1,"kind":"weather"}', b"\xff\xfe"]
)
def test_what_is_no_decision_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedDecision):
        decode_decision(data)


@pytest.mark.parametrize(
    "strange",
    [
        {"at_ms": 10**18},
        {"at_ms": -1},
        {"at_ms": float("inf")},
        {"broker": "<b>"},
        {"broker": 10**40},
        {"about_broker": [1]},
        {"partition": "0"},
        {"topic": ["orders"]},
        {"group": 5},
        {"evidence": [1]},
        {"before": "x"},
        {"after": None},
    ],
)
def test_what_readers_cannot_rely_on_is_no_decision(strange: dict[str, object]) -> None:
    """Pages failed of a time beyond the calendar; Infinity ended the reading of all decisions."""
    fields = json.loads(encode_decision(RecordedDecision("1-0-1", SHRUNK)))
    with pytest.raises(MalformedDecision):
        decode_decision(json.dumps({**fields, **strange}).encode())


def test_a_record_nested_too_deep_is_no_decision() -> None:
    with pytest.raises(MalformedDecision):
        decode_decision(b"[" * 100_000)
