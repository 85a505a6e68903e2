"""Article 003's claims, on the model of `kavka lag-policy`: short runs of it, with the decision code of a broker."""

from __future__ import annotations

import functools

import pytest

from kavka.replication.decide.lag_policy import MESSAGES, TIME
from kavka.studies.lag_advice import advise
from kavka.studies.lag_outcome import Choice, Outcome
from kavka.studies.lag_policy import LagRun, replay, run_workload
from kavka.studies.lag_workload import Workload, articles_example, workloads

MINUTES = 3
BY_TIME = Choice(TIME, 10_000)
BY_MESSAGES = Choice(MESSAGES, 10_000, 4_000)
MANY_MESSAGES = Choice(MESSAGES, 10_000, 40_000)


def workload(name: str, minutes: float = MINUTES) -> Workload:
    return next(each for each in workloads(minutes) if each.name == name)


@functools.cache
def outcome(name: str, choice: Choice, seed: int = 1) -> Outcome:
    return run_workload(workload(name), choice, minutes=MINUTES, seed=seed)


@pytest.mark.parametrize("choice", [BY_TIME, BY_MESSAGES])
def test_under_steady_traffic_nobody_leaves(choice: Choice) -> None:
    steady = outcome("steady", choice)
    assert (steady.shrinks, steady.isr_updates, steady.blocked_ms, steady.writes_refused) == (0, 0, 0, 0)
    assert steady.commit_max_ms < 100


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bursts_make_healthy_followers_flap_out_and_in_under_messages(seed: int) -> None:
    flapping = outcome("bursts", BY_MESSAGES, seed)
    assert flapping.false_alarms >= 4
    assert flapping.removals == flapping.false_alarms
    assert flapping.expands >= flapping.false_alarms - 2  # all are back, but for those of the last moment
    assert flapping.isr_updates == flapping.shrinks + flapping.expands
    assert all(span.until_ms - span.from_ms < 1_000 for span in flapping.out_of_isr)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bursts_change_nothing_under_time(seed: int) -> None:
    assert outcome("bursts", BY_TIME, seed).isr_updates == 0


def test_while_both_followers_are_out_for_a_burst_acks_all_is_refused() -> None:
    assert outcome("bursts", BY_MESSAGES).refused_ms > 0
    assert outcome("bursts", BY_TIME).refused_ms == 0


def test_a_follower_that_lags_on_a_topic_of_little_traffic_is_not_noticed_under_messages() -> None:
    unnoticed = outcome("two-topics", BY_MESSAGES)
    assert (unnoticed.to_be_found, unnoticed.overlooked) == (1, 1)
    assert unnoticed.false_alarms > 0  # the other topic flaps meanwhile
    assert unnoticed.commit_max_ms > 10_000  # and acks=all waits for the laggard
    assert outcome("two-topics", MANY_MESSAGES).overlooked == 1


def test_time_notices_it_within_one_and_a_half_limits_and_throws_nobody_else_out() -> None:
    noticed = outcome("two-topics", BY_TIME)
    assert noticed.overlooked == noticed.false_alarms == 0
    # What is measured begins with the slowness; the follower lags only when it is a second behind.
    assert noticed.worst_detection_ms is not None
    assert 10_000 < noticed.worst_detection_ms <= 15_000 + 2_500


@pytest.mark.parametrize("name", ["slow-follower", "stuck-follower"])
@pytest.mark.parametrize("choice", [BY_TIME, BY_MESSAGES])
def test_slow_and_stuck_followers_of_a_busy_topic_are_found_by_both_and_come_back(name: str, choice: Choice) -> None:
    found = outcome(name, choice)
    assert (found.overlooked, found.false_alarms, found.removals, found.expands) == (0, 0, 1, 1)


def test_messages_finds_the_lag_of_a_busy_topic_sooner() -> None:
    by_messages, by_time = outcome("stuck-follower", BY_MESSAGES), outcome("stuck-follower", BY_TIME)
    assert by_messages.worst_detection_ms is not None
    assert by_time.worst_detection_ms is not None
    assert by_messages.worst_detection_ms < by_time.worst_detection_ms
    assert by_messages.stalled_ms < by_time.stalled_ms


