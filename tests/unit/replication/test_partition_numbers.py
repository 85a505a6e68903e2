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
