"""What a partition's why-records say, and which numbers stand beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode, RequestError
from kavka.model import LeaderAndIsr
from kavka.replication.decide.partition_reasons import following
from kavka.replication.decide.replica import BrokerStatus
from tests.unit.log.log_support import NOW_MS, PARTITION
from tests.unit.replication.replication_support import LAG_MS, A, B, C, D, Replica


def the_one(replica: Replica, kind: DecisionKind) -> Decision:
    """It names its broker and its partition."""
    (decision,) = replica.decided(kind)
    assert (decision.broker_id, decision.partition) == (replica.partition.local_broker_id, PARTITION)
    return decision


def test_a_leader_says_who_made_it_one_where_its_log_ends_and_what_is_committed(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B], leader_epoch=4, partition_epoch=9)
    decision = the_one(replica, DecisionKind.LEADERSHIP_TAKEN)
    assert decision.why == (
        "the controller made broker 1 the leader in epoch 4; its log ends at 0, and records below 0 are known to be "
        "committed"
    )
    assert decision.before == {"leader": -1, "leader_epoch": -1}
    assert decision.after == {"leader": A, "leader_epoch": 4, "isr": [A, B]}
    assert decision.evidence == {"is_new": False, "partition_epoch": 9, "replicas": [A, B, C]}
    assert decision.leader_epoch == 4


def test_a_leader_of_a_partition_that_was_just_made_says_so(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.partition.become_leader(LeaderAndIsr(A, 0, (A,), 0), (A,), now_ms=NOW_MS, is_new=True)
    assert the_one(replica, DecisionKind.LEADERSHIP_TAKEN).evidence["is_new"] is True


def test_a_follower_says_whom_it_follows_and_that_it_looks_where_the_logs_part(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.partition.become_follower(LeaderAndIsr(B, 2, (B, A), 0), (A, B), now_ms=NOW_MS)
    decision = the_one(replica, DecisionKind.FOLLOWING)
    assert decision.why == "broker 1 follows broker 2 in leader epoch 2, and first finds where their logs diverge"
    assert (decision.before["leader"], decision.after) == (-1, {"leader": B, "leader_epoch": 2})
    again = following(replica.partition, replica.partition.state, NOW_MS, needs_truncation=False)
    assert again.why == "broker 1 follows broker 2 in leader epoch 2"


def test_a_fetch_for_another_epoch_is_refused_with_both(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead(leader_epoch=3)
    with pytest.raises(RequestError):
        replica.fetch(B, leader_epoch=2)
    decision = the_one(replica, DecisionKind.FENCED)
    assert decision.why == "broker 2 fetched in leader epoch 2, broker 1 is in 3: FENCED_LEADER_EPOCH"
    assert decision.evidence == {"fetching_broker": B, "asked_epoch": 2, "error": "FENCED_LEADER_EPOCH"}


def test_a_fetch_of_a_brokers_former_self_is_refused_with_both_registrations(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.brokers.statuses[B] = BrokerStatus(8)
    why = "broker 2 sent this fetch before its restart, with broker epoch 5; it is registered with 8 now"
    with pytest.raises(RequestError, match=why) as refused:
        replica.fetch(B, broker_epoch=5)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    decision = the_one(replica, DecisionKind.FENCED)
    assert decision.why == why
    assert decision.evidence == {"fetching_broker": B, "broker_epoch": 5, "registered_epoch": 8}


def test_a_shrink_says_of_each_that_leaves_why_with_its_offset_and_its_times(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B, C, D], replicas=(A, B, C))
    replica.append(6)
    replica.now_ms += 1_000
    replica.fetch(B, 4)
    replica.now_ms += LAG_MS
    replica.fetch(C, 6)
    proposal = replica.partition.propose_shrink(replica.now_ms)
    assert proposal is not None
    decision = proposal.decision
    assert decision.kind is DecisionKind.ISR_SHRUNK
    assert decision.why == (
        "broker 2 last caught up 31000 ms ago, replica.lag.time.max.ms allows 30000 ms; broker 4 is no longer a replica"
    )
    assert (decision.before, decision.after) == ({"isr": [A, B, C, D]}, {"isr": [A, C]})
    assert decision.evidence == {
        "high_watermark": 4,
        "log_end_offset": 6,
        "leader_epoch_start_offset": 0,
        "broker_2_log_end_offset": 4,
        "broker_2_last_caught_up_ms": NOW_MS,
        "broker_2_last_fetch_ms": NOW_MS + 1_000,
    }


def test_an_expansion_says_how_far_the_joining_replica_is(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.append(6)
    replica.fetch(B, 5)
    proposal = replica.fetch(C, 6, broker_epoch=7).proposal
    assert proposal is not None
    decision = proposal.decision
    assert decision.why == "broker 3 has caught up: its log ends at 6, the high watermark is 5"
    assert (decision.before, decision.after) == ({"isr": [A, B]}, {"isr": [A, B, C]})
    assert decision.evidence == {
        "high_watermark": 5,
        "log_end_offset": 6,
        "leader_epoch_start_offset": 0,
        "joining": C,
        "log_end_offset_of_joining": 6,
        "broker_epoch_of_joining": 7,
    }


@pytest.mark.parametrize("current", [None, LeaderAndIsr(A, 1, (A,), 6)])
def test_a_refused_change_says_what_was_proposed_and_what_is_stored_if_the_answer_does(
    tmp_path: Path, current: LeaderAndIsr | None
) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B], partition_epoch=5)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.partition.on_isr_rejected(proposal, current, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    decision = the_one(replica, DecisionKind.ISR_CHANGE_REFUSED)
    assert decision.why == (
        "the ISR [1, 2, 3] was refused with INELIGIBLE_REPLICA: broker 3 has caught up: its log ends at 0, the high "
        "watermark is 0"
    )
    assert decision.before == {"isr": [A, B]}
    assert decision.after == ({} if current is None else {"isr": [A], "leader": A})
    assert decision.evidence == {"error": "INELIGIBLE_REPLICA", "partition_epoch": 5, "isr": [A, B, C]}
