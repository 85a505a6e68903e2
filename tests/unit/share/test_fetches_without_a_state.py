"""A fetch of share-partitions whose state cannot be had now, or that are refused: clients must go on with what else
they read, and not ask as fast as they can."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final

import pytest

from kavka.broker.share.fetches import RETRY_S, FetchWish, Given, ShareFetches
from kavka.broker.share.led_share_partitions import LeaderPorts, ShareLeaders
from kavka.broker.share.persister import StoredState
from kavka.broker.share.sessions import PartitionId, ShareSession
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.errors import ErrorCode, RequestError
from kavka.log.decide.indexes import AbortedTransaction
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from kavka.replication.purgatory import Purgatory
from kavka.share.decide.acquired_records import Wish
from kavka.share.decide.share_partition import ShareLimits, Write
from tests.kit.virtual_time import in_virtual_time

ORDERS, BILLS = (PartitionId(uuid.UUID(int=number), 0) for number in (1, 2))
NAMES: Final = {ORDERS: "orders", BILLS: "bills"}
MAX_WAIT_MS: Final = 500
READ_S: Final = 5.0
"""How long a state is asked for where the coordinator does not answer."""
LATE_S: Final = 0.2


def record(stamp: ProducerStamp = NO_STAMP) -> bytes:
    builder = BatchBuilder()
    builder.append(0, None, b"record")
    return builder.build(stamp)


class _Log:
    """Of one record."""

    log_start_offset = 0
    log_end_offset = high_watermark = last_stable_offset = 1

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return [AbortedTransaction(7, 0, 0, 1)]


class _Hosted:
    """A partition that is led here, with one record."""

    is_leader = True
    leader_epoch = 0
    log = _Log()

    def __init__(self, partition: PartitionId) -> None:
        self.topic_id = partition.topic_id
        self.topic_partition = NAMES[partition], 0
        self.data = record()

    def read(self, offset: int, max_bytes: int, **_how: object) -> Any:
        return SimpleNamespace(chunks=[memoryview(self.data)], next_offset=1)


Answer = Callable[[], Coroutine[None, None, StoredState]]


async def known() -> StoredState:
    return StoredState(0, 0, [])


async def late() -> StoredState:
    await asyncio.sleep(LATE_S)
    return StoredState(0, 0, [])


async def silent() -> StoredState:
    await asyncio.sleep(READ_S)
    raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def refusing(code: ErrorCode) -> Answer:
    async def refuse() -> StoredState:
        raise RequestError(code)

    return refuse


class _Broker:
    """Leads partitions whose states are answered like this, and counts how often they are asked for."""

    def __init__(self, **answers: Answer) -> None:
        loop = asyncio.get_running_loop()
        self.asked = 0
        self._answers = answers
        hosted = {name: _Hosted(partition) for partition, name in NAMES.items()}
        replicas: Any = SimpleNamespace(
            require_partition=lambda topic, index: hosted[topic], fetch_purgatory=Purgatory("Fetch", loop)
        )
        self.hosted = hosted
        self.settings: Any = SimpleNamespace(
            limits=ShareLimits(5, 30_000, 200), reads_committed=False, reset="earliest"
        )
        self._tasks: set[asyncio.Task[None]] = set()
        ports: Any = SimpleNamespace(
            loop=loop,
            settings=lambda group_id: self.settings,
            spawn=lambda work: self._tasks.add(loop.create_task(work)),
            write_timeout_s=lambda: 1.0,
        )
        assert set(LeaderPorts._fields) >= {"loop", "settings", "spawn", "write_timeout_s"}
        self.refused = 0
        persister: Any = SimpleNamespace(read=self._read, write=self._write)
        self.leaders = ShareLeaders(replicas, persister, ports)
        nothing: Any = None
        self._fetches = ShareFetches(loop, replicas, self.leaders, nothing)
        self._session = ShareSession("workers", "one", lambda _session: None, lambda: 0.0)
        self._session.change(NAMES, ())

    async def _read(self, key: ShareKey, leader_epoch: int, patience_s: float) -> StoredState:
        self.asked += 1
        return await self._answers[NAMES[PartitionId(key.topic_id, 0)]]()

    async def _write(self, key: ShareKey, write: Write, **_how: object) -> None:
        self.refused += 1
        raise RequestError(ErrorCode.INVALID_REQUEST)

    async def fetch(self, *, max_wait_ms: int = MAX_WAIT_MS, **refused: ErrorCode) -> list[Given]:
        """What a member gets of all, in one session. `refused`: of which of them it is not even asked."""
        context: Any = SimpleNamespace(hold=lambda waiting: None, release=lambda waiting: None)
        asked = FetchWish("workers", "one", Wish(500, 500), max_wait_ms, 1, 1 << 20)
        names = {name: partition for partition, name in NAMES.items() if name in self._answers}
        partitions = [(partition, name) for name, partition in names.items() if name not in refused]
        refusals = {names[name]: error for name, error in refused.items()}
        return await self._fetches.fetch(asked, partitions, refusals, self._session, context, lambda _found: {})


def play(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    in_virtual_time(scenario)


def test_a_coordinator_that_is_away_is_no_error_of_the_partition() -> None:
    """Java's consumer throws out of poll for an error that it does not expect of a fetch, and this is one."""

    async def scenario() -> None:
        broker = _Broker(orders=refusing(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert await broker.fetch() == []

    play(scenario)


@pytest.mark.parametrize("refusal", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_what_clients_expect_is_told(refusal: ErrorCode) -> None:
    async def scenario() -> None:
        (given,) = await _Broker(orders=refusing(refusal)).fetch()
        assert (given.partition, given.error) == (ORDERS, refusal)

    play(scenario)


@pytest.mark.parametrize("answer", [silent, late, refusing(ErrorCode.COORDINATOR_NOT_AVAILABLE)])
def test_records_do_not_wait_for_the_state_of_another_partition(answer: Answer) -> None:
    async def scenario() -> None:
        (given,) = await _Broker(orders=answer, bills=known).fetch()
        assert (given.partition, bool(given.records)) == (BILLS, True)
        assert asyncio.get_running_loop().time() == 0

    play(scenario)


def test_a_fetch_does_not_wait_for_a_state_beyond_its_time() -> None:
    """franz-go closes the connection five seconds after it, and with it the session and all that is held."""

    async def scenario() -> None:
        assert await _Broker(orders=silent).fetch() == []
        assert asyncio.get_running_loop().time() == pytest.approx(MAX_WAIT_MS / 1000, abs=0.01)

    play(scenario)


def test_a_fetch_ends_when_the_state_comes_that_it_waits_for() -> None:
    async def scenario() -> None:
        (given,) = await _Broker(orders=late).fetch()
        assert (given.partition, bool(given.records)) == (ORDERS, True)
        assert asyncio.get_running_loop().time() == LATE_S

    play(scenario)


def test_a_state_that_cannot_be_had_is_asked_for_again_while_the_fetch_waits() -> None:
    async def scenario() -> None:
        broker = _Broker(orders=refusing(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert await broker.fetch(max_wait_ms=int(3.5 * RETRY_S * 1000)) == []
        assert broker.asked == 4

    play(scenario)


def errors(given: list[Given]) -> dict[str, ErrorCode]:
    return {NAMES[one.partition]: one.error for one in given}


@pytest.mark.parametrize("refusal", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_refusal_that_was_told_before_ends_no_fetch(refusal: ErrorCode) -> None:
    """Of a topic that is deleted. Clients that go on with it until their group's coordinator takes it from them asked
    as fast as they could."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        broker = _Broker(orders=known, bills=known)
        assert errors(await broker.fetch(orders=refusal)) == {"orders": refusal}
        assert errors(await broker.fetch(orders=refusal)) == {"orders": refusal, "bills": ErrorCode.NONE}
        assert loop.time() == 0
        for round_ in (1, 2):
            assert errors(await broker.fetch(orders=refusal)) == {"orders": refusal}
            assert loop.time() == pytest.approx(round_ * MAX_WAIT_MS / 1000, abs=0.01)

    play(scenario)


def test_nor_does_one_of_all_that_is_asked_for() -> None:
    async def scenario() -> None:
        broker = _Broker(orders=known)
        for round_ in range(3):
            assert errors(await broker.fetch(orders=ErrorCode.UNKNOWN_TOPIC_ID)) == {
                "orders": ErrorCode.UNKNOWN_TOPIC_ID
            }
            assert asyncio.get_running_loop().time() == pytest.approx(round_ * MAX_WAIT_MS / 1000, abs=0.01)

    play(scenario)


def test_nor_does_one_of_who_leads_no_more() -> None:
    async def scenario() -> None:
        broker = _Broker(orders=refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        for round_ in range(3):
            assert errors(await broker.fetch()) == {"orders": ErrorCode.NOT_LEADER_OR_FOLLOWER}
            assert asyncio.get_running_loop().time() == pytest.approx(round_ * MAX_WAIT_MS / 1000, abs=0.01)

    play(scenario)


def test_another_refusal_is_told_at_once_and_so_is_the_same_after_a_fetch_that_brought_none() -> None:
    async def scenario() -> None:
        broker = _Broker(orders=known, bills=known)
        await broker.fetch(orders=ErrorCode.UNKNOWN_TOPIC_ID, max_wait_ms=0)
        again = await broker.fetch(orders=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert errors(again) == {"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        await broker.fetch(max_wait_ms=0)
        await broker.fetch(orders=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert asyncio.get_running_loop().time() == 0

    play(scenario)


def test_records_end_a_fetch_that_was_refused_before() -> None:
    async def scenario() -> None:
        broker = _Broker(orders=known, bills=late)
        await broker.fetch(orders=ErrorCode.UNKNOWN_TOPIC_ID)
        given = await broker.fetch(orders=ErrorCode.UNKNOWN_TOPIC_ID)
        assert errors(given) == {"orders": ErrorCode.UNKNOWN_TOPIC_ID, "bills": ErrorCode.NONE}
        assert asyncio.get_running_loop().time() == LATE_S

    play(scenario)


def test_an_acknowledgement_of_what_is_not_loaded_does_not_wait() -> None:
    """Nobody holds anything there."""

    async def scenario() -> None:
        broker = _Broker(orders=silent)
        key = ShareKey("workers", *ORDERS)
        for _ in range(2):
            with pytest.raises(RequestError) as refused:
                broker.leaders.loaded(key, "orders")
            assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await broker.fetch()

    play(scenario)


def test_a_state_whose_writes_are_refused_for_good_is_not_loaded_anew_without_a_pause() -> None:
    """Records of an aborted transaction are passed over, which is written; each refusal has the state loaded anew."""

    async def scenario() -> None:
        broker = _Broker(orders=known)
        broker.settings.reads_committed = True
        broker.hosted["orders"].data = record(ProducerStamp(7, 0, 0, is_transactional=True))
        assert await broker.fetch(max_wait_ms=int(3.5 * RETRY_S * 1000)) == []
        assert broker.refused == 4
        assert broker.asked == 4

    play(scenario)
