"""What a leader knows of a follower: when it was caught up, and whether it may be in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kavka.model import TopicPartition
from kavka.replication.decide.fetching import FetchSpec
from kavka.replication.decide.idle_partitions import IdlePartitions
from kavka.replication.decide.lag_policy import TimeLagPolicy
from kavka.replication.decide.replica import NEVER_MS, AllEligible, BrokerStatus, RemoteReplica
from tests.unit.replication.replication_support import TOPIC_ID, B

if TYPE_CHECKING:
    from kavka.replication.decide.partition import Partition

SPEC = FetchSpec(TopicPartition("orders", 0), TOPIC_ID, 4, 1_000)
NOBODY = cast("Partition", None)


def fetch(replica: RemoteReplica, offset: int, *, end: int, at_ms: int, start: int = 0, broker_epoch: int = -1) -> bool:
    return replica.on_fetch(
        offset, log_start_offset=start, leader_end_offset=end, broker_epoch=broker_epoch, now_ms=at_ms
    )


def member(since_ms: int = 1_000) -> RemoteReplica:
    """In the ISR since the leader epoch began."""
    replica = RemoteReplica(B)
    replica.reset(since_ms, in_sync=True, keep_caught_up=False)
    return replica


def times(replica: RemoteReplica) -> tuple[int, int]:
    """When it was caught up last, and when it fetched last."""
    return replica.last_caught_up_ms, replica.last_fetch_ms


def known(replica: RemoteReplica) -> tuple[int, ...]:
    return (
        replica.log_start_offset,
        replica.log_end_offset,
        replica.last_fetch_leader_end_offset,
        replica.sent_high_watermark,
        replica.broker_epoch,
    )


def resting(replica: RemoteReplica, fetched_ms: int) -> IdlePartitions:
    """A session in which the replica is idle; its last fetch was at `fetched_ms`."""
    session = IdlePartitions({})
    session.fetched_ms = fetched_ms
    session.rest(("orders", 0), SPEC, NOBODY, replica)
    return session


# -- a leader epoch begins


def test_of_a_replica_that_never_fetched_nothing_is_known_and_it_was_never_caught_up() -> None:
    replica = RemoteReplica(B)
    assert known(replica) == (-1, -1, -1, -1, -1)
    assert times(replica) == (NEVER_MS, NEVER_MS)
    assert (replica.in_maximal_isr, replica.idle) == (False, None)
    assert not TimeLagPolicy(1 << 40).is_in_sync(replica, 0, 0), "however long a lag may last, and on any clock"


def test_a_leader_epoch_forgets_all_that_was_said_in_the_one_before() -> None:
    replica = member()
    fetch(replica, 5, end=5, at_ms=2_000, start=3, broker_epoch=7)
    replica.sent_high_watermark = 5
    assert known(replica) == (3, 5, 5, 5, 7)
    replica.reset(9_000, in_sync=False, keep_caught_up=True)
    assert known(replica) == (-1, -1, -1, -1, -1)
    assert times(replica) == (NEVER_MS, NEVER_MS)


def test_a_member_has_the_time_of_a_lag_to_show_up_and_a_lagging_one_no_more_than_that() -> None:
    replica = member()
    fetch(replica, 0, end=9, at_ms=5_000)
    assert times(replica) == (1_000, 5_000)
    replica.reset(8_000, in_sync=True, keep_caught_up=True)
    assert times(replica) == (1_000, 5_000), "the same leader goes on"
    replica.reset(9_000, in_sync=True, keep_caught_up=False)
    assert times(replica) == (9_000, 9_000)
    stranger = RemoteReplica(B)
    stranger.reset(9_500, in_sync=True, keep_caught_up=True)
    assert times(stranger) == (9_500, 9_500), "there is nothing to keep"


def test_what_was_fetched_in_the_epoch_before_does_not_make_a_replica_caught_up() -> None:
    replica = member()
    fetch(replica, 0, end=9, at_ms=5_000)
    replica.reset(8_000, in_sync=True, keep_caught_up=True)
    fetch(replica, 0, end=9, at_ms=8_100)
    assert times(replica) == (1_000, 8_100), "its fetch at 5,000 says nothing about this epoch"


# -- fetches


def test_a_fetch_at_the_log_end_is_caught_up_now_and_one_below_is_not() -> None:
    replica = member()
    assert fetch(replica, 4, end=5, at_ms=2_000)
    assert times(replica) == (1_000, 2_000)
    assert fetch(replica, 5, end=5, at_ms=3_000)
    assert times(replica) == (3_000, 3_000)
    assert fetch(replica, 6, end=6, at_ms=4_000)
    assert not fetch(replica, 6, end=6, at_ms=5_000), "its log end did not move"
    assert times(replica) == (5_000, 5_000)
    assert known(replica) == (0, 6, 6, -1, -1)


def test_kafka4485_a_fetch_that_reaches_the_end_as_it_was_at_the_fetch_before_is_caught_up_then() -> None:
    replica = member()
    fetch(replica, 0, end=10, at_ms=2_000)
    fetch(replica, 9, end=20, at_ms=3_000)
    assert times(replica) == (1_000, 3_000), "one record short of 10"
    fetch(replica, 20, end=30, at_ms=4_000)
    assert times(replica) == (3_000, 4_000)
    fetch(replica, 29, end=40, at_ms=5_000)
    assert times(replica) == (3_000, 5_000), "one record short of 30"


def test_the_time_at_which_a_replica_was_caught_up_never_goes_back() -> None:
    replica = member()
    fetch(replica, 5, end=5, at_ms=9_000)
    fetch(replica, 6, end=6, at_ms=7_000)
    assert times(replica) == (9_000, 7_000), "the clock went back"
    fetch(replica, 6, end=8, at_ms=7_500)
    assert replica.last_caught_up_ms == 9_000, "it has reached the end as it was at 7,000"
    fetch(replica, 8, end=8, at_ms=9_500)
    assert times(replica) == (9_500, 9_500)


def test_a_fetch_says_the_same_only_if_it_differs_in_its_time_alone() -> None:
    replica = member()
    replica.in_maximal_isr = True
    fetch(replica, 5, end=5, at_ms=2_000, start=3, broker_epoch=7)

    def same(offset: int = 5, *, start: int = 3, end: int = 5, broker_epoch: int = 7) -> bool:
        return replica.says_the_same(offset, log_start_offset=start, leader_end_offset=end, broker_epoch=broker_epoch)

    assert same()
    assert not same(4)
    assert not same(end=6)
    assert not same(6, end=6)
    assert not same(start=4)
    assert not same(broker_epoch=8)
    replica.on_same_fetch(3_000)
    assert times(replica) == (3_000, 3_000)
    replica.on_same_fetch(2_500)
    assert times(replica) == (3_000, 2_500)
    replica.in_maximal_isr = False
    assert not same(), "it may join by it"
    replica.in_maximal_isr = True
    fetch(replica, 4, end=5, at_ms=4_000, start=3, broker_epoch=7)
    assert not same(), "it was behind"


def test_nothing_waits_for_a_replica_that_may_not_join_until_it_fetches_again() -> None:
    replica = member()
    fetch(replica, 5, end=5, at_ms=2_000, start=3, broker_epoch=7)
    replica.forget_caught_up()
    assert known(replica) == (3, -1, -1, -1, 7)
    assert times(replica) == (NEVER_MS, NEVER_MS)
    assert fetch(replica, 5, end=6, at_ms=3_000)
    assert times(replica) == (NEVER_MS, 3_000)


# -- who may be in sync


@pytest.mark.parametrize(
    ("fetched_with", "status", "may"),
    [
        (7, None, False),  # not alive
        (7, BrokerStatus(7), True),
        (7, BrokerStatus(8), False),  # KIP-903: it was restarted since it fetched
        (7, BrokerStatus(6), False),
        (7, BrokerStatus(), True),  # its epoch is not known here
        (-1, BrokerStatus(7), True),  # an older fetch does not say it
        (-1, BrokerStatus(), True),
        (7, BrokerStatus(7, is_shutting_down=True), False),
        (-1, BrokerStatus(is_shutting_down=True), False),
    ],
)
def test_a_replica_may_be_in_sync_while_it_is_alive_and_the_same_that_fetched(
    fetched_with: int, status: BrokerStatus | None, *, may: bool
) -> None:
    replica = member()
    fetch(replica, 0, end=0, at_ms=2_000, broker_epoch=fetched_with)
    assert replica.is_eligible(status) is may


def test_without_a_cluster_to_ask_every_broker_is_alive_and_stays() -> None:
    assert AllEligible().status(B) == BrokerStatus(broker_epoch=-1, is_shutting_down=False)


# -- idle in a session


def test_the_fetches_of_an_idle_replica_are_those_of_its_session() -> None:
    replica = member()
    fetch(replica, 4, end=4, at_ms=2_000)
    session = resting(replica, 2_000)
    session.fetched_ms = 6_000
    assert times(replica) == (6_000, 6_000)
    session.fetched_ms = 1_500
    assert times(replica) == (2_000, 2_000), "the clock went back"


def test_a_replica_that_is_woken_keeps_the_time_of_the_sessions_last_fetch() -> None:
    replica = member()
    fetch(replica, 4, end=4, at_ms=2_000)
    session = resting(replica, 2_000)
    session.fetched_ms = 6_000
    replica.wake()
    assert replica.idle is None
    session.fetched_ms = 7_000
    assert times(replica) == (6_000, 6_000)
    resting(replica, 3_000)
    replica.wake()
    assert times(replica) == (6_000, 6_000), "what it knows is later"
    replica.wake()
    assert replica.idle is None


def test_whatever_changes_a_replica_wakes_it() -> None:
    def caught_up(replica: RemoteReplica) -> None:
        replica.last_caught_up_ms = 9_000

    def fetched(replica: RemoteReplica) -> None:
        replica.last_fetch_ms = 9_000

    def reset(replica: RemoteReplica) -> None:
        replica.reset(9_000, in_sync=True, keep_caught_up=False)

    def fetches(replica: RemoteReplica) -> None:
        fetch(replica, 4, end=4, at_ms=9_000)

    expected = {
        caught_up: (9_000, 6_000),
        fetched: (6_000, 9_000),
        reset: (9_000, 9_000),
        fetches: (9_000, 9_000),
        RemoteReplica.forget_caught_up: (NEVER_MS, NEVER_MS),
    }
    for change, expected_times in expected.items():
        replica = member()
        fetch(replica, 4, end=4, at_ms=2_000)
        session = resting(replica, 6_000)
        change(replica)
        assert (replica.idle, len(session)) == (None, 0), change.__name__
        assert times(replica) == expected_times, change.__name__
