"""The two lag policies on the same traces: what article 003 says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.replication.decide.lag_policy import LagPolicy, MessagesLagPolicy, TimeLagPolicy, lag_policy
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
