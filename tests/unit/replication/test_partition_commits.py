"""What is committed: acks, min.insync.replicas, and high watermarks in both roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode, InvariantViolation, RequestError
from kavka.model import NO_LEADER, LeaderAndIsr
from kavka.replication.decide.divergence import end_offset_for_epoch
from kavka.replication.decide.partition import Role
from tests.unit.log.log_support import NOW_MS, batch
from tests.unit.replication.replication_support import LAG_MS, A, B, C, Replica


def shrink_to_leader(replica: Replica) -> None:
    replica.now_ms += LAG_MS + 1
    replica.commit(replica.partition.propose_shrink(replica.now_ms))
    assert replica.isr == (A,)


def test_a_leader_alone_commits_with_the_append(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A], replicas=(A,))
    assert replica.append(3) == 3
    assert replica.high_watermark == 3


def test_the_high_watermark_is_the_least_log_end_of_the_isr(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead()
    replica.append(5)
    assert not replica.fetch(B, 5).high_watermark_advanced
    assert replica.fetch(C, 3).high_watermark_advanced
    assert replica.high_watermark == 3
    assert not replica.fetch(C, 3).high_watermark_advanced


def test_acks_all_is_refused_before_the_append_where_too_few_are_in_sync(tmp_path: Path) -> None:
    replica = Replica(tmp_path, min_insync_replicas=2)
    replica.lead([A])
    with pytest.raises(RequestError) as refused:
        replica.append()
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert replica.end_offset == 0
    (decision,) = replica.decided(DecisionKind.PRODUCE_REFUSED)
    assert decision.evidence["isr"] == [A]
    assert replica.append(acks=1) == 1


def test_more_replicas_than_there_are_cannot_be_asked_for(tmp_path: Path) -> None:
    """As Kafka does since 3.7: a topic of one replica with min.insync.replicas of 2 takes writes."""
    replica = Replica(tmp_path, min_insync_replicas=2)
    replica.lead([A], replicas=(A,))
    assert replica.append() == 1
    assert replica.high_watermark == 1


def test_s23_an_isr_that_fell_below_the_minimum_after_the_append_is_not_enough(tmp_path: Path) -> None:
    replica = Replica(tmp_path, min_insync_replicas=2)
    replica.lead([A, B], replicas=(A, B))
    replica.fetch(B)
    replica.append()
    assert replica.partition.has_enough_replicas()
    shrink_to_leader(replica)
    assert not replica.partition.has_enough_replicas()
    assert replica.end_offset == 1, "the record stays, and may yet be committed"
    assert replica.high_watermark == 0
    proposal = replica.fetch(B).proposal
    replica.commit(proposal)
    assert replica.high_watermark == 1


def test_s21_what_is_written_below_the_minimum_is_not_committed(tmp_path: Path) -> None:
    """KIP-966: with the last replica it would be lost, though a consumer had seen it."""
    replica = Replica(tmp_path, min_insync_replicas=2)
    replica.lead([A, B])
    replica.append(2)
    replica.fetch(B)
    replica.append(1)
    shrink_to_leader(replica)
    replica.append(4, acks=1)
    assert (replica.high_watermark, replica.end_offset) == (2, 7)


def test_a_new_leader_below_the_minimum_shows_what_it_was_elected_with(tmp_path: Path) -> None:
    """The acknowledged records are among them: reads go on (case 1 of the article)."""
    replica = Replica(tmp_path, B, min_insync_replicas=2)
    log = replica.partition.log
    replica.partition.become_follower(LeaderAndIsr(A, 1, (A, B), 0), (A, B, C), now_ms=NOW_MS)
    replica.partition.append_as_follower(batch(5, leader_epoch=1), leader_epoch=1, wall_ms=replica.now_ms)
    replica.partition.set_follower_high_watermark(3)
    assert log.high_watermark == 3
    assert replica.lead([B], leader_epoch=2, partition_epoch=1).high_watermark_advanced
    assert log.high_watermark == 5
    replica.append(2, acks=1)
    assert log.high_watermark == 5


def test_s21_with_eligible_leader_replicas_nothing_is_committed_below_the_minimum(tmp_path: Path) -> None:
    replica = Replica(tmp_path, B, min_insync_replicas=2, holds_under_min_isr=True)
    log = replica.partition.log
    replica.partition.become_follower(LeaderAndIsr(A, 1, (A, B), 0), (A, B, C), now_ms=NOW_MS)
    replica.partition.append_as_follower(batch(5, leader_epoch=1), leader_epoch=1, wall_ms=replica.now_ms)
    replica.partition.set_follower_high_watermark(3)
    replica.lead([B], leader_epoch=2, partition_epoch=1)
    assert log.high_watermark == 3
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.commit(proposal)
    assert log.high_watermark == 5


def test_kip207_the_latest_offset_is_not_told_before_the_epoch_start_is_committed(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.append(4)
    replica.lead([A, B], leader_epoch=2, partition_epoch=1)
    assert replica.partition.offsets_lag
    replica.fetch(B, 3)
    assert replica.partition.offsets_lag
    replica.fetch(B, 4)
    assert not replica.partition.offsets_lag


def test_s4_a_leader_that_writes_nothing_still_knows_where_its_epoch_starts(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A], leader_epoch=3)
    replica.append(4)
    replica.lead([A], leader_epoch=5, partition_epoch=1)
    assert end_offset_for_epoch(replica.partition.log, 4) == (3, 4)
    assert end_offset_for_epoch(replica.partition.log, 5) == (5, 4)


def test_s6_another_epoch_of_the_same_leader_asks_for_truncation(tmp_path: Path) -> None:
    replica = Replica(tmp_path, B)
    partition = replica.partition
    first = partition.become_follower(LeaderAndIsr(A, 1, (A, B), 0), (A, B), now_ms=NOW_MS)
    again = partition.become_follower(LeaderAndIsr(A, 1, (A, B), 1), (A, B), now_ms=NOW_MS)
    missed = partition.become_follower(LeaderAndIsr(A, 4, (A, B), 4), (A, B), now_ms=NOW_MS)
    assert [change.needs_truncation for change in (first, again, missed)] == [True, False, True]
    assert partition.become_follower(LeaderAndIsr(A, 3, (A, B), 3), (A, B), now_ms=NOW_MS).is_stale


def test_a_follower_takes_nothing_of_another_epoch(tmp_path: Path) -> None:
    replica = Replica(tmp_path, B)
    partition = replica.partition
    partition.become_follower(LeaderAndIsr(A, 2, (A, B), 0), (A, B), now_ms=NOW_MS)
    late = partition.append_as_follower(batch(1, leader_epoch=1), leader_epoch=1, wall_ms=NOW_MS)
    assert late is None
    assert replica.end_offset == 0
    replica.lead([B], leader_epoch=3, partition_epoch=1, replicas=(A, B))
    assert partition.append_as_follower(batch(1, leader_epoch=3), leader_epoch=3, wall_ms=NOW_MS) is None
    assert not partition.set_follower_high_watermark(1)


def test_a_followers_high_watermark_is_bounded_by_its_log_and_does_not_fall(tmp_path: Path) -> None:
    replica = Replica(tmp_path, B)
    partition = replica.partition
    partition.become_follower(LeaderAndIsr(A, 1, (A, B), 0), (A, B), now_ms=NOW_MS)
    partition.append_as_follower(batch(3, leader_epoch=1), leader_epoch=1, wall_ms=NOW_MS)
    assert partition.set_follower_high_watermark(10)
    assert replica.high_watermark == 3
    assert not partition.set_follower_high_watermark(1)
    assert replica.high_watermark == 3


def test_a_partition_without_a_leader_is_followed_and_refuses_writes(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A], replicas=(A, B))
    replica.append(1)
    change = replica.partition.become_follower(LeaderAndIsr(NO_LEADER, 2, (A,), 1), (A, B), now_ms=NOW_MS)
    assert change.was_leader
    assert replica.partition.role is Role.FOLLOWER
    with pytest.raises(RequestError) as refused:
        replica.append()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_r9_a_high_watermark_that_fell_in_a_leader_epoch_halts(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A])
    replica.append(3)
    replica.partition.log.set_high_watermark(1)
    with pytest.raises(InvariantViolation, match="fell from 3 to 1"):
        replica.append(1)


def test_r8_records_that_a_member_of_the_isr_lacks_are_not_committed_but_halt(tmp_path: Path) -> None:
    """The second look, at the ISR itself: what the first one goes by is made to lie."""
    replica = Replica(tmp_path)
    replica.lead([A, C, B])
    replica.append(5)
    replica.fetch(B, 2)
    lagging = replica.partition.remote_replica(B)
    assert lagging is not None
    lagging.in_maximal_isr = False
    replica.now_ms += LAG_MS + 1  # Nor does it seem to wait for its entry.
    with pytest.raises(InvariantViolation, match="high watermark 5 is above the log end 2 of broker 2"):
        replica.fetch(C, 5)
    assert replica.high_watermark == 0


def test_consumers_read_at_a_follower_up_to_its_own_high_watermark(tmp_path: Path) -> None:
    replica = Replica(tmp_path, B)
    partition = replica.partition
    partition.become_follower(LeaderAndIsr(A, 1, (A, B), 0), (A, B), now_ms=NOW_MS)
    for _ in range(3):
        partition.append_as_follower(
            batch(1, leader_epoch=1, base_offset=replica.end_offset), leader_epoch=1, wall_ms=NOW_MS
        )
    partition.set_follower_high_watermark(2)

    def read(offset: int, *, only_leader: bool) -> int:
        return partition.read(
            offset, 1000, current_leader_epoch=1, read_committed=False, min_one_batch=True, only_leader=only_leader
        ).next_offset

    assert read(0, only_leader=False) == 2
    assert read(2, only_leader=False) == 2
    with pytest.raises(RequestError) as refused:
        read(0, only_leader=True)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
