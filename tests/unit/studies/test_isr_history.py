"""What is read from Apache Kafka's logs and from why-records, and what policies say to it."""

from __future__ import annotations

import pytest

from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.lag_policy import MESSAGES, TIME
from kavka.studies.isr_history import (
    IsrChange,
    IsrHistory,
    Progress,
    Verdict,
    from_decision,
    history,
    judge,
    parse_kafka_line,
)
from kavka.studies.lag_advice import advise_from_history
from kavka.studies.lag_outcome import Choice
from kavka.studies.lag_policy import run_workload
from kavka.studies.lag_workload import workloads

BY_TIME = Choice(TIME, 10_000)
BY_MESSAGES = Choice(MESSAGES, 10_000, 4_000)
ORDERS = TopicPartition("my-orders", 3)
A, B, C = BrokerId(1), BrokerId(2), BrokerId(0)
AT_MS = 1_795_245_861_549
"""2026-11-21 07:24:21,549 UTC"""
STAMP = "[2026-11-21 07:24:21,549] INFO "


@pytest.mark.parametrize(
    "line",
    [
        "Partition [my-orders,3] on broker 1: Shrinking ISR for partition [my-orders,3] from 1,2,0 to 1,2",
        "[Partition my-orders-3 broker=1] Shrinking ISR from 1,2,0 to 1,2 (kafka.cluster.Partition)",
    ],
)
def test_a_shrink_of_old_releases_is_read_without_evidence(line: str) -> None:
    assert parse_kafka_line(STAMP + line) == IsrChange(AT_MS, ORDERS, A, (A, B, C), (A, B))


def test_a_shrink_with_offsets_is_read_with_them() -> None:
    line = (
        "[Partition my-orders-3 broker=1] Shrinking ISR from 1,2,0 to 1. Leader: (highWatermark: 7, endOffset: 20). "
        "Out of sync replicas: (brokerId: 2, endOffset: 19) (brokerId: 0, endOffset: -1). (kafka.cluster.Partition)"
    )
    change = parse_kafka_line(STAMP + line)
    assert change is not None
    assert (change.left, change.log_end_offset) == ((B, C), 20)
    assert change.progress == (Progress(B, 19), Progress(C, -1))


@pytest.mark.parametrize("zone_ms", [0, 3_600_000, -8 * 3_600_000, 5 * 3_600_000 + 1_800_000])
def test_the_time_of_the_last_catching_up_is_understood_in_any_zone(zone_ms: int) -> None:
    line = (
        "[Partition my-orders-3 broker=1] Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 0, endOffset: 20). "
        f"Out of sync replicas: (brokerId: 2, endOffset: 19, lastCaughtUpTimeMs: {AT_MS - zone_ms - 12_345})."
    )
    change = parse_kafka_line(STAMP + line)
    assert change is not None
    assert change.progress == (Progress(B, 19, AT_MS - 12_345),)


@pytest.mark.parametrize(
    "rest",
    [
        "Expanding ISR from 1 to 1,2 (kafka.cluster.Partition)",
        "Expanding ISR for partition my-orders-3 from 1 to 1,2",
    ],
)
def test_an_expansion_is_read(rest: str) -> None:
    change = parse_kafka_line(f"{STAMP}[Partition my-orders-3 broker=1] {rest}")
    assert change == IsrChange(AT_MS, ORDERS, A, (A,), (A, B))


@pytest.mark.parametrize(
    "rest",
    [
        "ISR updated to 1,2  and version updated to 47 (kafka.cluster.Partition)",
        "ISR updated to 1,2 (under-min-isr) and version updated to 47 (kafka.cluster.Partition)",
        "ISR updated to [1,2] and zkVersion updated to [47]",
        "ISR updated to [1,2] and version updated to [47]",
    ],
)
def test_an_update_is_read_whatever_its_wording(rest: str) -> None:
    change = parse_kafka_line(f"{STAMP}[Partition my-orders-3 broker=1] {rest}")
    assert change == IsrChange(AT_MS, ORDERS, A, (), (A, B))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Shrinking ISR from 1,2 to 1",
        STAMP + "[Partition my-orders-3 broker=1] Log loaded for partition my-orders-3 with initial high watermark 0",
        STAMP + "[ReplicaManager broker=1] Shrinking ISR from 1,2 to 1",
        STAMP + "[Partition my-orders-x broker=1] Shrinking ISR from 1,2 to 1",
    ],
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert parse_kafka_line(line) is None


def shrink(at_ms: int, follower: BrokerId = B, **known: int) -> IsrChange:
    return IsrChange(at_ms, ORDERS, A, (A, follower), (A,), 5_000, (Progress(follower, **known),))


def updated(at_ms: int, *members: BrokerId) -> IsrChange:
    return IsrChange(at_ms, ORDERS, A, (), members)


def test_an_update_that_says_again_what_a_shrink_said_is_no_change_and_one_that_adds_is_an_expansion() -> None:
    told = history([updated(9_000, A, B), shrink(1_000), updated(1_004, A)])
    assert (told.shrinks, told.expands, told.updates) == (1, 1, 2)
    assert [removal.back_after_ms for removal in told.removals()] == [8_000]


