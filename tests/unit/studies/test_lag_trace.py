"""Traces are read as they were written; what cannot have been seen is refused."""

from __future__ import annotations

import pytest

from kavka.decisions import Decision, DecisionKind, RecordedDecision, encode_decision
from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.lag_policy import TIME
from kavka.studies.lag_outcome import Choice
from kavka.studies.lag_policy import LagRun
from kavka.studies.lag_trace import MalformedTrace, Recorded, trace_lines
from kavka.studies.lag_workload import workloads


@pytest.mark.parametrize("name", ["two-topics", "new-follower"])
def test_a_trace_is_read_as_it_was_written(name: str) -> None:
    workload = next(each for each in workloads(1) if each.name == name)
    run = LagRun(workload, Choice(TIME, 10_000), minutes=1, seed=5, keeps_trace=True)
    run.run()
    recorded = read(*(line.encode() for line in trace_lines(workload, run.trace or [])))
    assert recorded.trace == run.trace
    assert [(each.kind, each.follower, each.until_ms, each.behind) for each in recorded.ailments] == [
        (each.kind, each.follower, each.until_ms, each.behind) for each in workload.ailments
    ]


def read(*lines: bytes) -> Recorded:
    recorded = Recorded()
    recorded.read(lines)
    recorded.check()
    return recorded


@pytest.mark.parametrize(
    "line",
    [
        b'{"at_ms":1,"topic":"t","partition":0,"fetch":2,"offset":1}',
        b'{"at_ms":1,"topic":"t","partition":0,"fetch":9,"offset":0}',
        b'{"at_ms":-1,"topic":"t","partition":0,"append":1}',
        b'{"at_ms":1,"topic":"t","partition":0,"append":0}',
        b'{"at_ms":1,"topic":"t","append":1}',
        b'{"trace":1,"ailments":[{"kind":"cursed"}]}',
    ],
)
def test_what_no_leader_can_have_seen_is_refused(line: bytes) -> None:
    with pytest.raises(MalformedTrace):
        read(line)


def test_a_why_record_that_stands_in_two_files_counts_once_and_torn_lines_not_at_all() -> None:
    decision = Decision(
        DecisionKind.ISR_SHRUNK,
        1,
        BrokerId(1),
        "slow",
        TopicPartition("t", 0),
        before={"isr": [1, 2]},
        after={"isr": [1]},
    )
    line = encode_decision(RecordedDecision("1-0-1", decision))
    assert read(line, line, line[:40], b"\n").history().shrinks == 1
