"""The values around a partition: what a request and an outcome say if nothing is said, and snapshots."""

from __future__ import annotations

import uuid

import pytest

from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.replication.decide.fetching import FetchOutcome, FetchParams, FetchSpec, partition_key
from kavka.replication.decide.lag_policy import TimeLagPolicy
from kavka.replication.decide.partition_results import (
    NOTHING_MOVED,
    FollowerFetchResult,
    FollowingChange,
    IsrChange,
    LeadershipChange,
    PartitionRefusal,
)
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.partition_snapshot import RemoteSnapshot
from kavka.replication.decide.replica import BrokerStatus, RemoteReplica
from tests.unit.replication.replication_support import TOPIC_ID, A, B

NO_ID = uuid.UUID(int=0)
ORDERS = TopicPartition("orders", 3)


def test_an_order_or_an_answer_that_is_too_late_changed_nothing() -> None:
    assert PartitionRefusal(ErrorCode.FENCED_LEADER_EPOCH, "too late", ()).decisions == ()
    assert LeadershipChange(is_stale=True)[1:] == (False, False, False, ())
    assert FollowingChange(is_stale=True)[1:] == (False, False, ())
    assert IsrChange() == (False, False, False, ())
    assert NOTHING_MOVED == FollowerFetchResult(False, None) == (False, None, False)


def test_a_refusal_is_the_requests_error_with_its_reason_and_what_is_to_be_recorded() -> None:
    decision = Decision(DecisionKind.FENCED, 0, A, "because")
    with pytest.raises(RequestError, match="too late") as refused:
        raise PartitionRefusal(ErrorCode.FENCED_LEADER_EPOCH, "too late", (decision,))
    assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert isinstance(refused.value, PartitionRefusal)
    assert refused.value.decisions == (decision,)


@pytest.mark.setting("replica.lag.time.max.ms", "kavka.eligible.leader.replicas.enable")
def test_without_settings_the_rules_are_those_of_apache_kafkas_defaults() -> None:
    # ReplicationConfigs.REPLICA_LAG_TIME_MAX_MS_DEFAULT
    rules = PartitionRules()
    assert rules.lag_policy == TimeLagPolicy(30_000)
    assert rules.eligibility.status(B) == BrokerStatus()
    assert rules.holds_under_min_isr is False


def test_a_partition_goes_by_its_topics_id_where_the_client_names_it_so() -> None:
    assert partition_key(FetchSpec(ORDERS, TOPIC_ID, 0, 1)) == (TOPIC_ID.int, 3)
    assert partition_key(FetchSpec(ORDERS, NO_ID, 0, 1)) == ("orders", 3)


def test_what_was_not_found_is_empty_and_what_was_not_said_is_unknown() -> None:
    spec = FetchSpec(ORDERS, TOPIC_ID, 7, 100)
    assert spec[4:] == (-1, -1, -1)
    assert partition_key(spec) == (TOPIC_ID.int, 3)
    outcome = FetchOutcome(spec, ErrorCode.NONE)
    assert (outcome.high_watermark, outcome.last_stable_offset, outcome.log_start_offset) == (-1, -1, -1)
    assert (outcome.chunks, outcome.size_bytes, outcome.available_bytes) == ((), 0, 0)
    assert (outcome.diverging_epoch, outcome.aborted_transactions, outcome.preferred_read_replica) == (None, None, -1)
    params = FetchParams(500, 1, 100, read_committed=True)
    assert (params.only_leader, params.rack) == (True, ""), "a follower serves only who says that it may"


def test_a_replica_that_is_given_its_snapshot_is_what_it_was() -> None:
    replica = RemoteReplica(B)
    replica.reset(1_000, in_sync=True, keep_caught_up=False)
    replica.on_fetch(20, log_start_offset=3, leader_end_offset=40, broker_epoch=7, now_ms=2_000)
    snapshot = RemoteSnapshot.of(replica)
    assert snapshot == (B, 3, 20, 40, 1_000, 2_000, 7)
    again = RemoteReplica(B)
    snapshot.give_to(again)
    assert RemoteSnapshot.of(again) == snapshot
