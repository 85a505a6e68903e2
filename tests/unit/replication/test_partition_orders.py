"""A partition's orders, requests and answers at their edges: what is stale, what is repeated, what comes too late."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode, InvariantViolation, RequestError
from kavka.model import NO_EPOCH, NO_LEADER, NO_OFFSET, LeaderAndIsr
from kavka.records.batch import batch_at
from kavka.replication.decide.isr_states import CommittedIsr, IsrProposal
from kavka.replication.decide.partition import REFUSED_PROPOSAL_PAUSE_MS, Partition, Role
from kavka.replication.decide.partition_results import IsrChange
from kavka.replication.decide.replica import BrokerStatus
from tests.unit.log.log_support import batch, grant
from tests.unit.replication.replication_support import LAG_MS, PARTITION, TOPIC_ID, A, B, C, D, Replica

THREE = (A, B, C)


def refused(code: ErrorCode) -> pytest.RaisesExc[RequestError]:
    return pytest.RaisesExc(RequestError, check=lambda error: error.code is code)


def propose_shrink(replica: Replica) -> IsrProposal:
    replica.append(acks=1)
    replica.now_ms += LAG_MS + 1
    proposal = replica.partition.propose_shrink(replica.now_ms)
    assert proposal is not None
    return proposal


# -- orders


def test_before_its_first_order_a_replica_neither_leads_nor_serves(tmp_path: Path) -> None:
    partition = Replica(tmp_path).partition
    assert partition.role is Role.NONE
    assert not partition.is_leader
    for ask in (partition.check_leads, partition.check_serves):
        with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
            ask()
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        partition.append_as_leader(batch(1), required_acks=1, now_ms=0, wall_ms=0)


@pytest.mark.parametrize(
    "order",
    [LeaderAndIsr(A, 2, THREE, 4), LeaderAndIsr(A, 1, THREE, 9)],
    ids=["an older version of this epoch", "an older epoch"],
)
def test_an_older_order_changes_nothing_whoever_it_names(tmp_path: Path, order: LeaderAndIsr) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition
    replica.lead((A, B), leader_epoch=2, partition_epoch=5)
    known = partition.state
    assert partition.become_leader(order, THREE, now_ms=0).is_stale
    assert partition.become_follower(order._replace(leader=B), THREE, now_ms=0).is_stale
    assert (partition.role, partition.state, partition.isr_state) == (Role.LEADER, known, CommittedIsr((A, B)))


def test_the_same_order_again_is_not_stale_and_no_news(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    first = replica.lead(leader_epoch=0)
    again = replica.lead(leader_epoch=0)
    assert (first.is_stale, first.is_new_epoch, len(first.decisions)) == (False, True, 1)
    assert (again.is_stale, again.is_new_epoch, again.decisions) == (False, False, ())
    follower = Replica(tmp_path / "follower", own=B).partition
    order = LeaderAndIsr(A, 0, THREE, 0)
    news = follower.become_follower(order, THREE, now_ms=0)
    repeated = follower.become_follower(order, THREE, now_ms=0)
    assert (news.is_stale, news.needs_truncation, len(news.decisions)) == (False, True, 1)
    assert (repeated.is_stale, repeated.needs_truncation, repeated.decisions) == (False, False, ())


def test_a_newer_version_of_the_epoch_ends_a_proposal_and_the_same_one_does_not(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead(partition_epoch=3)
    propose_shrink(replica)
    pending = replica.partition.isr_state
    replica.lead(partition_epoch=3)
    assert replica.partition.isr_state is pending
    replica.lead((A, B), partition_epoch=4)
    assert replica.partition.isr_state == CommittedIsr((A, B))


def test_a_follower_takes_over_the_order_and_forgets_its_own_proposals(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition
    replica.lead()
    proposal = propose_shrink(replica)
    assert partition.wants(proposal)
    partition.become_follower(LeaderAndIsr(B, 2, (B, D), 1), (A, B, D), now_ms=0)
    assert not partition.wants(proposal)
    assert partition.isr_state == CommittedIsr((B, D))
    assert partition.replicas == (A, B, D)
    assert partition.leader_epoch_start_offset == NO_OFFSET
    assert partition.on_isr_committed(proposal, proposal.state, now_ms=0) == IsrChange()
    assert partition.state.leader == B


def test_a_leader_whose_log_was_cut_meanwhile_begins_with_the_high_watermark_that_it_has(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    for _ in range(5):
        replica.append()
    replica.in_sync()
    assert replica.high_watermark == 5
    replica.partition.become_follower(LeaderAndIsr(B, 2, THREE, 1), THREE, now_ms=0)
    replica.partition.log.truncate_to(2, now_ms=0)
    replica.lead(leader_epoch=3, partition_epoch=2)
    replica.append(1)
    replica.in_sync()
    assert replica.high_watermark == 3


def test_a_refusal_pauses_proposals_until_the_next_leader_epoch(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead((A, B))
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    assert replica.fetch(C).proposal is None
    replica.lead((A, B), leader_epoch=2, partition_epoch=1)
    assert replica.fetch(C).proposal is not None


def test_a_refusal_pauses_proposals_for_a_bounded_time(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead((A, B))
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    replica.now_ms += REFUSED_PROPOSAL_PAUSE_MS - 1
    assert replica.fetch(C).proposal is None
    replica.now_ms += 1
    assert replica.fetch(C).proposal is not None


# -- all of it as a value


def test_what_a_flight_recording_says_of_a_partition_before_its_first_order(tmp_path: Path) -> None:
    snapshot = Replica(tmp_path).partition.snapshot()
    assert (snapshot.role, snapshot.state) == ("none", LeaderAndIsr(NO_LEADER, NO_EPOCH, (), -1))
    assert (snapshot.newest_epoch, snapshot.leader_epoch_start_offset) == (NO_EPOCH, NO_OFFSET)
    assert (snapshot.hw_floor, snapshot.may_propose_ms, snapshot.in_flight, snapshot.remotes) == (0, 0, None, ())


def test_a_flight_recording_has_the_newest_epoch_that_an_order_named(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead(leader_epoch=4)
    led = replica.partition.snapshot()
    assert (led.newest_epoch, led.may_propose_ms) == (4, 0)
    replica.partition.become_follower(LeaderAndIsr(B, 6, THREE, 1), THREE, now_ms=0)
    assert replica.partition.snapshot().newest_epoch == 6


def test_a_partition_made_from_a_snapshot_goes_on_where_the_other_one_was(tmp_path: Path) -> None:
    replica = Replica(tmp_path, min_insync_replicas=2)
    replica.lead(leader_epoch=4, partition_epoch=2, replicas=(A, B, C, D))
    replica.append(3)
    replica.fetch(C)
    replica.fetch(B, broker_epoch=6)
    assert replica.high_watermark == 3
    replica.append(2)
    proposal = propose_shrink(replica)
    replica.partition.on_isr_rejected(proposal, None, ErrorCode.FENCED_LEADER_EPOCH, now_ms=replica.now_ms)
    assert replica.partition.propose_shrink(replica.now_ms) is proposal
    copy = Partition(PARTITION, TOPIC_ID, replica.partition.log, local_broker_id=A, min_insync_replicas=1)
    copy.restore(replica.partition.snapshot())
    assert copy.snapshot() == replica.partition.snapshot()
    assert copy.role is Role.LEADER
    assert copy.is_leader
    assert copy.wants(proposal)
    assert [(each.broker_id, each.in_maximal_isr) for each in copy.remote_replicas()] == [
        (B, True),
        (C, True),
        (D, False),
    ]
    # The same input leads to the same end.
    ended = [each.resign_if_fenced(replica.now_ms) is not None for each in (copy, replica.partition)]
    assert ended == [True, True]


# -- requests


def test_a_read_in_another_leader_epoch_is_refused_and_one_without_an_epoch_is_not(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition

    def read(epoch: int) -> None:
        partition.read(0, 1000, current_leader_epoch=epoch, read_committed=False, min_one_batch=True)

    replica.lead(leader_epoch=1)
    for ask in (read, partition.check_leads, partition.check_serves, partition.check_epoch):
        for epoch in (-1, 1):
            ask(epoch)
        with refused(ErrorCode.FENCED_LEADER_EPOCH):
            ask(0)
        with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
            ask(2)
    partition.become_follower(LeaderAndIsr(B, 2, THREE, 1), THREE, now_ms=0)
    partition.check_serves(2)
    for refuse in (read, partition.check_leads):
        with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
            refuse(2)


def test_read_committed_stops_before_an_open_transaction(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition
    replica.lead([A], replicas=(A,))
    replica.append(2)
    open_one = batch(1, producer_id=5, transactional=True)
    sent = batch_at(memoryview(open_one))
    assert sent is not None
    grant(partition.log, sent.header)
    partition.append_as_leader(open_one, required_acks=1, now_ms=replica.now_ms, wall_ms=replica.now_ms)

    def size(*, read_committed: bool) -> int:
        found = partition.read(0, 10_000, current_leader_epoch=-1, read_committed=read_committed, min_one_batch=True)
        return found.size_bytes

    assert 0 < size(read_committed=True) < size(read_committed=False)


def test_a_follower_is_told_what_is_wrong_with_its_fetch(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition
    replica.lead(leader_epoch=0)
    assert partition.follower(B, -1, 0).broker_id == B
    with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
        partition.follower(D, 0, 0)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        partition.follower(D, -1, 0)
    partition.become_follower(LeaderAndIsr(NO_LEADER, 1, THREE, 1), THREE, now_ms=0)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        partition.follower(B, 1, 0)


@pytest.mark.parametrize("offset", [-1, 3])
def test_a_fetch_that_cannot_have_been_read_halts(tmp_path: Path, offset: int) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.append(2)
    with pytest.raises(InvariantViolation, match=f"at {offset} was read"):
        replica.fetch(B, offset)


def test_a_fetch_that_does_not_say_its_brokers_epoch_counts(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.append(2)
    replica.brokers.statuses[B] = BrokerStatus(broker_epoch=5)
    replica.fetch(B, 1, broker_epoch=5)
    replica.fetch(B)
    replica.fetch(C)
    assert replica.high_watermark == 2
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        replica.fetch(B, broker_epoch=4)


def test_a_fetch_tells_whether_the_followers_log_start_moved_and_the_low_watermark_follows(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.append(4)
    replica.in_sync()
    replica.partition.log.advance_log_start_offset(3)

    def fetch(broker_id: int, log_start_offset: int) -> bool:
        return replica.partition.record_follower_fetch(
            broker_id, -1, 4, leader_end_offset=4, log_start_offset=log_start_offset, now_ms=replica.now_ms
        ).log_start_moved

    assert replica.partition.low_watermark == 0
    assert fetch(B, 3)
    assert not fetch(B, 3)
    assert replica.partition.low_watermark == 0
    assert fetch(C, 2)
    assert replica.partition.low_watermark == 2
    del replica.brokers.statuses[C]
    assert replica.partition.low_watermark == 3


def test_a_low_watermark_is_unknown_while_a_live_follower_has_not_fetched(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.fetch(B)
    assert replica.partition.low_watermark == NO_OFFSET
    del replica.brokers.statuses[C]
    assert replica.partition.low_watermark == 0


def test_only_a_follower_takes_over_what_a_leader_has_forgotten(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A], replicas=(A,))
    replica.append(2)
    assert replica.partition.advance_log_start(1) is False
    assert replica.partition.log.log_start_offset == 0


# -- the high watermark and the minimum


def test_a_high_watermark_that_stays_where_it_is_did_not_rise(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.append(5)
    replica.fetch(B, 3)
    assert replica.fetch(C, 3).high_watermark_advanced
    assert not replica.fetch(B, 4).high_watermark_advanced


@pytest.mark.parametrize("holds", [True, False])
def test_below_the_minimum_nothing_rises_and_nobody_is_told_so(tmp_path: Path, holds: bool) -> None:
    replica = Replica(tmp_path, min_insync_replicas=2, holds_under_min_isr=holds)
    replica.lead([A])
    replica.append(2, acks=1)
    assert not replica.partition.raise_high_watermark(replica.now_ms)
    assert replica.high_watermark == 0


def test_as_many_replicas_as_there_are_is_enough(tmp_path: Path) -> None:
    replica = Replica(tmp_path, min_insync_replicas=2)
    replica.lead([A], replicas=(A,))
    assert replica.partition.has_enough_replicas()
    replica.lead([A], partition_epoch=1)
    assert not replica.partition.has_enough_replicas()
    replica.lead([A, B], partition_epoch=2)
    assert replica.partition.has_enough_replicas()


# -- proposals and their answers


def test_a_proposal_names_each_members_broker_epoch(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.brokers.statuses.update({A: BrokerStatus(7), C: BrokerStatus(9)})
    replica.lead((A, B))
    replica.fetch(B)
    proposal = replica.fetch(C, broker_epoch=9).proposal
    assert proposal is not None
    assert proposal.new_isr == ((A, 7), (B, -1), (C, 9))


def test_a_leader_that_is_not_in_its_isr_proposes_none(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead((B,))
    with pytest.raises(InvariantViolation, match="proposes an ISR of"):
        propose_shrink(replica)


def test_an_answer_counts_once(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    proposal = propose_shrink(replica)
    assert replica.commit(proposal).isr_changed
    known = replica.partition.state
    late = proposal.state._replace(partition_epoch=known.partition_epoch + 5)
    assert replica.partition.on_isr_committed(proposal, late, now_ms=replica.now_ms) == IsrChange()
    assert replica.partition.state == known


def test_an_answer_that_comes_after_the_end_of_the_leadership_changes_nothing(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition
    replica.lead()
    proposal = propose_shrink(replica)
    partition.on_isr_rejected(proposal, None, ErrorCode.FENCED_LEADER_EPOCH, now_ms=replica.now_ms)
    assert partition.propose_shrink(replica.now_ms) is proposal
    assert partition.resign_if_fenced(replica.now_ms) is not None
    known = partition.state
    assert replica.commit(proposal) == IsrChange()
    assert partition.state == known


def test_a_refusal_of_a_proposal_that_the_controllers_word_has_ended_changes_nothing(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition
    replica.lead()
    proposal = propose_shrink(replica)
    replica.lead((A, B), partition_epoch=1)
    change = partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    assert not change.isr_changed
    assert partition.isr_state == CommittedIsr((A, B))


def test_a_refusal_that_shows_the_known_state_ends_the_proposal(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition
    replica.lead()
    proposal = propose_shrink(replica)
    change = partition.on_isr_rejected(
        proposal, partition.state, ErrorCode.INVALID_UPDATE_VERSION, now_ms=replica.now_ms
    )
    assert change.isr_changed
    assert partition.isr_state == CommittedIsr(THREE)


@pytest.mark.parametrize(
    "stored", [LeaderAndIsr(A, 2, THREE, 1), LeaderAndIsr(B, 1, THREE, 1)], ids=["a newer epoch", "another leader"]
)
def test_an_answer_that_shows_a_newer_epoch_or_another_leader_ends_the_leadership(
    tmp_path: Path, stored: LeaderAndIsr
) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    proposal = propose_shrink(replica)
    assert replica.partition.on_isr_committed(proposal, stored, now_ms=replica.now_ms).lost_leadership
    assert replica.partition.role is Role.NONE


def test_what_was_stored_instead_is_not_recorded_as_the_proposals(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    partition = replica.partition
    replica.lead()
    proposal = propose_shrink(replica)
    assert proposal.isr == (A,)
    change = partition.on_isr_committed(proposal, LeaderAndIsr(A, 1, (A, B), 1), now_ms=replica.now_ms)
    assert change.isr_changed
    assert change.decisions == ()
    assert replica.decided(DecisionKind.ISR_SHRUNK) == []
