"""`kavka lag-policy`: which files are read how, and what is printed and drawn of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kavka.cli.output import Failure
from kavka.cli.understand.lag_policy import lag_policy, parse_policy
from kavka.decisions import RING_FILES, Decision, DecisionKind, RecordedDecision, encode_decision
from kavka.model import BrokerId, TopicPartition
from kavka.studies.lag_outcome import Choice

KAFKA = """\
[2026-11-21 07:24:21,549] INFO [Partition orders-1 broker=1] Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 0, \
endOffset: 9000). Out of sync replicas: (brokerId: 2, endOffset: 4000, lastCaughtUpTimeMs: 1795245861449). (kafka)
[2026-11-21 07:24:21,560] INFO [Partition orders-1 broker=1] ISR updated to 1 (under-min-isr) and version updated to 3
[2026-11-21 07:24:22,049] INFO [Partition orders-1 broker=1] ISR updated to 1,2  and version updated to 4
[2026-11-21 07:24:22,050] INFO [ReplicaFetcherManager on broker 1] Removed fetcher for partitions (kafka.server)
"""


def run(*files: str, **options: object) -> None:
    chosen: dict[str, object] = {
        "policies": ["time:10000", "messages:4000"],
        "names": [],
        "minutes": 1,
        "seed": 1,
        "plot": None,
        "write_trace": None,
        "fetches": False,
        "as_json": True,
        **options,
    }
    lag_policy(list(files), **chosen)  # type: ignore[arg-type]


def last_object(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("time:30000", Choice("time", 30_000)),
        ("messages:4000", Choice("messages", 10_000, 4_000)),
        ("messages:20000:500", Choice("messages", 500, 20_000)),
    ],
)
def test_a_policy_is_named_with_its_limits(text: str, choice: Choice) -> None:
    assert parse_policy(text) == choice


@pytest.mark.parametrize("text", ["", "time", "time:", "time:0", "time:1:2", "messages", "messages:1:2:3", "luck:3"])
def test_what_is_no_policy_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(Failure) as refused:
        parse_policy(text)
    assert "messages:4000:10000" in refused.value.next_step


def test_generated_workloads_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run(names=["bursts", "two-topics"], minutes=2, plot=str(page))
    found = last_object(capsys)
    outcomes = found["outcomes"]
    assert isinstance(outcomes, list)
    alarms = {(each["workload"], each["policy"]): each["false_alarms"] for each in outcomes}
    assert alarms["bursts", "time"] == alarms["two-topics", "time"] == 0
    assert alarms["bursts", "messages"] > 0
    recommendation = found["recommendation"]
    assert isinstance(recommendation, dict)
    assert (recommendation["policy"], recommendation["max_ms"]) == ("time", 10_000)
    drawn = page.read_text()
    assert drawn.count("<svg") == 4 + 2 + 2 * 2  # bars; a curve for each partition and policy
    assert "audit-0 under messages 4,000, 10,000 ms" in drawn


def test_a_table_and_the_recommendation_are_printed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    run(names=["steady"], as_json=False)
    printed = capsys.readouterr().out
    assert "steady\ttime 10,000 ms\t0\t0\t" in printed
    assert "Recommended: time 10,000 ms" in printed


def test_a_trace_is_written_and_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    run(names=["bursts"], minutes=2, write_trace=str(trace))
    capsys.readouterr()
    run(str(trace))
    outcomes = last_object(capsys)["outcomes"]
    assert isinstance(outcomes, list)
    assert [each["false_alarms"] > 0 for each in outcomes] == [False, True]


def test_apache_kafkas_log_is_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, page = tmp_path / "server.log", tmp_path / "page.html"
    log.write_text(KAFKA)
    run(str(log), plot=str(page))
    found = last_object(capsys)
    assert (found["shrinks"], found["expands"], found["back_within_10s"], found["refused_ms"]) == (1, 1, 1, 500)
    judgements = found["judgements"]
    assert isinstance(judgements, list)
    assert [(each["policy"], each["out"], each["stays"]) for each in judgements] == [("time", 0, 1), ("messages", 1, 0)]
    assert "orders-1: 2" in page.read_text()


def test_the_rings_of_a_brokers_directory_are_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    logs = tmp_path / "broker-1" / "logs"
    logs.mkdir(parents=True)
    decision = Decision(
        DecisionKind.ISR_SHRUNK,
        1_000_000,
        BrokerId(1),
        "broker 2 last caught up 40000 ms ago",
        TopicPartition("orders", 1),
        before={"isr": [1, 2]},
        after={"isr": [1]},
        evidence={
            "log_end_offset": 50,
            "broker_2_log_end_offset": 40,
            "broker_2_last_caught_up_ms": 960_000,
            "broker_2_last_fetch_ms": 999_900,
        },
    )
    (logs / RING_FILES[1]).write_bytes(encode_decision(RecordedDecision("1-0-1", decision)) + b"\n")
    run(str(tmp_path))
    judgements = last_object(capsys)["judgements"]
    assert isinstance(judgements, list)
    assert [(each["policy"], each["out"], each["stays"]) for each in judgements] == [("time", 1, 0), ("messages", 0, 1)]


def test_files_that_tell_nothing_are_named_with_what_would(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_text("[2026-11-21 07:24:21,549] INFO starting (kafka.server.KafkaServer)\n")
    with pytest.raises(Failure, match="no changes of ISRs in 1 lines"):
        run(str(empty))
    with pytest.raises(Failure, match="cannot be read"):
        run(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("files", "options"),
    [
        (["f"], {"names": ["bursts"]}),
        (["f"], {"write_trace": "t"}),
        ([], {"names": ["nonsense"]}),
        ([], {"write_trace": "t"}),
        ([], {"policies": [f"time:{number}" for number in range(1, 15)]}),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(files: list[str], options: dict[str, object]) -> None:
    with pytest.raises(Failure) as refused:
        run(*files, **options)
    assert refused.value.status == 2
