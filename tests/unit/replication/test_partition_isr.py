"""Who is in sync: joining, leaving, and what an answer to a proposal changes. S-numbers: see the design's list of
counterexamples; each test is named by what would go wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode, RequestError
from kavka.model import LeaderAndIsr
from kavka.replication.decide.isr_states import CommittedIsr, PendingExpand, PendingShrink
from kavka.replication.decide.partition import REFUSED_PROPOSAL_PAUSE_MS
from kavka.replication.decide.refusals import MAX_RECORD_INTERVAL_MS, RECORD_INTERVAL_MS
from kavka.replication.decide.replica import BrokerStatus
from tests.unit.replication.replication_support import LAG_MS, A, B, C, D, Replica


def test_s13_a_follower_does_not_join_before_it_has_reached_the_start_of_the_leader_epoch(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.append(5)
    replica.fetch(B)
    replica.append(3)
    replica.lead([A, B], leader_epoch=2, partition_epoch=1)
    assert (replica.high_watermark, replica.partition.leader_epoch_start_offset) == (5, 8)
    assert replica.fetch(C, 5).proposal is None
    assert replica.fetch(C, 7).proposal is None
    proposal = replica.fetch(C, 8).proposal
    assert proposal is not None
    assert proposal.isr == (A, B, C)


def test_s13_a_follower_does_not_join_below_the_high_watermark(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.append(5)
    replica.fetch(B)
    assert replica.high_watermark == 5
    assert replica.fetch(C, 4).proposal is None
    assert replica.fetch(C, 5).proposal is not None


def test_s14_nothing_is_committed_without_a_replica_whose_joining_is_in_flight(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    replica.append(4)
    replica.fetch(B)
    # The controller may have stored {A, B, C} already, and elect C next.
    assert replica.high_watermark == 0
    assert replica.isr == (A, B)
    assert isinstance(replica.partition.isr_state, PendingExpand)
    replica.commit(proposal)
    assert replica.high_watermark == 0
    assert replica.fetch(C).high_watermark_advanced
    assert replica.high_watermark == 4


def test_s14_the_same_state_announced_again_does_not_forget_the_replica_that_may_have_joined(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    assert replica.fetch(C).proposal is not None
    replica.append(4)
    replica.lead([A, B])
    replica.fetch(B)
    assert replica.high_watermark == 0


def test_s15_nothing_is_committed_without_a_replica_whose_leaving_is_in_flight(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.in_sync()
    replica.append(4)
    replica.now_ms += LAG_MS + 1
    replica.fetch(B)
    proposal = replica.partition.propose_shrink(replica.now_ms)
    assert proposal is not None
    assert proposal.isr == (A, B)
    assert isinstance(replica.partition.isr_state, PendingShrink)
    replica.fetch(B)
    assert replica.high_watermark == 0
    # KAFKA-13091: the answer alone lets the high watermark rise, without another fetch.
    assert replica.commit(proposal).high_watermark_advanced
    assert replica.high_watermark == 4


def test_s16_an_answer_that_shows_what_was_stored_ends_a_stale_version(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    stored = LeaderAndIsr(A, 1, (A, B), 7)
    change = replica.partition.on_isr_rejected(
        proposal, stored, ErrorCode.INVALID_UPDATE_VERSION, now_ms=replica.now_ms
    )
    assert change.isr_changed
    assert replica.partition.state == stored
    again = replica.fetch(C).proposal
    assert again is None, "refused: it is proposed again after a pause"
    replica.now_ms += REFUSED_PROPOSAL_PAUSE_MS
    again = replica.fetch(C).proposal
    assert again is not None
    assert again.partition_epoch == 7


def test_s16_an_answer_that_shows_another_leader_ends_the_leadership(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    change = replica.partition.on_isr_rejected(
        proposal, LeaderAndIsr(B, 2, (A, B), 1), ErrorCode.FENCED_LEADER_EPOCH, now_ms=replica.now_ms
    )
    assert change.lost_leadership
    with pytest.raises(RequestError) as refused:
        replica.append()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    # The state as the old controller knew it comes late: it must not bring the leader back.
    assert replica.lead([A, B]).is_stale
    assert not replica.partition.is_leader
    assert not replica.lead([A], leader_epoch=3, partition_epoch=2).is_stale
    assert replica.partition.is_leader


def test_a_leader_whose_epoch_is_over_leads_no_more_if_it_hears_of_no_other(tmp_path: Path) -> None:
    """The controller cannot reach it, and had another one elected; it can reach the controller."""
    replica = Replica(tmp_path)
    replica.lead([A, B])
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    assert not replica.partition.resign_if_fenced(replica.now_ms)
    replica.partition.on_isr_rejected(proposal, None, ErrorCode.FENCED_LEADER_EPOCH, now_ms=replica.now_ms)
    replica.append(acks=1)
    assert replica.partition.resign_if_fenced(replica.now_ms)
    with pytest.raises(RequestError) as refused:
        replica.append(acks=1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    (decision,) = replica.decided(DecisionKind.FENCED)
    assert decision.evidence == {"leader_epoch": 1, "later_epoch": 2}
    assert not replica.lead([A], leader_epoch=2, partition_epoch=1).is_stale
    assert not replica.partition.resign_if_fenced(replica.now_ms)
    assert replica.partition.is_leader


def test_s16_a_refusal_that_leaves_it_open_whether_it_was_stored_keeps_the_maximal_isr(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    assert not replica.partition.on_isr_rejected(
        proposal, None, ErrorCode.INVALID_UPDATE_VERSION, now_ms=replica.now_ms
    ).isr_changed
    replica.append(2)
    replica.fetch(B)
    assert replica.high_watermark == 0
    # It is asked again, with the same content: the answer tells.
    assert replica.partition.propose_shrink(replica.now_ms) is proposal
    replica.commit(proposal)
    assert replica.partition.isr_state == CommittedIsr((A, B, C))


def test_s16_a_lost_answer_leaves_the_proposal_in_flight(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.partition.on_isr_unknown(proposal)
    assert replica.partition.wants(proposal)
    assert replica.partition.isr_state.maximal_isr == (A, B, C)


def test_s17_there_is_one_proposal_in_flight_and_an_answer_to_another_changes_nothing(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B], replicas=(A, B, C, D))
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    assert replica.fetch(D).proposal is None
    assert replica.partition.propose_shrink(replica.now_ms + LAG_MS + 1) is None
    # LeaderAndIsr comes while the proposal is in flight: the newer version counts, the late answer does not.
    replica.lead([A, B, D], partition_epoch=5, replicas=(A, B, C, D))
    assert replica.fetch(C).proposal is None, "the one before is not answered yet"
    change = replica.commit(proposal)
    assert not change.isr_changed
    assert replica.isr == (A, B, D)
    second = replica.fetch(C).proposal
    assert second is not None
    assert (second.partition_epoch, second.isr) == (5, (A, B, D, C))
    assert not replica.commit(proposal).isr_changed, "answered once already"
    assert replica.partition.wants(second)


def test_s17_a_new_leader_epoch_does_not_wait_for_the_answers_of_the_old_one(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    old = replica.fetch(C).proposal
    assert old is not None
    replica.lead([A, B], leader_epoch=2, partition_epoch=1)
    new = replica.fetch(C).proposal
    assert new is not None
    assert not replica.commit(old).isr_changed
    assert replica.commit(new).isr_changed


def test_s18_a_follower_that_fetched_in_a_former_life_does_not_join(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.brokers.statuses[C] = BrokerStatus(broker_epoch=20)
    with pytest.raises(RequestError) as fenced:
        replica.fetch(C, broker_epoch=10)
    assert fenced.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(replica.decided(DecisionKind.FENCED)) == 1
    remote = replica.partition.remote_replica(C)
    assert remote is not None
    assert remote.log_end_offset == -1
    # It is back, and its registration is known here only later.
    replica.brokers.statuses[C] = BrokerStatus(broker_epoch=20)
    assert replica.fetch(C, broker_epoch=30).proposal is None
    proposal = replica.fetch(C, broker_epoch=20).proposal
    assert proposal is not None
    assert proposal.new_isr == ((A, -1), (B, -1), (C, 20))


def test_s19_a_replica_that_was_taken_out_and_put_back_has_nothing_until_it_fetches_again(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.append(3)
    replica.fetch(B)
    replica.fetch(C, 2)
    replica.lead([A, B], partition_epoch=1, replicas=(A, B))
    replica.lead([A, B], partition_epoch=2, replicas=(A, B, C))
    remote = replica.partition.remote_replica(C)
    assert remote is not None
    assert remote.log_end_offset == -1


def test_s19_what_was_fetched_in_an_earlier_leader_epoch_commits_nothing(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.append(3)
    replica.fetch(B, 2)
    assert replica.high_watermark == 2
    replica.lead([A, B], leader_epoch=2, partition_epoch=1)
    remote = replica.partition.remote_replica(B)
    assert remote is not None
    assert remote.log_end_offset == -1
    with pytest.raises(RequestError) as fenced:
        replica.fetch(B, 3, leader_epoch=1)
    assert fenced.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert replica.high_watermark == 2


@pytest.mark.parametrize("status", [None, BrokerStatus(is_shutting_down=True)], ids=["dead", "shutting down"])
def test_s20_who_is_leaving_neither_joins_nor_holds_the_high_watermark(
    tmp_path: Path, status: BrokerStatus | None
) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    if status is None:
        del replica.brokers.statuses[C]
    else:
        replica.brokers.statuses[C] = status
    assert replica.fetch(C).proposal is None
    replica.append(2)
    replica.fetch(B)
    assert replica.high_watermark == 2


def test_a_caught_up_replica_that_waits_to_join_holds_the_high_watermark(tmp_path: Path) -> None:
    """Otherwise it would run after a high watermark that never stands still."""
    replica = Replica(tmp_path)
    replica.lead([A, B], replicas=(A, B, C, D))
    replica.fetch(B)
    assert replica.fetch(C).proposal is not None
    assert replica.fetch(D).proposal is None, "one proposal at a time"
    replica.append(2)
    replica.fetch(B)
    replica.fetch(C)
    assert replica.high_watermark == 0
    replica.now_ms += LAG_MS + 1
    replica.append(1)
    replica.fetch(B)
    replica.fetch(C)
    assert replica.high_watermark == 3, "after the time limit it holds nothing any more"


def test_s22_a_follower_at_the_log_end_stays_in_sync_however_long_it_is_silent(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.append(2)
    replica.in_sync()
    replica.now_ms += 100 * LAG_MS
    assert replica.partition.propose_shrink(replica.now_ms) is None


def test_s22_a_follower_that_reaches_the_log_end_of_its_previous_fetch_is_caught_up(tmp_path: Path) -> None:
    """KAFKA-4485: under load nobody ever reaches the end as it is now."""
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    seen = replica.end_offset
    for _ in range(10):
        replica.now_ms += LAG_MS // 2
        replica.append(100)
        reached, seen = seen, replica.end_offset
        replica.fetch(B, reached)
        assert replica.partition.propose_shrink(replica.now_ms) is None
    replica.now_ms += LAG_MS + 1
    assert replica.partition.propose_shrink(replica.now_ms) is not None


def test_a_member_that_never_fetches_leaves_after_the_time_limit(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.append(2)
    assert replica.partition.propose_shrink(replica.now_ms + LAG_MS) is None
    proposal = replica.partition.propose_shrink(replica.now_ms + LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (A,)
    assert proposal.decision.evidence["broker_2_log_end_offset"] == -1
    assert proposal.decision.evidence["log_end_offset"] == 2
    assert "replica.lag.time.max.ms allows 30000 ms" in proposal.decision.why


def test_the_same_leader_in_another_epoch_gives_no_new_time_to_who_lags(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.append(2)
    replica.now_ms += LAG_MS
    replica.lead(leader_epoch=2, partition_epoch=1)
    assert replica.partition.propose_shrink(replica.now_ms + 1) is not None


def test_a_decision_is_recorded_when_the_change_is_stored_and_not_before(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert replica.decided(DecisionKind.ISR_EXPANDED) == []
    replica.commit(proposal)
    (decision,) = replica.decided(DecisionKind.ISR_EXPANDED)
    assert (decision.before, decision.after) == ({"isr": [A, B]}, {"isr": [A, B, C]})


def test_an_ineligible_replica_is_out_of_the_maximal_isr_at_once_and_is_proposed_again_later(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    change = replica.partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    assert change.isr_changed
    assert replica.partition.isr_state == CommittedIsr((A, B))
    assert replica.fetch(C).proposal is None
    replica.now_ms += REFUSED_PROPOSAL_PAUSE_MS
    assert replica.fetch(C).proposal is not None


def test_an_ineligible_replica_holds_the_high_watermark_no_more_until_it_fetches_again(tmp_path: Path) -> None:
    """It may be dead: the controller knows, and a leader hears of it when the session is over."""
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.append(1)
    replica.fetch(B)
    assert replica.high_watermark == 0
    change = replica.partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    assert change.high_watermark_advanced
    assert replica.high_watermark == 1
    replica.fetch(C)
    replica.append(1)
    replica.fetch(B)
    assert replica.high_watermark == 2, "with this fetch it may have stopped: it cannot be proposed before the pause"
    replica.now_ms += REFUSED_PROPOSAL_PAUSE_MS
    replica.append(1)
    replica.fetch(B)
    assert replica.high_watermark == 3
    assert replica.fetch(C).proposal is not None
    replica.append(1)
    replica.fetch(B)
    assert replica.high_watermark == 3, "it lives"


def test_a_refused_replica_that_is_behind_is_waited_for_again_after_the_pause(tmp_path: Path) -> None:
    """It could not catch up with a high watermark that never waits for it."""
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    replica.append(2)
    replica.fetch(B)
    replica.now_ms += REFUSED_PROPOSAL_PAUSE_MS
    replica.fetch(C)
    replica.append(1)
    replica.fetch(B)
    assert replica.high_watermark == 2, "replica C has these two, and holds the third"


def test_a_refused_replica_is_waited_for_from_its_first_fetch_after_the_pause(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B], replicas=(A, B, C, D))
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    for pause_ms, expected in [(REFUSED_PROPOSAL_PAUSE_MS - 1, 1), (1, 1)]:
        replica.now_ms += pause_ms
        replica.fetch(D)
        assert replica.fetch(C).proposal is None, "one proposal at a time"
        replica.append(1)
        replica.fetch(B)
        replica.fetch(D)
        assert replica.high_watermark == expected


def test_refusals_are_recorded_once_a_second_with_their_number(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    for _ in range(5):
        with pytest.raises(RequestError):
            replica.fetch(B, leader_epoch=0)
    replica.now_ms += RECORD_INTERVAL_MS
    with pytest.raises(RequestError):
        replica.fetch(B, leader_epoch=0)
    first, second = replica.decided(DecisionKind.FENCED)
    assert "not_recorded_since" not in first.evidence
    assert second.evidence["not_recorded_since"] == 4


def test_refusals_that_go_on_are_recorded_less_and_less_often(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()

    def refuse_for(seconds: int) -> int:
        before = len(replica.decided(DecisionKind.FENCED))
        for _ in range(seconds * 2):
            replica.now_ms += 500
            with pytest.raises(RequestError):
                replica.fetch(B, leader_epoch=0)
        return len(replica.decided(DecisionKind.FENCED)) - before

    assert refuse_for(64) in range(6, 9)
    assert refuse_for(600) in range(9, 12), "one a minute"
    refused = sum(
        int(str(each.evidence.get("not_recorded_since", 0))) + 1 for each in replica.decided(DecisionKind.FENCED)
    )
    assert refused >= 1_328 - 120
    replica.now_ms += 2 * MAX_RECORD_INTERVAL_MS
    assert refuse_for(8) >= 3, "after a pause it is news again"


def test_a_broker_that_is_no_replica_yet_is_told_to_try_again(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B], replicas=(A, B))
    for epoch, code in ((1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        with pytest.raises(RequestError) as refused:
            replica.fetch(C, leader_epoch=epoch)
        assert refused.value.code is code
