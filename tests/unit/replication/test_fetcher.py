"""The flow that follows one leader: when it connects, what it asks and how long it waits, by a clock that only tests
move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, cast

import pytest

from kavka import logger
from kavka.errors import ConnectionFailed, ConnectionRefused, ErrorCode
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.network import Network
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kavka.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kavka.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from kavka.replication.decide.followed_partitions import FetcherCounts, FetcherSettings, LocalPorts
from kavka.replication.decide.throttle import Throttle
from kavka.replication.fetcher import FetcherPorts, ReplicaFetcher
from tests.kit.virtual_time import in_virtual_time
from tests.unit.replication.fetching_support import NOW_MS, TOPIC_ID, Node, World, batch

LEADER = BrokerId(1)
EPOCH = 3
Line = tuple[str, str, dict[str, Any]]


class Address(NamedTuple):
    host: str
    port: int


ADDRESS = Address("one", 9092)


class Asked(NamedTuple):
    at_ms: float
    key: ApiKey
    version: int
    timeout_ms: int
    message: Any


def now_ms() -> float:
    """To the microsecond: a pause that is a thousandth too long is seen."""
    return round(asyncio.get_running_loop().time() * 1000, 3)


class Leader:
    """A leader broker that the test speaks for. It lets fetches wait as long as they may."""

    def __init__(self) -> None:
        self.opened: list[tuple[float, str, int, str, int]] = []
        self.refusals: list[ConnectionFailed] = []
        self.asked: list[Asked] = []
        self.errors: list[ErrorCode] = []
        """Of the next fetches, for partition 0."""
        self.refuses_whole = False
        self.ends: dict[int, int] = {}
        """By timestamp asked for: what ListOffsets tells of partition 0."""
        self.is_apache_kafka = False
        """It lets fetches wait, whatever comes behind them."""
        self.silence_s = 0.0
        """Before it tells where epochs end."""
        self.hangs_up = False
        """Closes each connection with its next answer."""
        self.hastened = asyncio.Event()
        self.connections: list[Connection] = []

    async def open(
        self, network: Network, host: str, port: int, *, client_id: str, connect_timeout_ms: int
    ) -> Connection:
        self.opened.append((now_ms(), host, port, client_id, connect_timeout_ms))
        if self.refusals:
            raise self.refusals.pop(0)
        self.connections.append(Connection(self))
        return self.connections[-1]

    def times(self, key: ApiKey = ApiKey.FETCH) -> list[float]:
        return [one.at_ms for one in self.asked if one.key is key]

    async def answer(self, key: ApiKey, message: Any) -> Any:
        if key is ApiKey.OFFSET_FOR_LEADER_EPOCH:
            if not self.is_apache_kafka:
                self.hastened.set()
            await asyncio.sleep(self.silence_s)
            return OffsetForLeaderEpochResponse(topics=[])
        if key is ApiKey.LIST_OFFSETS:
            (topic,) = message.topics
            partitions = [
                ListOffsetsPartitionResponse(partition_index=p.partition_index, offset=self.ends[p.timestamp])
                for p in topic.partitions
            ]
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=partitions)])
        if self.refuses_whole:
            return FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, session_id=0)
        if self.errors:
            data = PartitionData(partition_index=0, error_code=self.errors.pop(0), high_watermark=0)
            topic = FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=[data])
            return FetchResponse(session_id=55, responses=[topic])
        self.hastened.clear()
        try:
            async with asyncio.timeout(message.max_wait_ms / 1000):
                await self.hastened.wait()
        except TimeoutError:
            pass
        return FetchResponse(session_id=55)


class Connection:
    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._closed = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        return not self._closed.done()

    def close(self) -> None:
        if self.is_open:
            self._closed.set_result(None)

    async def request(self, key: ApiKey, version: int, message: Any, answer_type: Any, *, timeout_ms: int) -> Any:
        self._leader.asked.append(Asked(now_ms(), key, version, timeout_ms, message))
        answer = asyncio.ensure_future(self._leader.answer(key, message))
        try:
            await asyncio.wait({answer, self._closed}, return_when=asyncio.FIRST_COMPLETED)
            if not self.is_open:
                raise ConnectionFailed("closed")
            result = await answer
            if self._leader.hangs_up:
                self.close()
        finally:
            answer.cancel()
        assert isinstance(result, answer_type)
        return result


class Follower:
    """Broker 2 with its logs, and fetcher 7 from the leader."""

    def __init__(self, *, settings: FetcherSettings | None = None, address: Address | None = ADDRESS) -> None:
        self.node: Node = World().node(2)
        self.leader = Leader()
        self.counts = FetcherCounts()
        self.bugs: list[BaseException] = []
        local = LocalPorts(self.node.logs, BrokerId(2), lambda: 42, lambda: NOW_MS, Throttle(BrokerId(2)))
        ports = FetcherPorts(asyncio.get_running_loop(), cast("Network", None), local, self.bugs.append)
        self.fetcher = ReplicaFetcher(LEADER, 7, address, ports, settings or FetcherSettings(), self.counts)

    def follow(self, *indices: int, leader_epoch: int = EPOCH) -> None:
        share = []
        for index in indices:
            topic_partition = TopicPartition("orders", index)
            state = LeaderAndIsr(LEADER, leader_epoch, (LEADER, BrokerId(2)), leader_epoch)
            self.node.apply(topic_partition, state, is_fetched=False)
            share.append((self.node.partition(topic_partition), leader_epoch))
        self.fetcher.follow(share)


def fetching(monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Follower], Awaitable[None]], **how: Any) -> None:
    async def main() -> None:
        follower = Follower(**how)
        monkeypatch.setattr("kavka.replication.fetcher.PeerConnection", follower.leader)
        await scenario(follower)
        task = follower.fetcher.close()
        if task is not None:
            await asyncio.wait({task})
        assert follower.bugs == []

    in_virtual_time(main)


@pytest.fixture
def lines() -> Iterator[list[Line]]:
    """Log lines: (level, event, keys)."""
    written: list[Line] = []
    token = logger.sink.set(lambda level, event, keys: written.append((level, event, dict(keys))))
    yield written
    logger.sink.reset(token)


# -- one fetch after the other


def test_a_fetcher_connects_once_and_fetches_again_when_it_has_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0)
        await asyncio.sleep(1.75)
        leader = follower.leader
        assert leader.opened == [(0, "one", 9092, "broker-2-fetcher-7", 1_000)]
        assert leader.times() == [0, 500, 1_000, 1_500]
        assert {(one.key, one.version, one.timeout_ms) for one in leader.asked} == {(ApiKey.FETCH, 17, 5_500)}
        assert follower.counts.fetches == 3

    fetching(monkeypatch, scenario)


def test_an_answer_is_waited_for_no_longer_than_a_socket_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0)
        await asyncio.sleep(0.1)
        assert [one.timeout_ms for one in follower.leader.asked] == [2_000]

    fetching(monkeypatch, scenario, settings=FetcherSettings(socket_timeout_ms=2_000))


def test_a_leader_that_refuses_all_is_asked_again_after_the_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.refuses_whole = True
        follower.follow(0)
        await asyncio.sleep(1.0)
        assert follower.leader.times() == [0, 300, 600, 900]

    fetching(monkeypatch, scenario, settings=FetcherSettings(backoff_ms=300))


def test_while_nothing_is_to_be_fetched_a_fetcher_waits_for_the_time_that_is_said_or_for_an_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.errors = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH]
        follower.follow(0)
        await asyncio.sleep(20.0)
        assert follower.leader.times() == [0, 1_000], "after the back-off; and it was fenced then"
        follower.follow(0, leader_epoch=EPOCH + 1)
        await asyncio.sleep(0.1)
        assert follower.leader.times() == [0, 1_000, 20_000]
        assert len(follower.leader.opened) == 1

    fetching(monkeypatch, scenario)


def test_a_delayed_partition_is_asked_for_after_its_back_off_though_others_are_fetched_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.errors = [ErrorCode.KAFKA_STORAGE_ERROR]
        follower.follow(0, 1)
        await asyncio.sleep(10.2)
        fetches = [one for one in follower.leader.asked if one.key is ApiKey.FETCH]
        named = [(one.at_ms, p.partition) for one in fetches for t in one.message.topics for p in t.partitions]
        assert [at_ms for at_ms, partition in named if partition == 0] == [0, 10_000]
        assert len(fetches) == 22, "every half a second of the other one alone"

    fetching(monkeypatch, scenario, settings=FetcherSettings(backoff_ms=10_000))


def test_no_connection_is_made_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.errors = [ErrorCode.FENCED_LEADER_EPOCH]
        follower.follow(0)
        await asyncio.sleep(1.0)
        follower.leader.connections[0].close()
        for _ in range(5):
            follower.fetcher.set_endpoint(Address("two", 9093), is_new=False)
            await asyncio.sleep(1.0)
        assert len(follower.leader.opened) == 1
        follower.follow(0, leader_epoch=EPOCH + 1)
        await asyncio.sleep(0.1)
        assert [(at_ms, host) for at_ms, host, *_ in follower.leader.opened] == [(0, "one"), (6_000, "two")]

    fetching(monkeypatch, scenario)


# -- connections that fail


def pauses(leader: Leader) -> list[float]:
    times = [at_ms for at_ms, *_ in leader.opened]
    return [later - earlier for earlier, later in pairwise(times)]


def test_where_nobody_listens_a_leader_is_tried_ten_times_a_second_at_last(
    monkeypatch: pytest.MonkeyPatch, lines: list[Line]
) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.refusals = [ConnectionRefused("nobody listens") for _ in range(7)]
        lines.clear()
        follower.follow(0)
        await asyncio.sleep(1.0)
        assert pauses(follower.leader) == [10, 20, 40, 80, 100, 100, 100]
        assert lines[0] == (
            "info",
            "leader unreachable",
            {"leader": LEADER, "fetcher": 7, "partitions": 1, "why": str(ConnectionRefused("nobody listens"))},
        )
        assert lines[1:] == [("info", "leader reachable again", {"leader": LEADER, "fetcher": 7, "attempts": 7})]

    fetching(monkeypatch, scenario)


def test_a_host_that_does_not_answer_is_tried_after_ever_longer_pauses_up_to_the_back_off(
    monkeypatch: pytest.MonkeyPatch, lines: list[Line]
) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.refusals = [ConnectionFailed("cut") for _ in range(9)]
        follower.follow(0)
        await asyncio.sleep(5.0)
        assert pauses(follower.leader) == [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]
        lines.clear()
        follower.leader.connections[-1].close()
        await asyncio.sleep(0.1)
        assert follower.leader.opened[-1][0] == 5_010, "after an answer the next failure is a first one"
        assert [event for _, event, _ in lines] == ["leader unreachable"]

    fetching(monkeypatch, scenario)


def test_pauses_are_doubled_sixteen_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.refusals = [ConnectionFailed("cut") for _ in range(20)]
        follower.follow(0)
        await asyncio.sleep(10_000)
        assert pauses(follower.leader)[-5:] == [327_680, *[655_360] * 4]

    fetching(monkeypatch, scenario, settings=FetcherSettings(backoff_ms=1 << 40))


def test_after_a_connection_was_lost_everything_is_named_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0)
        await asyncio.sleep(0.6)
        follower.leader.connections[0].close()
        await asyncio.sleep(0.1)
        assert [one.message.session_epoch for one in follower.leader.asked] == [0, 1, 0]
        assert [len(one.message.topics) for one in follower.leader.asked] == [1, 0, 1]
        assert follower.leader.times() == [0, 500, 610]

    fetching(monkeypatch, scenario)


def test_on_a_connection_that_follows_one_that_was_closed_behind_an_answer_everything_is_named_anew(
    monkeypatch: pytest.MonkeyPatch, lines: list[Line]
) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.hangs_up = True
        lines.clear()
        follower.follow(0)
        await asyncio.sleep(0.6)
        leader = follower.leader
        assert [at_ms for at_ms, *_ in leader.opened] == [0, 500], "no request failed: nothing is waited for"
        sessions = [(one.message.session_id, one.message.session_epoch) for one in leader.asked]
        assert sessions == [(0, 0), (55, 0)], "it ends the former session, and begins one"
        assert [len(one.message.topics) for one in leader.asked] == [1, 1]
        assert lines == []

    fetching(monkeypatch, scenario)


def test_a_leader_whose_address_is_not_known_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0)
        await asyncio.sleep(100.0)
        assert follower.leader.opened == []
        follower.fetcher.set_endpoint(Address("two", 9093), is_new=True)
        await asyncio.sleep(0.1)
        assert [one[:3] for one in follower.leader.opened] == [(100_000, "two", 9093)]

    fetching(monkeypatch, scenario, address=None)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_leader_that_is_elsewhere_now_is_left_at_once_and_one_that_was_not_known_to_be_alive_is_not(
    monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0)
        await asyncio.sleep(0.1)
        follower.fetcher.set_endpoint(Address("two", 9093), is_new=is_new)
        await asyncio.sleep(0.2)
        assert [host for _, host, *_ in follower.leader.opened] == (["one", "two"] if is_new else ["one"])

    fetching(monkeypatch, scenario)


def test_an_address_that_comes_while_a_failure_is_waited_out_is_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.refusals = [ConnectionFailed("cut") for _ in range(9)]
        follower.follow(0)
        await asyncio.sleep(2.0)
        follower.leader.refusals.clear()
        follower.fetcher.set_endpoint(Address("two", 9093), is_new=True)
        await asyncio.sleep(0.1)
        assert follower.leader.opened[-1][:2] == (2_000, "two")

    fetching(monkeypatch, scenario)


# -- fetches that are hastened


def test_a_fetch_that_waits_while_others_want_to_be_fetched_is_hastened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0)
        await asyncio.sleep(0.1)
        follower.follow(1)
        await asyncio.sleep(0.005)
        follower.follow(2)
        await asyncio.sleep(0.2)
        leader = follower.leader
        (asks,) = [one for one in leader.asked if one.key is ApiKey.OFFSET_FOR_LEADER_EPOCH]
        assert (asks.at_ms, asks.version, asks.timeout_ms) == (110, 4, 30_000)
        assert (asks.message.replica_id, asks.message.topics) == (2, [])
        assert leader.times() == [0, 110]
        follower.follow(3)
        await asyncio.sleep(0.1)
        assert leader.times(ApiKey.OFFSET_FOR_LEADER_EPOCH) == [110, 315], "the next one may be hastened again"

    fetching(monkeypatch, scenario)


def test_a_leader_that_lets_its_fetches_wait_all_the_same_is_asked_for_nothing_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.is_apache_kafka = True
        follower.follow(0)
        await asyncio.sleep(0.1)
        for index in range(1, 9):
            follower.follow(index)
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        assert follower.leader.times() == [0, 500]
        assert follower.leader.times(ApiKey.OFFSET_FOR_LEADER_EPOCH) == [110]

    fetching(monkeypatch, scenario)


def test_where_no_fetch_is_under_way_nothing_is_hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.refuses_whole = True
        follower.follow(0)
        await asyncio.sleep(0.1)
        follower.follow(1)
        await asyncio.sleep(0.1)
        assert follower.leader.times() == [0]
        assert follower.leader.times(ApiKey.OFFSET_FOR_LEADER_EPOCH) == []

    fetching(monkeypatch, scenario)


def test_before_the_first_fetch_nothing_is_hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.leader.silence_s = 0.4
        log = follower.node.logs.get_or_create(TopicPartition("orders", 0), TOPIC_ID, NOW_MS)
        log.append_as_follower(batch(b"v", leader_epoch=1), NOW_MS)
        follower.follow(0)
        await asyncio.sleep(0.1)
        follower.follow(1)
        await asyncio.sleep(0.2)
        assert follower.leader.times(ApiKey.OFFSET_FOR_LEADER_EPOCH) == [0], "its question is on its way"

    fetching(monkeypatch, scenario, settings=FetcherSettings(inter_broker_protocol_version="2.6"))


def test_a_fetch_that_is_answered_in_time_is_not_hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0)
        await asyncio.sleep(0.495)
        follower.follow(1)
        await asyncio.sleep(0.2)
        assert follower.leader.times() == [0, 500]
        assert follower.leader.times(ApiKey.OFFSET_FOR_LEADER_EPOCH) == []

    fetching(monkeypatch, scenario)


def test_where_many_are_followed_a_fetch_may_wait_a_little_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(*range(400))
        await asyncio.sleep(0.1)
        follower.follow(*range(400, 420))
        await asyncio.sleep(0.1)
        assert follower.leader.times(ApiKey.OFFSET_FOR_LEADER_EPOCH) == [121], "a millisecond for each twenty"

    fetching(monkeypatch, scenario)


@pytest.mark.parametrize(("release", "hastens"), [("2.2", False), ("2.3", True)])
def test_only_a_release_that_says_who_asks_can_hasten(
    monkeypatch: pytest.MonkeyPatch, release: str, *, hastens: bool
) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0)
        await asyncio.sleep(0.1)
        follower.follow(1)
        await asyncio.sleep(0.1)
        assert bool(follower.leader.times(ApiKey.OFFSET_FOR_LEADER_EPOCH)) is hastens

    fetching(monkeypatch, scenario, settings=FetcherSettings(inter_broker_protocol_version=release))


# -- what must be known first


def test_before_2_7_epochs_are_asked_for_before_the_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        log = follower.node.logs.get_or_create(TopicPartition("orders", 0), TOPIC_ID, NOW_MS)
        log.append_as_follower(batch(b"v", leader_epoch=1), NOW_MS)
        follower.follow(0)
        await asyncio.sleep(0.001)
        first = follower.leader.asked[0]
        assert (first.key, first.version, first.timeout_ms) == (ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, 4_000)
        assert first.message.topics[0].partitions[0].leader_epoch == 1
        state = next(iter(follower.fetcher.partitions))
        assert state.last_error == "UNKNOWN_TOPIC_OR_PARTITION", "the answer leaves it out"

    settings = FetcherSettings(inter_broker_protocol_version="2.6", socket_timeout_ms=4_000)
    fetching(monkeypatch, scenario, settings=settings)


@pytest.mark.parametrize(("ends_at", "asks_begin"), [(0, False), (90, True)])
def test_out_of_range_the_leaders_end_is_asked_for_and_its_begin_if_it_does_not_end_before(
    monkeypatch: pytest.MonkeyPatch, ends_at: int, *, asks_begin: bool
) -> None:
    async def scenario(follower: Follower) -> None:
        log = follower.node.logs.get_or_create(TopicPartition("orders", 0), TOPIC_ID, NOW_MS)
        log.append_as_follower(batch(b"v", leader_epoch=1), NOW_MS)
        follower.leader.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
        follower.leader.ends = {-1: ends_at, -2: 70}
        follower.follow(0)
        await asyncio.sleep(0.1)
        asked = [one for one in follower.leader.asked if one.key is ApiKey.LIST_OFFSETS]
        assert [one.message.topics[0].partitions[0].timestamp for one in asked] == ([-1, -2] if asks_begin else [-1])
        assert {(one.version, one.timeout_ms, one.message.replica_id) for one in asked} == {(9, 30_000, 2)}
        assert log.log_end_offset == (70 if asks_begin else 0)

    fetching(monkeypatch, scenario)


# -- the end


def test_a_fetcher_that_is_closed_leaves_nothing_open_and_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        fetcher = follower.fetcher
        assert fetcher.close() is None, "it has not begun"
        follower.follow(0)
        await asyncio.sleep(0.1)
        follower.follow(1)
        task = fetcher.close()
        assert task is not None
        await asyncio.wait({task})
        assert task.cancelled()
        assert not follower.leader.connections[0].is_open
        assert len(fetcher.partitions) == 0
        await asyncio.sleep(1.0)
        assert follower.leader.times(ApiKey.OFFSET_FOR_LEADER_EPOCH) == []
        assert len(follower.leader.times()) == 1

    fetching(monkeypatch, scenario)


def test_a_bug_ends_the_fetcher_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        bug = RuntimeError("a bug")
        follower.leader.refusals = [cast("ConnectionFailed", bug)]
        follower.follow(0)
        await asyncio.sleep(1.0)
        assert follower.bugs == [bug]
        follower.bugs.clear()

    fetching(monkeypatch, scenario)