def test_whom_the_controller_took_out_was_not_thrown_out_for_lag() -> None:
    told = history([updated(0, A, B, C), updated(5_000, A, C)])
    assert (told.shrinks, told.removals()) == (0, [])
    by_controller = Decision(
        DecisionKind.ISR_SHRUNK, 1, A, "it died", ORDERS, controller_epoch=3, before={"isr": [1, 2]}, after={"isr": [1]}
    )
    change = from_decision(by_controller)
    assert change is not None
    assert history([change]).shrinks == 0


def test_what_the_controller_records_of_a_leaders_wish_is_not_counted_again() -> None:
    """Also where the controller's clock is a little behind the leader's."""
    by_leader = Decision(DecisionKind.ISR_SHRUNK, 100, A, "slow", ORDERS, before={"isr": [1, 2]}, after={"isr": [1]})
    for at_ms in (95, 136):
        echo = by_leader._replace(at_ms=at_ms, broker_id=C, controller_epoch=1)
        told = history([change for change in map(from_decision, (by_leader, echo)) if change is not None])
        assert (told.updates, len(told.removals())) == (1, 1)


def test_the_time_without_enough_in_sync_is_summed_up_to_the_end() -> None:
    told = history([shrink(1_000), updated(4_000, A, B), shrink(5_000), shrink_elsewhere(6_000)])
    assert told.refused_ms() == 3_000 + 1_000 + 0


def shrink_elsewhere(at_ms: int) -> IsrChange:
    return shrink(at_ms)._replace(partition=TopicPartition("audit", 0))


def verdict(choice: Choice, **known: int) -> Verdict:
    return judge(IsrHistory((shrink(100_000, **known),)).removals()[0], choice)


def test_a_policy_is_asked_with_what_the_leader_knew() -> None:
    far_but_recent = {"log_end_offset": 0, "last_caught_up_ms": 99_000, "last_fetch_ms": 99_900}
    assert verdict(BY_MESSAGES, **far_but_recent) is Verdict.OUT
    assert verdict(BY_TIME, **far_but_recent) is Verdict.STAYS
    near_but_long_ago = {"log_end_offset": 4_990, "last_caught_up_ms": 80_000, "last_fetch_ms": 99_900}
    assert verdict(BY_MESSAGES, **near_but_long_ago) is Verdict.STAYS
    assert verdict(BY_TIME, **near_but_long_ago) is Verdict.OUT


def test_what_a_record_does_not_tell_is_not_guessed() -> None:
    assert verdict(BY_TIME) is Verdict.UNKNOWN
    assert verdict(BY_TIME, log_end_offset=4_990) is Verdict.UNKNOWN
    assert verdict(BY_MESSAGES, log_end_offset=4_990) is Verdict.UNKNOWN  # it may have been stuck
    # What is not told makes no difference here: too far behind; or a fetch that caught up just before.
    assert verdict(BY_MESSAGES, log_end_offset=0) is Verdict.OUT
    assert verdict(BY_MESSAGES, log_end_offset=4_990, last_caught_up_ms=95_000) is Verdict.STAYS


def test_why_records_give_all_the_evidence() -> None:
    decision = Decision(
        DecisionKind.ISR_SHRUNK,
        AT_MS,
        A,
        "broker 2 last caught up 12000 ms ago",
        ORDERS,
        leader_epoch=4,
        before={"isr": [1, 2, 0]},
        after={"isr": [1, 0]},
        evidence={
            "log_end_offset": 70,
            "broker_2_log_end_offset": 60,
            "broker_2_last_caught_up_ms": AT_MS - 12_000,
            "broker_2_last_fetch_ms": AT_MS - 40,
        },
    )
    change = from_decision(decision)
    assert change == IsrChange(AT_MS, ORDERS, A, (A, B, C), (A, C), 70, (Progress(B, 60, AT_MS - 12_000, AT_MS - 40),))
    assert from_decision(decision._replace(kind=DecisionKind.FENCED)) is None


def test_the_policy_that_spares_who_was_back_at_once_is_recommended() -> None:
    known = {"log_end_offset": 0, "last_caught_up_ms": 900, "last_fetch_ms": 990}
    told = history([shrink(1_000, **known), updated(1_300, A, B)])
    judgements = [told.judge(choice) for choice in (BY_MESSAGES, BY_TIME)]
    assert [(each.out, each.needless, each.stays) for each in judgements] == [(1, 1, 0), (0, 0, 1)]
    advice = advise_from_history(told, judgements)
    assert advice is not None
    assert advice.choice == BY_TIME


def test_nothing_is_recommended_where_nothing_is_known() -> None:
    told = history([shrink(1_000)._replace(log_end_offset=None)])
    assert advise_from_history(told, [told.judge(BY_TIME)]) is None


@pytest.mark.parametrize(("name", "choice"), [("two-topics", BY_TIME), ("bursts", BY_MESSAGES)])
def test_the_why_records_of_a_run_say_of_each_removal_what_its_own_policy_said(name: str, choice: Choice) -> None:
    workload = next(each for each in workloads(3) if each.name == name)
    outcome = run_workload(workload, choice, minutes=3, seed=1)
    told = history(change for change in map(from_decision, outcome.decisions) if change is not None)
    judgement = told.judge(choice)
    assert judgement.out == outcome.removals > 0
    assert (judgement.stays, judgement.unknown, told.shrinks) == (0, 0, outcome.shrinks)
