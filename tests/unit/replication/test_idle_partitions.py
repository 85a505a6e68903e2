"""Partitions of a session that its fetches need not look at: who lays them aside, and what wakes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kavka.model import TopicPartition
from kavka.replication.decide.fetching import FetchSpec, PartitionKey
from kavka.replication.decide.idle_partitions import IdlePartitions
from kavka.replication.decide.replica import NEVER_MS, RemoteReplica
from tests.unit.replication.replication_support import TOPIC_ID, B

if TYPE_CHECKING:
    from kavka.replication.decide.partition import Partition

PARTITIONS = [cast("Partition", f"partition {index}") for index in range(3)]


def spec(index: int, offset: int = 4) -> FetchSpec:
    return FetchSpec(TopicPartition("orders", index), TOPIC_ID, offset, 1_000)


def key(index: int) -> PartitionKey:
    return ("orders", index)


class Fetch:
    """One that waits."""

    def __init__(self) -> None:
        self.woken: list[tuple[Partition, FetchSpec]] = []

    def on_woken(self, partition: Partition, spec: FetchSpec) -> None:
        self.woken.append((partition, spec))


class Session:
    """Three partitions that are all idle, since 5,000 ms."""

    def __init__(self) -> None:
        self.awake = {key(index): spec(index) for index in range(3)}
        self.partitions = IdlePartitions(self.awake)
        assert (len(self.partitions), self.partitions.follower) == (0, None)
        assert (self.partitions.fetched_ms, self.partitions.waiting) == (NEVER_MS, None)
        self.partitions.fetched_ms = 5_000
        self.replicas = [RemoteReplica(B) for _ in range(3)]
        for index, replica in enumerate(self.replicas):
            self.rest(index, replica)

    def rest(self, index: int, replica: RemoteReplica) -> None:
        self.partitions.rest(key(index), spec(index), PARTITIONS[index], replica)

    def is_idle(self) -> list[bool]:
        return [replica.idle is not None for replica in self.replicas]


def test_an_idle_partition_is_out_of_what_the_session_looks_at_and_its_replica_knows_where_it_is() -> None:
    session = Session()
    assert session.awake == {}
    assert len(session.partitions) == 3
    assert list(session.partitions.specs()) == [spec(0), spec(1), spec(2)]
    idle = session.replicas[1].idle
    assert idle is not None
    assert idle == (session.partitions, key(1), spec(1), PARTITIONS[1], session.replicas[1])


def test_what_is_woken_goes_to_the_end_of_the_line_and_the_fetch_that_waits_hears_of_it() -> None:
    session, fetch = Session(), Fetch()
    session.partitions.wake_key(key(2))
    session.partitions.waiting = fetch
    session.partitions.wake_key(key(0))
    assert list(session.awake.items()) == [(key(2), spec(2)), (key(0), spec(0))]
    assert session.is_idle() == [False, True, False]
    assert fetch.woken == [(PARTITIONS[0], spec(0))], "none waited before"
    assert session.replicas[0].last_fetch_ms == 5_000


def test_what_is_not_idle_is_not_woken() -> None:
    session, fetch = Session(), Fetch()
    idle = session.replicas[0].idle
    assert idle is not None
    session.partitions.wake(idle)
    session.awake.clear()
    session.partitions.waiting = fetch
    session.partitions.fetched_ms = 9_000
    session.partitions.wake(idle)
    session.partitions.wake_key(key(0))
    session.partitions.wake_key(key(7))
    assert (session.awake, fetch.woken) == ({}, [])
    assert session.replicas[0].last_fetch_ms == 5_000


def test_another_follower_or_the_same_in_another_registration_finds_all_awake() -> None:
    session = Session()
    session.partitions.ask_as((2, 7))
    assert session.is_idle() == [False] * 3
    for asks, stays_idle in [((2, 7), True), ((2, 8), False), ((3, 8), False), (None, False)]:
        session.rest(0, session.replicas[0])
        session.partitions.ask_as(asks)
        assert session.partitions.follower == asks
        assert session.is_idle()[0] is stays_idle, asks
        session.partitions.wake_all()
        assert len(session.partitions) == 0


def test_a_replica_is_idle_in_one_session_only() -> None:
    former, session = Session(), Session()
    former.partitions.fetched_ms = 6_000
    replica = former.replicas[1]
    session.partitions.wake_key(key(1))
    session.rest(1, replica)
    assert former.awake == {key(1): spec(1)}
    assert list(former.partitions.specs()) == [spec(0), spec(2)]
    idle = replica.idle
    assert idle is not None
    assert idle.partitions is session.partitions
    assert replica.last_fetch_ms == 6_000, "it keeps what the former session knew"