def test_a_short_pause_is_a_false_alarm_under_messages_only() -> None:
    assert outcome("gc-pauses", BY_MESSAGES).false_alarms > 0
    assert outcome("gc-pauses", BY_TIME).false_alarms == 0


@pytest.mark.parametrize("choice", [BY_TIME, BY_MESSAGES])
def test_a_new_follower_joins_once_when_it_has_caught_up(choice: Choice) -> None:
    new = outcome("new-follower", choice)
    assert (new.expands, new.shrinks, new.false_alarms) == (1, 0, 0)
    # 200,000 records at 20,000/s, and what is written meanwhile.
    assert new.joined_after_ms is not None
    assert 10_000 <= new.joined_after_ms < 12_000


def test_the_same_seed_gives_the_same_outcome_and_another_seed_another_one() -> None:
    again = run_workload(workload("bursts"), BY_MESSAGES, minutes=MINUTES, seed=1)
    assert again == outcome("bursts", BY_MESSAGES)
    assert again != outcome("bursts", BY_MESSAGES, 2)


def test_a_trace_run_again_under_its_own_policy_gives_the_same_decisions() -> None:
    for name in ("two-topics", "new-follower"):
        chosen = workload(name)
        run = LagRun(chosen, BY_TIME, minutes=MINUTES, seed=1, keeps_trace=True)
        original = run.run()
        assert run.trace
        again = replay(run.trace, BY_TIME, ailments=chosen.ailments)
        assert (again.shrinks, again.expands, again.false_alarms) == (
            original.shrinks,
            original.expands,
            original.false_alarms,
        )
        assert len(again.detection_ms) == len(original.detection_ms)


def test_a_trace_tells_what_another_policy_would_have_done() -> None:
    run = LagRun(workload("bursts"), BY_TIME, minutes=MINUTES, seed=1, keeps_trace=True)
    run.run()
    assert replay(run.trace or [], BY_MESSAGES).false_alarms > 0
    assert replay(run.trace or [], BY_TIME).false_alarms == 0


def test_time_is_recommended_and_the_reason_says_why_no_number_of_messages_fits() -> None:
    chosen = [workload("bursts"), workload("two-topics")]
    outcomes = [outcome(each.name, choice) for each in chosen for choice in (BY_MESSAGES, MANY_MESSAGES, BY_TIME)]
    advice = advise(outcomes, chosen)
    assert advice.choice == BY_TIME
    assert "found 1 of 1 lagging followers" in advice.reasons[0]
    assert "threw healthy ones out" in advice.reasons[1]
    # 5,000 records at a lag that grows by 2 records/s.
    assert "noticed after 42 min at the earliest" in advice.reasons[-1]


def test_the_recommendation_follows_the_figures() -> None:
    """On the stuck follower alone, messages is sooner: it is recommended then."""
    outcomes = [outcome("stuck-follower", choice) for choice in (BY_TIME, BY_MESSAGES)]
    assert advise(outcomes).choice == BY_MESSAGES


def test_a_burst_between_two_points_of_a_lag_curve_is_seen() -> None:
    points = outcome("bursts", BY_TIME).lags["orders-0 broker 2"]
    assert max(behind for _ms, behind in points) >= 5_000
    # A burst every 2 s, a point every 0.6 s.
    assert sum(behind >= 5_000 for _ms, behind in points) >= 80


def test_the_articles_small_numbers_flap_where_more_than_the_limit_comes_at_once() -> None:
    """replica.lag.max.messages=4: one or two records at a time are safe, five at a time throw live followers out."""
    alarms = {
        workload.name: run_workload(workload, choice, minutes=3, seed=1).false_alarms
        for workload in articles_example(3)
        for choice in (Choice("messages", 10_000, 4),)
    }

    assert alarms["batches-of-1"] == alarms["batches-of-2"] == 0
    assert alarms["batches-of-5"] > 3
