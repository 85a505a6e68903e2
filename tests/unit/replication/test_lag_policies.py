"""The two lag policies on the same traces: what article 003 says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.replication.decide.lag_policy import LagPolicy, MessagesLagPolicy, TimeLagPolicy, lag_policy
from kavka.replication.decide.replica import RemoteReplica
from tests.unit.replication.replication_support import LAG_MS, A, B, Replica

MAX_MESSAGES = 4_000
POLICIES = {"time": TimeLagPolicy(LAG_MS), "messages": MessagesLagPolicy(LAG_MS, MAX_MESSAGES)}


def leave(replica: Replica) -> bool:
    """Whether somebody would be taken out of the ISR now."""
    return replica.partition.propose_shrink(replica.now_ms) is not None


@pytest.mark.parametrize(("name", "falls_out"), [("time", False), ("messages", True)])
def test_a_burst_throws_a_healthy_follower_out_under_messages_only(
    tmp_path: Path, name: str, *, falls_out: bool
) -> None:
    replica = Replica(tmp_path, lag_policy=POLICIES[name])
    replica.lead([A, B], replicas=(A, B))
    replica.fetch(B)
    replica.append(MAX_MESSAGES + 1)
    replica.now_ms += 100
    assert leave(replica) is falls_out


@pytest.mark.parametrize(("name", "falls_out"), [("time", True), ("messages", False)])
def test_a_follower_that_lags_on_a_topic_of_little_traffic_is_noticed_under_time_only(
    tmp_path: Path, name: str, *, falls_out: bool
) -> None:
    replica = Replica(tmp_path, lag_policy=POLICIES[name])
    replica.lead([A, B], replicas=(A, B))
    replica.append(10)
    replica.fetch(B, 0)
    for _ in range(10):
        # It fetches on and on, and never gets anywhere.
        replica.now_ms += LAG_MS // 5
        replica.append(1)
        replica.fetch(B, 0)
    assert leave(replica) is falls_out


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_stuck_follower_falls_out_under_both(tmp_path: Path, policy: LagPolicy) -> None:
    replica = Replica(tmp_path, lag_policy=policy)
    replica.lead([A, B], replicas=(A, B))
    replica.fetch(B)
    replica.append(1)
    replica.now_ms += LAG_MS
    assert not leave(replica)
    replica.now_ms += 1
    assert leave(replica)


@pytest.mark.setting("kavka.replica.lag.max.messages")
def test_exactly_as_many_records_behind_as_are_allowed_is_in_sync(tmp_path: Path) -> None:
    replica = Replica(tmp_path, lag_policy=POLICIES["messages"])
    replica.lead([A, B], replicas=(A, B))
    replica.fetch(B)
    replica.append(MAX_MESSAGES)
    assert not leave(replica)
    replica.append(1)
    proposal = replica.partition.propose_shrink(replica.now_ms)
    assert proposal is not None
    assert "is slow: 4001 records behind, kavka.replica.lag.max.messages allows 4000" in proposal.decision.why


@pytest.mark.setting("kavka.replica.lag.policy")
def test_a_setting_names_the_policy() -> None:
    assert lag_policy("time", max_ms=5, max_messages=7) == TimeLagPolicy(5)
    assert lag_policy("messages", max_ms=5, max_messages=7) == MessagesLagPolicy(5, 7)


def fetched(offset: int, *, leader_end_offset: int, at_ms: int) -> RemoteReplica:
    """A member of the ISR since 1,000 ms that fetched once."""
    replica = RemoteReplica(B)
    replica.reset(1_000, in_sync=True, keep_caught_up=False)
    replica.on_fetch(offset, log_start_offset=0, leader_end_offset=leader_end_offset, broker_epoch=-1, now_ms=at_ms)
    return replica


def test_a_policy_says_how_long_ago_and_how_far() -> None:
    time, messages = TimeLagPolicy(500), MessagesLagPolicy(500, 7)
    behind = fetched(10, leader_end_offset=18, at_ms=1_200)
    assert time.why(behind, 18, 2_000).startswith("last caught up 1000 ms ago")
    assert messages.why(behind, 18, 2_000).startswith("is slow: 8 records behind")
    assert messages.why(behind, 17, 2_000).startswith("is stuck: it last fetched 800 ms ago")
    never = RemoteReplica(B)
    assert time.why(never, 18, 2_000).startswith("never caught up")
    assert messages.why(never, 18, 2_000).startswith("is stuck: it never fetched")


def test_a_follower_that_has_everything_is_not_stuck_however_long_ago_it_fetched() -> None:
    assert MessagesLagPolicy(500, 7).is_in_sync(fetched(10, leader_end_offset=10, at_ms=1_200), 10, 1 << 40)


def test_a_follower_that_has_not_fetched_in_this_leader_epoch_is_not_slow_however_long_the_log_is() -> None:
    replica = RemoteReplica(B)
    replica.reset(1_000, in_sync=True, keep_caught_up=False)
    assert MessagesLagPolicy(500, 7).is_in_sync(replica, 1_000_000, 1_500)
    assert not MessagesLagPolicy(500, 7).is_in_sync(replica, 1_000_000, 1_501)


def test_what_counts_as_slow_is_the_distance_and_not_the_length_of_the_log() -> None:
    assert MessagesLagPolicy(500, 7).is_in_sync(fetched(10, leader_end_offset=17, at_ms=1_200), 17, 1_200)
