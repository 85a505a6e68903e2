"""Numbers of a partition that clients say, or that whoever waits feels."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.errors import ErrorCode, RequestError
from tests.unit.replication.replication_support import A, B, C, Replica


def test_acks_of_minus_one_ask_for_all_in_sync_replicas_and_no_other_number_does(tmp_path: Path) -> None:
    replica = Replica(tmp_path, min_insync_replicas=2)
    replica.lead([A])
    for acks in (-2, 0, 1):
        replica.append(acks=acks)
    with pytest.raises(RequestError) as refused:
        replica.append(acks=-1)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert replica.end_offset == 3


def test_a_replica_that_was_refused_is_proposed_again_half_a_second_later(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    replica.now_ms += 499
    assert replica.fetch(C).proposal is None
    replica.now_ms += 1
    assert replica.fetch(C).proposal is not None


def test_a_follower_that_fetches_on_while_nothing_is_new_was_caught_up_at_its_last_fetch(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B], replicas=(A, B))
    replica.fetch(B)
    remote = replica.partition.remote_replica(B)
    assert remote is not None
    for _ in range(3):
        replica.now_ms += 20_000
        replica.fetch(B)
        assert (remote.last_caught_up_ms, remote.last_fetch_ms) == (replica.now_ms, replica.now_ms)


def test_a_refused_replica_that_comes_back_behind_holds_nothing_up(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.lead([A, B])
    replica.append(1)
    replica.fetch(B)
    proposal = replica.fetch(C).proposal
    assert proposal is not None
    replica.partition.on_isr_rejected(proposal, None, ErrorCode.INELIGIBLE_REPLICA, now_ms=replica.now_ms)
    replica.append(2)
    replica.now_ms += 500
    assert replica.fetch(C, 0).proposal is None
    replica.fetch(B, 3)
    assert replica.high_watermark == 3, "what it knew before the refusal counts no more"
