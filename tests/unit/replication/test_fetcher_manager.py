"""Which fetcher follows which partition, when fetchers begin and end, and what they are told."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.replication.decide.fetch_state import FetchState, Stage
from kavka.replication.fetcher_manager import (
    FetcherManager,
    FetcherPorts,
    FetcherSettings,
    Followed,
    fetcher_settings,
)
from tests.kit.virtual_time import in_virtual_time

ONE, TWO = BrokerId(1), BrokerId(2)


class Address(NamedTuple):
    host: str
    port: int


class Partitions:
    """What a fetcher follows: (leader epoch, lag, stage) of each."""

    def __init__(self, settings: FetcherSettings) -> None:
        self.settings = settings
        self.states: dict[TopicPartition, SimpleNamespace] = {}
        self.log_starts: list[TopicPartition] = []

    def __len__(self) -> int:
        return len(self.states)

    def __iter__(self) -> Iterator[SimpleNamespace]:
        return iter(self.states.values())

    def get(self, topic_partition: TopicPartition) -> SimpleNamespace | None:
        return self.states.get(topic_partition)

    def on_log_start_moved(self, topic_partition: TopicPartition) -> None:
        self.log_starts.append(topic_partition)


class Fetcher:
    """One that only notes what it is told."""

    def __init__(
        self,
        leader_id: BrokerId,
        number: int,
        endpoint: Address | None,
        ports: FetcherPorts,
        settings: FetcherSettings,
        counts: object,
    ) -> None:
        self.leader_id = leader_id
        self.number = number
        self.endpoint = endpoint
        self.moves: list[tuple[Address, bool]] = []
        self.partitions = Partitions(settings)
        self.on_follow: Callable[[], None] = lambda: None
        self.closed = 0
        self.ending: asyncio.Task[None] | None = None
        made.append(self)

    def follow(self, share: Sequence[tuple[Any, int]]) -> None:
        for partition, leader_epoch in share:
            self.partitions.states[partition.topic_partition] = SimpleNamespace(
                partition=partition, leader_epoch=leader_epoch, lag=None, stage=Stage.FETCHING
            )
            self.on_follow()

    def unfollow(self, topic_partition: TopicPartition) -> None:
        del self.partitions.states[topic_partition]

    def set_endpoint(self, endpoint: Address, *, is_new: bool) -> None:
        self.moves.append((endpoint, is_new))

    def close(self) -> asyncio.Task[None] | None:
        self.closed += 1
        self.partitions.states.clear()
        return self.ending


made: list[Fetcher] = []
"""In the order in which they were."""


@pytest.fixture(autouse=True)
def _fetchers(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr("kavka.replication.fetcher_manager.ReplicaFetcher", Fetcher)


def manager(*, fetchers: int = 1) -> FetcherManager:
    return FetcherManager(cast("FetcherPorts", None), FetcherSettings(num_replica_fetchers=fetchers))


def tp(index: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, index)


def followed(*indices: int, leader: int = 1, epoch: int = 3) -> list[Followed]:
    return [
        Followed(cast("Any", SimpleNamespace(topic_partition=tp(index))), BrokerId(leader), epoch) for index in indices
    ]


def indices(fetcher: Fetcher) -> list[int]:
    return [topic_partition.partition for topic_partition in fetcher.partitions.states]


def state(of: FetcherManager, index: int) -> SimpleNamespace:
    found = of.state(tp(index))
    assert found is not None
    return cast("SimpleNamespace", found)


def test_a_fetcher_follows_the_settings_of_its_broker() -> None:
    config = SimpleNamespace(
        num_replica_fetchers=2,
        replica_fetch_wait_max_ms=3,
        replica_fetch_min_bytes=4,
        replica_fetch_max_bytes=5,
        replica_fetch_response_max_bytes=6,
        replica_fetch_backoff_ms=7,
        replica_socket_timeout_ms=8,
        inter_broker_protocol_version="2.6",
    )
    assert fetcher_settings(cast("Any", config)) == (2, 3, 4, 5, 6, 7, 8, "2.6")


# -- who follows what


def test_partitions_of_one_leader_share_a_fetcher_and_each_leader_has_its_own() -> None:
    one = manager()
    assert len(one) == 0
    one.follow(followed(0, 1))
    one.follow(followed(2, leader=2))
    one.follow(followed(3))
    assert [(each.leader_id, each.number, indices(each)) for each in made] == [(ONE, 0, [0, 1, 3]), (TWO, 0, [2])]
    assert len(one) == 2
    assert state(one, 3).leader_epoch == 3
    assert one.state(tp(9)) is None
    assert len(one.states()) == 4


def test_a_partition_goes_to_the_same_fetcher_number_everywhere() -> None:
    one = manager(fetchers=4)
    one.follow(followed(*range(8)))
    assert {fetcher.number: indices(fetcher) for fetcher in made} == {
        number: [index for index in range(8) if (31 * zlib.crc32(b"orders") + index) % 4 == number]
        for number in range(4)
    }


def test_a_partition_leaves_one_fetcher_before_it_comes_to_the_next() -> None:
    one = manager()
    one.follow(followed(0, 1))
    former = made[0]
    one.follow(followed(0, leader=2, epoch=4))
    assert (indices(former), indices(made[1]), former.closed) == ([1], [0], 0)
    one.follow(followed(1, leader=2, epoch=4))
    assert (indices(former), indices(made[1]), former.closed) == ([], [0, 1], 1)
    assert len(one) == 1
    one.follow(followed(0, leader=2, epoch=5))
    assert state(one, 0).leader_epoch == 5
    assert len(made) == 2, "the fetcher of that leader goes on"


def test_what_nobody_leads_is_not_fetched() -> None:
    one = manager()
    one.follow(followed(0, leader=NO_LEADER))
    assert (len(one), made) == (0, [])
    one.follow(followed(0, 1))
    one.follow(followed(0, leader=NO_LEADER, epoch=4) + followed(2))
    one.follow(followed(0, leader=NO_LEADER, epoch=4))
    one.unfollow([tp(0)])
    assert indices(made[0]) == [1, 2]
    assert one.state(tp(0)) is None
    one.follow(followed(0, epoch=5))
    assert indices(made[0]) == [1, 2, 0]


def test_what_is_followed_no_more_leaves_its_fetcher_which_ends_with_its_last() -> None:
    one = manager()
    one.follow(followed(0, 1))
    one.unfollow([tp(9), tp(0)])
    assert (indices(made[0]), made[0].closed, one.state(tp(0))) == ([1], 0, None)
    one.unfollow([tp(1)])
    assert (made[0].closed, len(one)) == (1, 0)
    one.follow(followed(1))
    assert len(made) == 2, "it begins anew"


def test_no_fetcher_ends_while_partitions_are_given_out() -> None:
    """A disk that fails just then unfollows in between."""
    one = manager()
    one.follow(followed(0))
    made[0].on_follow = lambda: one.unfollow([tp(0)])
    one.follow(followed(0, epoch=4) + followed(1))
    assert (indices(made[0]), made[0].closed) == ([1], 0)
    made[0].on_follow = lambda: one.unfollow([tp(1), tp(2)])
    one.follow(followed(2))
    assert (made[0].closed, len(one)) == (1, 0), "it ends when all are given out"


def test_a_failure_while_partitions_are_given_out_leaves_later_ones_to_end() -> None:
    def fails() -> None:
        raise RuntimeError("a bug")

    one = manager()
    one.follow(followed(0))
    made[0].on_follow = fails
    with pytest.raises(RuntimeError):
        one.follow(followed(1))
    made[0].on_follow = lambda: None
    one.unfollow([tp(0), tp(1)])
    assert len(one) == 0


def test_a_leader_hears_of_a_log_start_from_the_fetcher_that_follows_it() -> None:
    one = manager()
    one.follow(followed(0) + followed(1, leader=2))
    one.on_log_start_moved(tp(1))
    one.on_log_start_moved(tp(9))
    assert [fetcher.partitions.log_starts for fetcher in made] == [[], [tp(1)]]


# -- where leaders are


def test_a_fetcher_hears_of_its_leaders_address_when_that_changes() -> None:
    here, there = Address("here", 1), Address("there", 2)
    one = manager()
    one.set_endpoints({TWO: here})
    one.follow(followed(0) + followed(1, leader=2))
    assert [fetcher.endpoint for fetcher in made] == [None, here]
    one.set_endpoints({TWO: here, ONE: here})
    one.set_endpoints({TWO: here, ONE: here})
    one.set_endpoints({ONE: there})
    one.set_endpoints({ONE: there, TWO: here})
    assert made[0].moves == [(here, False), (there, True)], "at first it was not known"
    assert made[1].moves == [(here, False)], "it was away, and is back: it is looked for where it was last"


# -- settings


def test_other_settings_hold_from_the_next_request_on() -> None:
    one = manager()
    one.follow(followed(0, 1))
    settings = FetcherSettings(wait_max_ms=7)
    one.configure(settings)
    assert made[0].partitions.settings is settings
    assert (len(made), indices(made[0])) == (1, [0, 1])
    one.follow(followed(2, leader=2))
    assert made[1].partitions.settings is settings


def test_partitions_move_where_there_are_more_or_fewer_fetchers() -> None:
    one = manager()
    one.follow(followed(*range(8)))
    for number in (4, 1):
        one.configure(FetcherSettings(num_replica_fetchers=number))
        assert len(one) == number
        assert len(one.states()) == 8
        assert {cast("SimpleNamespace", each).leader_epoch for each in one.states()} == {3}


# -- questions


def test_lag_and_failures_are_those_of_all_fetchers() -> None:
    one = manager()
    assert (one.max_lag, one.failed_partitions) == (0, 0)
    one.follow(followed(0, 1) + followed(2, leader=2))
    assert (one.max_lag, one.failed_partitions) == (0, 0)
    state(one, 1).lag = 5
    state(one, 2).lag = 3
    state(one, 0).stage = state(one, 2).stage = Stage.FAILED
    assert (one.max_lag, one.failed_partitions) == (5, 2)
    assert [cast("FetchState", each).lag for each in one.states()] == [None, 5, 3]


# -- the end


def in_loop(scenario: Callable[[], Awaitable[None]]) -> None:
    in_virtual_time(scenario)


def test_the_end_waits_for_all_that_runs_also_of_fetchers_that_ended_before() -> None:
    async def scenario() -> None:
        one = manager()
        one.follow(followed(0) + followed(1, leader=2) + followed(2, leader=3))
        for seconds, fetcher in zip((3.0, 2.0), made, strict=False):
            fetcher.ending = asyncio.ensure_future(asyncio.sleep(seconds))
        one.unfollow([tp(0)])
        await one.stop()
        assert asyncio.get_running_loop().time() == pytest.approx(3.0)
        assert [fetcher.closed for fetcher in made] == [1, 1, 1]
        assert (len(one), one.state(tp(1))) == (0, None)
        one.on_log_start_moved(tp(1))
        assert made[1].partitions.log_starts == []
        one.follow(followed(5))
        assert (len(one), len(made)) == (0, 3), "nothing is followed after the end"

    in_loop(scenario)


def test_a_fetcher_that_has_ended_already_is_not_waited_for() -> None:
    async def scenario() -> None:
        one = manager()
        one.follow(followed(0))
        made[0].ending = asyncio.ensure_future(asyncio.sleep(0))
        await asyncio.sleep(1.0)
        one.abort()
        assert not one._ending
        await one.stop()
        assert asyncio.get_running_loop().time() == pytest.approx(1.0)

    in_loop(scenario)


def test_who_has_ended_is_kept_no_longer() -> None:
    async def scenario() -> None:
        one = manager()
        one.follow(followed(0))
        made[0].ending = asyncio.ensure_future(asyncio.sleep(1.0))
        one.unfollow([tp(0)])
        assert len(one._ending) == 1
        await asyncio.sleep(2.0)
        assert len(one._ending) == 0

    in_loop(scenario)
